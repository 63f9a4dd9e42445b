"""offload and start_thread: blocking work beside the loop."""

import asyncio
import contextvars
import threading

import pytest

from millpond._base import offload, start_thread
from tests.toolkit import loop_errors, quiet

trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")


async def test_returns_the_result_and_passes_arguments() -> None:
    """Positional and named ones."""
    assert await offload(divmod, 7, 2) == (3, 1)
    assert await offload(int, "ff", base=16) == 255


async def test_raises_what_the_function_raised() -> None:
    """The very same error object."""
    own = ValueError("mine")

    def fail() -> None:
        raise own

    with pytest.raises(ValueError, match="mine") as caught:
        await offload(fail)
    assert caught.value is own


async def test_a_stop_iteration_arrives_as_a_runtime_error() -> None:
    """A future refuses it, so the caller would wait for ever; the cause is kept."""
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        await offload(next, iter(()))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_runs_in_a_daemon_thread_with_a_name() -> None:
    """A blocked call must not hold the process, and must be found in a dump."""

    def look() -> tuple[str, bool, bool]:
        thread = threading.current_thread()
        return thread.name, thread.daemon, thread is threading.main_thread()

    assert await offload(look) == ("millpond-offload-look", True, False)


async def test_the_context_of_the_caller_is_there_in_the_thread() -> None:
    """R54: and what the thread sets does not come back."""
    trace.set("t-1")

    def look() -> str:
        seen = trace.get()
        trace.set("the thread's")
        return seen

    assert await offload(look) == "t-1"
    assert trace.get() == "t-1"


async def test_the_loop_runs_on_meanwhile() -> None:
    """The thread waits for the loop here: blocking it would hang."""
    go = threading.Event()
    task = asyncio.create_task(offload(go.wait))
    await quiet()
    assert not task.done()
    go.set()
    assert await task


async def test_a_cancel_lets_the_caller_go_at_once() -> None:
    """The thread runs on; its late result disturbs nobody."""
    go, over = threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        over.set()

    with loop_errors() as errors:
        task = asyncio.create_task(offload(work))
        await quiet()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not over.is_set()
        go.set()
        assert await offload(over.wait, 5)
        await quiet()
    assert errors == []


async def test_a_late_error_of_an_abandoned_call_is_dropped() -> None:
    """As its docstring says: nothing is logged either."""
    go = threading.Event()

    def fail() -> None:
        go.wait()
        msg = "late"
        raise ValueError(msg)

    with loop_errors() as errors:
        task = asyncio.create_task(offload(fail))
        await quiet()
        thread = next(t for t in threading.enumerate() if t.name == "millpond-offload-fail")
        task.cancel()
        await asyncio.wait([task])
        go.set()
        await offload(thread.join)
        await quiet()
    assert errors == []


def test_a_thread_that_outlives_the_loop_ends_in_silence(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Nobody is left to tell; the thread must not die of that."""
    go = threading.Event()

    async def main() -> threading.Thread:
        task = asyncio.create_task(offload(go.wait))
        await quiet()
        thread = next(t for t in threading.enumerate() if t.name == "millpond-offload-wait")
        task.cancel()
        return thread

    thread = asyncio.run(main())
    go.set()
    thread.join(5)
    assert not thread.is_alive()
    assert list(recwarn) == []  # pytest turns what a thread dies of into a warning


def test_start_thread_starts_a_named_daemon() -> None:
    """The one place where threads start."""
    seen: list[str] = []
    thread = start_thread("x", lambda: seen.append(threading.current_thread().name))
    thread.join(5)
    assert seen == ["millpond-x"]
    assert thread.daemon
