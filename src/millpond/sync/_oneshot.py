"""One value, delivered once.

Invariants:
    O1  At most one value is sent, and it is received at most once.
    O2  A value that nobody can receive any more goes back to the sender.
"""

from typing import Generic, TypeVar, final

from millpond._base import StopSignal
from millpond.errors import Closed, UsageError, WouldBlock
from millpond.sync._notify import Notify
from millpond.sync._wait import wait_until_or_raise

V = TypeVar("V")


@final
class Oneshot(Generic[V]):
    """Carries one result from one task to another.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     answer: Oneshot[int] = Oneshot()
        ...     answer.send(42)
        ...     print(await answer.recv())
        >>> asyncio.run(main())
        42
    """

    __slots__ = ("_changed", "_closed", "_received", "_sent", "_value")

    def __init__(self) -> None:
        self._value: tuple[V] | None = None
        self._sent = False
        self._received = False
        self._closed = False
        self._changed = Notify()

    def send(self, value: V) -> V | None:
        """Deliver *value*.

        Returns:
            None when it was delivered; *value* itself when `close` was called before.

        Raises:
            UsageError: On a second call.
        """
        if self._sent:
            msg = "a Oneshot carries one value; make a Channel for more"
            raise UsageError(msg)
        self._changed.check_thread()
        self._sent = True
        if self._closed:
            return value
        self._value = (value,)
        self._changed.notify_waiters()
        return None

    def recv_nowait(self) -> V:
        """Take the value, or refuse at once.

        Raises:
            WouldBlock: If it was not sent yet.
            Closed: If it was closed before a value came.
            UsageError: If the value was received already.
        """
        if self._value is not None:
            (value,) = self._value
            self._value = None
            self._received = True
            return value
        if self._received:
            msg = "the value of this Oneshot was received already"
            raise UsageError(msg)
        if self._closed:
            raise Closed("oneshot")
        raise WouldBlock

    async def recv(self, *, stop: StopSignal | None = None) -> V:
        """Return the value, waiting for it if need be.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: If it is closed before a value comes.
            UsageError: If the value was received already.

        Cancellation:
            Safe: the value stays for the next call.

        Ordering:
            Stop beats value. Of several receivers the first that runs gets the value.
        """
        await wait_until_or_raise(self._changed, stop, self._is_over)
        return self.recv_nowait()

    def close(self) -> None:
        """Take no value any more. One that was sent before can still be received."""
        if not self._closed:
            self._changed.check_thread()
            self._closed = True
            self._changed.notify_waiters()

    def is_closed(self) -> bool:
        """Whether a value sent now would come back."""
        return self._closed

    async def wait_closed(self, *, stop: StopSignal | None = None) -> None:
        """Return once `close` was called: whoever makes the value may give up.

        Raises:
            Stopped: When *stop* is asked for.

        Cancellation:
            Safe.

        Ordering:
            Stop beats closed.
        """
        await wait_until_or_raise(self._changed, stop, self.is_closed)

    def _is_over(self) -> bool:
        return self._value is not None or self._closed or self._received

    def __repr__(self) -> str:
        state = "received" if self._received else "sent" if self._sent else "empty"
        return f"<Oneshot {state}{', closed' if self._closed else ''}>"
