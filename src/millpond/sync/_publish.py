"""Publishing a change of state from another thread."""

import asyncio
from collections.abc import Callable

from millpond.errors import UsageError
from millpond.sync._notify import Notify


def publish_threadsafe(
    loop: asyncio.AbstractEventLoop, change: Callable[[], object], notify: Notify
) -> None:
    """Run *change* and then wake the waiters of *notify*, both in the thread of *loop*.

    The one way to publish from another thread: the state first, then the hint, and both
    where no task can run in between. Returns at once; the change happens soon.

    Args:
        loop: The loop in which the waiters are.
        change: A plain function that publishes the state. What it raises goes to the
            loop's exception handler, and nobody is woken then.
        notify: What the waiters wait for.

    Raises:
        UsageError: If *loop* was closed.

    Example:
        >>> import asyncio, threading
        >>> from millpond.sync import Notify, wait_until
        >>> async def main() -> None:
        ...     loop, changed, done = asyncio.get_running_loop(), Notify(), []
        ...     worker = threading.Thread(
        ...         target=publish_threadsafe, args=(loop, lambda: done.append(42), changed)
        ...     )
        ...     worker.start()
        ...     await wait_until(changed, lambda: done)
        ...     print(done)
        >>> asyncio.run(main())
        [42]
    """

    def publish() -> None:
        notify.check_thread()  # of another loop: an error before the change, not after it
        change()
        notify.notify_waiters()

    try:
        loop.call_soon_threadsafe(publish)
    except RuntimeError as error:
        msg = "the event loop was closed, so nobody waits there any more"
        raise UsageError(msg) from error
