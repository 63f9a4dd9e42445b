"""The one place where threads start, so that a test kit can replace it.

All of them are daemons: a blocked call must never hold the process (asyncio joins
its default executor at exit, which is why that one is not used).
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def start_thread(name: str, body: Callable[[], None]) -> threading.Thread:
    """Start a daemon thread called *name*, shown as ``millpond-<name>``."""
    thread = threading.Thread(target=body, name=f"millpond-{name}", daemon=True)
    thread.start()
    return thread


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
