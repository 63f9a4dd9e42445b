"""The pipeline: its settings, and the door to its runs."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Generic, TypeVar, final

from millpond._base import StopSignal, at_least_one
from millpond.flow._capacity import Capacity
from millpond.flow._disposal import Discard
from millpond.flow._gate import Watermarks
from millpond.flow._journal import Journal
from millpond.flow._recipe import Recipe
from millpond.flow._retry import Retry
from millpond.flow._run import Run
from millpond.flow._supplier import Supply

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
S = TypeVar("S")
T = TypeVar("T")
Q = TypeVar("Q")
V = TypeVar("V")


@final
class Pipeline(Generic[I, T, Q, V]):
    """Pairs a scarce local resource T with a slow external answer Q for every item.

    While answers are awaited, no local resource is held: T and Q are produced side by
    side, claimed as a pair, and consumed. A failure is data: one outcome per item. Two
    kinds of error end the run besides, because every other item would meet them too:
    `UsageError` and `InputError`, mistakes in code or settings.

    Args:
        supply: Makes a T. An async function, or an async context manager function whose
            exit disposes of the T.
        request: Awaits the answer Q to an item (or to what `send` made of it).
        consume: Called with T, Q and the item; its result is the item's value.
        send: Prepares and sends the request while it holds a physical permit. Only for
            requests that are locally heavy to send.
        discard_t: Disposes of a T, plain or async; called exactly once for each.
        discard_q: The same for a Q.
        capacity: What may go on at once. None: `Capacity.resolve()`.
        ttl_t: Seconds that a T may live before it is used. None: for ever.
        ttl_q: Seconds that a Q may wait before it is used. None: for ever, because an
            answer already paid for is not thrown away unasked.
        t_high: T in stock and in production at which the supply pauses. None: derived.
        t_low: At which it resumes. None: derived.
        q_high: Q in stock and in flight at which requests pause. None: derived.
        q_low: At which they resume. None: derived.
        request_timeout: Seconds for sending and awaiting an answer, retries included.
        consume_timeout: Seconds for consuming a pair.
        discard_timeout: Seconds for disposing of one resource.
        grace: Seconds that consumers get to finish after `Run.cancel`.
        supply_failures: Failures of `supply` in a row that end the run.
        retry: Which failures of a request are worth another attempt. None: none is.
        journal: Where answers and ends are kept, and recalled from.
        key: Names an item in the journal: a function from item to str, unique per item.
        max_unread: Outcomes that may lie unread before no more items are pulled.

    Raises:
        UsageError: If an argument can never work.
        ValueError: If a number is out of its range.

    Example:
        >>> import asyncio
        >>> async def boot():
        ...     return "sandbox"
        >>> async def ask(problem):
        ...     return problem.upper()
        >>> async def grade(sandbox, answer, problem):
        ...     return f"{answer} in {sandbox}"
        >>> async def main() -> None:
        ...     pipeline = Pipeline(supply=boot, request=ask, consume=grade)
        ...     async with pipeline.run(["a", "b"]) as run:
        ...         async for outcome in run:
        ...             print(outcome.item, outcome.status, outcome.value)
        >>> asyncio.run(main())
        a ok A in sandbox
        b ok B in sandbox
    """

    def __init__(  # noqa: PLR0913 - one argument per decision that is the user's
        self,
        *,
        supply: Supply[T],
        request: Callable[[I], Awaitable[Q]],
        consume: Callable[[T, Q, I], Awaitable[V]],
        send: Callable[[I], Awaitable[I]] | None = None,
        discard_t: Discard[T] | None = None,
        discard_q: Discard[Q] | None = None,
        capacity: Capacity | None = None,
        ttl_t: float | None = 300.0,
        ttl_q: float | None = None,
        t_high: int | None = None,
        t_low: int | None = None,
        q_high: int | None = None,
        q_low: int | None = None,
        request_timeout: float | None = 95.0,
        consume_timeout: float | None = 60.0,
        discard_timeout: float = 5.0,
        grace: float = 5.0,
        supply_failures: int = 5,
        retry: Retry | None = None,
        journal: Journal | None = None,
        key: Callable[[I], str] | None = None,
        max_unread: int = 100,
    ) -> None:
        capacity = capacity or Capacity.resolve()
        self._recipe: Recipe[I, V] = Recipe(
            supply=supply,
            request=request,
            consume=consume,
            send=send,
            discard_t=discard_t,
            discard_q=discard_q,
            capacity=capacity,
            ttl_t=ttl_t,
            ttl_q=ttl_q,
            t_marks=_marks(capacity.t_marks, t_high, t_low, cap=capacity.t_slots),
            q_marks=_marks(capacity.q_marks, q_high, q_low, cap=capacity.q_pending),
            request_timeout=request_timeout,
            consume_timeout=consume_timeout,
            discard_timeout=discard_timeout,
            grace=grace,
            supply_failures=supply_failures,
            retry=retry,
            journal=journal,
            key=key,
            max_unread=max_unread,
        )

    @property
    def capacity(self) -> Capacity:
        """What may go on at once."""
        return self._recipe.capacity

    def with_journal(self, journal: Journal, key: Callable[[I], str]) -> "Pipeline[I, T, Q, V]":
        """Return the same pipeline, whose runs keep their answers in *journal*.

        Args:
            journal: Where answers and ends are kept, and recalled from.
            key: Names an item in it: unique, and the same in the next run.
        """
        twin = copy(self)
        twin._recipe = replace(self._recipe, journal=journal, key=key)
        return twin

    def run(
        self,
        items: Iterable[I] | AsyncIterable[I],
        *,
        stop: StopSignal | None = None,
        target: int | None = None,
    ) -> Run[I, V]:
        """Return a run over *items*, to be used in an ``async with``.

        Args:
            items: Pulled one at a time, and only as fast as outcomes are read.
            stop: When it is asked for, the run is stopped (not cancelled).
            target: Stop after this many items ended ok. None: all of them.
        """
        if target is not None:
            at_least_one("target", target)
        return Run(self._recipe, items, stop=stop, target=target)


def _marks(derived: Watermarks, high: int | None, low: int | None, *, cap: int) -> Watermarks:
    """Overrides are clipped: high to [1, cap], low to [0, high]."""
    top = derived.high if high is None else min(max(high, 1), cap)
    bottom = min(derived.low, top) if low is None else min(max(low, 0), top)
    return Watermarks(high=top, low=bottom)
