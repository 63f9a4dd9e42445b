"""offload, start_thread, start_batch_thread: blocking work beside the loop."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from millpond._base import offload, start_batch_thread, start_thread, threads_started_by
from tests.toolkit import loop_errors, quiet

T = TypeVar("T")

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
    heard: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
    start_thread("x", lambda: heard.put(threading.current_thread()))
    thread = heard.get(timeout=5)
    assert (thread.name, thread.daemon) == ("millpond-x", True)


class Recorded:
    """Stands in place of threads, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run it here and now."""
        self.asked.append(name)
        body()

    def start_batches(
        self, name: str, work: Callable[[list[T]], bool], most: int
    ) -> Callable[[T], None]:
        """Work on each thing here and now."""
        self.asked.append(f"{name}, {most}")

        def put(thing: T) -> None:
            work([thing])

        return put


async def test_the_one_place_where_threads_start_can_be_replaced() -> None:
    """For what is inside the block: offloaded calls, threads, and those that take batches."""
    outer, inner = Recorded(), Recorded()
    here = threading.get_ident()
    seen: list[int] = []

    def work(batch: list[int]) -> bool:
        seen.extend((*batch, threading.get_ident()))
        return True

    with threads_started_by(outer):
        assert await offload(threading.get_ident) == here
        with threads_started_by(inner):
            start_thread("x", lambda: seen.append(threading.get_ident()))
        start_batch_thread("y", work, most=3)(7)
    assert (outer.asked, inner.asked) == (["offload-get_ident", "y, 3"], ["x"])
    assert seen == [here, 7, here]
    assert await offload(threading.get_ident) != here


def test_threads_are_real_again_after_an_error() -> None:
    """Whatever ended the block."""

    def work() -> None:
        with threads_started_by(Recorded()):
            raise KeyError

    with pytest.raises(KeyError):
        work()
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()
    start_thread("x", lambda: heard.put(threading.get_ident()))
    assert heard.get(timeout=5) != threading.get_ident()


def test_a_batch_thread_is_a_named_daemon_that_takes_what_has_come() -> None:
    """All there is, in order, at most so many at a time; it sleeps while there is nothing."""
    go, heard = threading.Event(), queue.SimpleQueue[list[int]]()
    facts: list[tuple[str, bool]] = []

    def work(batch: list[int]) -> bool:
        thread = threading.current_thread()
        facts.append((thread.name, thread.daemon))
        heard.put(batch)
        assert go.wait(5)
        return True

    put = start_batch_thread("x", work, most=3)
    put(0)
    assert heard.get(timeout=5) == [0]
    for number in range(1, 6):
        put(number)
    go.set()
    assert heard.get(timeout=5) == [1, 2, 3]
    assert heard.get(timeout=5) == [4, 5]
    put(6)
    assert heard.get(timeout=5) == [6]
    assert set(facts) == {("millpond-x", True)}


def test_a_batch_thread_ends_when_its_work_wants_no_more() -> None:
    """What is put later is dropped, and nobody is hurt."""
    ended: list[threading.Thread] = []
    heard: queue.SimpleQueue[list[int]] = queue.SimpleQueue()

    def work(batch: list[int]) -> bool:
        ended.append(threading.current_thread())
        heard.put(batch)
        return False

    put = start_batch_thread("x", work, most=1)
    put(1)
    assert heard.get(timeout=5) == [1]
    ended[0].join(5)
    assert not ended[0].is_alive()
    put(2)
    assert heard.empty()


def test_a_batch_holds_at_least_one() -> None:
    """Or the thread could never take anything."""
    with pytest.raises(ValueError, match="`most` must be an integer >= 1, got 0"):
        start_batch_thread("x", lambda _: True, most=0)
