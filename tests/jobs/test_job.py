"""What `@job` makes of a function, and how a job is opened and cleaned up."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import pytest

from millpond.errors import InputError, UsageError
from millpond.flow import Pipeline
from millpond.jobs import Job, JobDefinition, job

NO_OPTIONS: Mapping[str, object] = {}


async def supply() -> None:
    """Make nothing."""


async def request(item: str) -> str:
    """Answer with the item itself."""
    return item


async def consume(_: None, answer: str, __: str) -> str:
    """Take the answer."""
    return answer


def make_job(*items: str) -> Job[str, str]:
    """Return the smallest job."""
    work = Pipeline(supply=supply, request=request, consume=consume)
    return Job(work, items=items, key=str)


async def test_called_it_is_the_plain_function() -> None:
    """The decorator takes nothing away: the job can be called, and keeps its docstring."""

    @job
    async def shout(words: str, *, loud: bool = True) -> tuple[str, bool]:
        """Say it."""
        return words, loud

    assert await shout("a", loud=False) == ("a", False)
    assert shout.name == "shout"
    assert shout.__doc__ == "Say it."


def test_its_options_are_the_functions_parameters_with_their_types() -> None:
    """Annotations that are strings are evaluated, so a file may say `annotations`."""

    async def lines(items: "Path", *, model: "str | None" = None) -> object:
        return items, model

    parameters = job(lines).signature.parameters
    assert list(parameters) == ["items", "model"]
    assert parameters["items"].annotation is Path
    assert parameters["model"].annotation == str | None
    assert parameters["model"].default is None


def plain() -> object:
    """Return at once, as no job does."""
    return make_job()


@pytest.mark.parametrize("thing", [plain, lambda: None, int, 3], ids=repr)
def test_only_an_async_function_can_be_a_job(thing: Callable[[], object]) -> None:
    """Said when it is decorated, with what is needed and what came."""
    with pytest.raises(UsageError, match=r"needs an `async def`") as caught:
        job(thing)
    assert repr(thing) in str(caught.value)


async def test_a_function_that_returns_a_job_is_opened_with_its_options() -> None:
    """The options arrive by name."""
    seen: list[tuple[int, str]] = []

    @job
    async def plain_one(number: int, *, text: str = "") -> Job[str, str]:
        seen.append((number, text))
        return make_job("a")

    async with plain_one.open({"number": 3, "text": "x"}) as opened:
        assert opened.items == ("a",)
    assert seen == [(3, "x")]


def cleaning(log: list[str], made: object) -> JobDefinition[[]]:
    """Return a job that logs its clean-up."""

    @job
    async def cleaning_one() -> AsyncGenerator[object]:
        log.append("set up")
        try:
            yield made
        except RuntimeError as error:
            log.append(f"saw {error}")
            raise
        finally:
            log.append("cleaned up")

    return cleaning_one


async def test_a_job_that_yields_cleans_up_after_success() -> None:
    """What follows the yield runs when the block is left, not before."""
    log: list[str] = []
    async with cleaning(log, make_job()).open(NO_OPTIONS):
        log.append("ran")
    assert log == ["set up", "ran", "cleaned up"]


async def test_a_job_that_yields_cleans_up_after_failure() -> None:
    """The error is thrown into the job, and comes out unchanged."""
    log: list[str] = []
    error = RuntimeError("broken")
    with pytest.raises(RuntimeError) as caught:
        async with cleaning(log, make_job()).open(NO_OPTIONS):
            raise error
    assert caught.value is error
    assert log == ["set up", "saw broken", "cleaned up"]


async def test_what_is_not_a_job_is_refused_and_cleaned_up() -> None:
    """Something else than a Job is a mistake in the job, said with its name."""
    log: list[str] = []
    with pytest.raises(UsageError, match=r"'cleaning_one' must return .*Job, got 3"):
        async with cleaning(log, 3).open(NO_OPTIONS):
            log.append("ran")
    assert log[-1] == "cleaned up"
    assert "ran" not in log


async def test_a_value_error_of_the_job_is_about_its_options() -> None:
    """The job refuses a value in the usual way, and the command says whose option it was."""

    @job
    async def strict(number: int) -> Job[str, str]:
        msg = f"`number` must be >= 1, got {number}"
        raise ValueError(msg)

    with pytest.raises(InputError, match=r"job 'strict': `number` must be >= 1, got 0") as caught:
        async with strict.open({"number": 0}):
            pass
    assert caught.value.where == "job 'strict'"
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    "error", [InputError("no", where="a.txt:3", hint="mend it"), OSError("disk")], ids=repr
)
async def test_other_errors_of_the_job_pass_unchanged(error: Exception) -> None:
    """An `InputError` says where and what to do already; the rest is not about options."""

    @job
    async def failing() -> Job[str, str]:
        raise error

    with pytest.raises(type(error)) as caught:
        async with failing.open(NO_OPTIONS):
            pass
    assert caught.value is error


async def test_a_value_error_of_the_run_is_not_blamed_on_the_options() -> None:
    """Only what the job raises before it yields is about options."""
    log: list[str] = []
    error = ValueError("later")
    with pytest.raises(ValueError, match="later") as caught:
        async with cleaning(log, make_job()).open(NO_OPTIONS):
            raise error
    assert caught.value is error
    assert log == ["set up", "cleaned up"]


async def test_a_clean_up_that_fails_is_not_silent() -> None:
    """Its error comes out of the block."""

    @job
    async def leaky() -> AsyncGenerator[Job[str, str]]:
        yield make_job()
        msg = "the server did not stop"
        raise OSError(msg)

    with pytest.raises(OSError, match="the server did not stop"):
        async with leaky.open(NO_OPTIONS):
            pass
