"""The one place where threads start, so that a test kit can replace it.

All of them are daemons: a blocked call must never hold the process (asyncio joins
its default executor at exit, which is why that one is not used).
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, Protocol, TypeVar, final

from millpond._base._checks import at_least_one

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Threads(Protocol):
    """Runs what must not run in the loop's thread.

    What it runs sees no running loop, and speaks to one by `call_soon_threadsafe` only.
    """

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run *body* once. See `start_thread`."""
        ...

    def start_batches(
        self, name: str, work: Callable[[list[T]], bool], most: int
    ) -> Callable[[T], None]:
        """Run *work* for what is put. See `start_batch_thread`."""
        ...


@final
class DaemonThreads:
    """Threads of the system."""

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run *body* in a daemon thread called ``millpond-<name>``."""
        threading.Thread(target=body, name=f"millpond-{name}", daemon=True).start()

    def start_batches(
        self, name: str, work: Callable[[list[T]], bool], most: int
    ) -> Callable[[T], None]:
        """Run *work* in a daemon thread that sleeps while nothing was put."""
        waiting: queue.SimpleQueue[T] = queue.SimpleQueue()

        def take() -> list[T]:
            batch = [waiting.get()]
            while len(batch) < most:
                try:
                    batch.append(waiting.get_nowait())
                except queue.Empty:
                    break
            return batch

        def body() -> None:
            while work(take()):
                pass

        self.start(name, body)
        return waiting.put


_threads: Threads = DaemonThreads()


@contextmanager
def threads_started_by(threads: Threads) -> Generator[None]:
    """Let *threads* start what is started inside the block, in whatever thread."""
    global _threads  # noqa: PLW0603 - one test replaces it at a time; product code only reads
    previous, _threads = _threads, threads
    try:
        yield
    finally:
        _threads = previous


def start_thread(name: str, body: Callable[[], None]) -> None:
    """Start a daemon thread called *name*, shown as ``millpond-<name>``."""
    _threads.start(name, body)


def start_batch_thread(
    name: str, work: Callable[[list[T]], bool], *, most: int
) -> Callable[[T], None]:
    """Start a daemon thread that works on whatever is put, as much at a time as there is.

    Args:
        name: Shown as ``millpond-<name>``.
        work: Called in the thread with what has come since, at least one thing and at most
            *most*, oldest first. Returns whether it wants to be called again: after False the
            thread has ended, and what is put or waits then is dropped.
        most: Things in a batch, at least 1.

    Returns:
        The function that puts. It never blocks, and may be called in any thread.
    """
    at_least_one("most", most)
    return _threads.start_batches(name, work, most)


async def offload(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking function in a thread of its own, with the caller's context.

    Cancellation:
        The caller is let go at once. The thread cannot be stopped: it runs to its
        end, and its result or error is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: R | None, error: BaseException | None) -> None:
        if done.done():  # the caller left
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # None only beside an error

    def body() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as caught:  # noqa: BLE001 - it travels to the caller
            error = caught
            if isinstance(caught, StopIteration):
                # A future refuses it; a coroutine turns it into this, too.
                error = RuntimeError("the function raised StopIteration")
                error.__cause__ = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The loop was closed while the thread worked: nobody is left to tell.
            return

    start_thread(f"offload-{getattr(function, '__name__', 'call')}", body)
    return await done
