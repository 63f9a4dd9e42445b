"""Something becomes ready once, and stays so.

Invariants:
    A1  Once `is_ready()` is true, it stays true.
    A2  A wait that begins afterwards returns from its check.
"""

from typing import final

from millpond._base import StopSignal
from millpond.sync._notify import Notify
from millpond.sync._wait import wait_until_or_raise


@final
class Latch:
    """Opens once. One way: there is no reset.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     loaded = Latch()
        ...     loaded.mark_ready()
        ...     await loaded.wait_ready()
        ...     print(loaded)
        >>> asyncio.run(main())
        <Latch ready>
    """

    __slots__ = ("_changed", "_ready")

    def __init__(self) -> None:
        self._ready = False
        self._changed = Notify()

    def mark_ready(self) -> None:
        """Open it. Only the first call does anything."""
        if not self._ready:
            self._changed.check_thread()  # refused after the change, it could not be repeated
            self._ready = True
            self._changed.notify_waiters()

    def is_ready(self) -> bool:
        """Whether it is open."""
        return self._ready

    async def wait_ready(self, *, stop: StopSignal | None = None) -> None:
        """Return once it is open.

        Raises:
            Stopped: When *stop* is asked for.

        Cancellation:
            Safe; nothing is consumed.

        Ordering:
            All waiters return. Stop beats ready.
        """
        await wait_until_or_raise(self._changed, stop, self.is_ready)

    def __repr__(self) -> str:
        return f"<Latch {'ready' if self._ready else 'not ready'}>"
