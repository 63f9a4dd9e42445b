"""What a job is: an async function whose parameters are its options."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Mapping
from collections.abc import Sequence as SequenceABC
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, final

from millpond.errors import InputError, UsageError
from millpond.flow import Outcome, Pipeline, RunStatistics, Status

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
V = TypeVar("V")
P = ParamSpec("P")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Generic[I, V]):
    """What a run of a job brought, for its report."""

    outcomes: SequenceABC[Outcome[I, V]]
    """One per item, in the order in which they ended."""
    statistics: RunStatistics
    wall_seconds: float

    @property
    def by_status(self) -> dict[Status, int]:
        """How many items ended in which way."""
        return dict(self.statistics.by_status)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a job says of its results.

    Args:
        text: For people, printed on standard output.
        facts: For programs, merged into the object that ``--json`` prints.
        violated: A promise that turned out not to hold; the command ends with exit code 4.
    """

    text: str = ""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    violated: str = ""


@final
@dataclass(frozen=True, slots=True)
class Job(Generic[I, V]):
    """A piece of work over many items, ready to run.

    Args:
        work: The pipeline that every item goes through.
        items: The items; pulled only as fast as they are worked on.
        key: Names an item in the record: unique, and the same in the next run.
        report: Makes the report. None: counts by status.
        total: How many items there are, if it is known; for the progress only.
        set_aside: Lines of input that were not usable, listed at the end. It may grow
            while items are pulled.
    """

    work: Pipeline[I, Any, Any, V]
    items: Iterable[I] | AsyncIterable[I] = field(kw_only=True)
    key: Callable[[I], str] = field(kw_only=True)
    report: Callable[[Results[I, V]], Report] | None = field(default=None, kw_only=True)
    total: int | None = field(default=None, kw_only=True)
    set_aside: SequenceABC[object] = field(default=(), kw_only=True)


@final
class JobDefinition(Generic[P]):
    """A function marked with `job`. Called, it is the plain function."""

    def __init__(self, function: Callable[P, Any]) -> None:
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            msg = (
                f"@job needs an `async def` that returns a Job, or yields one to clean up"
                f" afterwards; {function!r} is neither"
            )
            raise UsageError(msg)
        self.function = function
        self.name: str = getattr(function, "__name__", "job")
        self.__doc__ = function.__doc__

    @property
    def signature(self) -> inspect.Signature:
        """The options of the job, annotations evaluated."""
        return inspect.signature(self.function, eval_str=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - as the function
        return self.function(*args, **kwargs)

    def open(self, options: Mapping[str, object]) -> AbstractAsyncContextManager[Job[Any, Any]]:
        """Return the job for *options*; leaving cleans up what it had started."""
        function: Callable[..., Any] = self.function
        if inspect.isasyncgenfunction(function):
            return _checked(asynccontextmanager(function)(**options), self.name)
        return _checked(_plain(function(**options)), self.name)


def job(function: Callable[P, Any]) -> JobDefinition[P]:
    """Mark an async function as a job that ``millpond run`` can run.

    Its parameters become the command's options: annotate them, give defaults, and
    describe them under ``Args:``. It returns a `Job`; or it yields one, and what follows
    the ``yield`` is the clean-up.

    Example:
        >>> from millpond.flow import Pipeline
        >>> @job
        ... async def shout(words: str = "a b"):
        ...     async def nothing(): ...
        ...     async def ask(word): return word.upper()
        ...     async def take(_, answer, word): return answer
        ...     work = Pipeline(supply=nothing, request=ask, consume=take)
        ...     return Job(work, items=words.split(), key=str)
        >>> shout.name, list(shout.signature.parameters)
        ('shout', ['words'])
    """
    return JobDefinition(function)


@asynccontextmanager
async def _plain(made: Coroutine[Any, Any, object]) -> AsyncGenerator[object]:
    yield await made


@asynccontextmanager
async def _checked(
    manager: AbstractAsyncContextManager[Any], name: str
) -> AsyncGenerator[Job[Any, Any]]:
    try:
        made = await manager.__aenter__()
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error), where=f"job {name!r}") from error
    async with AsyncExitStack() as stack:
        stack.push_async_exit(manager)
        if not isinstance(made, Job):
            msg = f"job {name!r} must return (or yield) a millpond.jobs.Job, got {made!r}"
            raise UsageError(msg)
        yield made
