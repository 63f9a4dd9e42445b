"""The latest value of something, and when it changed.

Invariants:
    L1  A subscription sees the latest value; values in between may be missed.
    L2  `changed` returns once for every value that is newer than the last one seen.
    L3  A modifier that raises leaves value and version as they were.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar, final

from millpond._base import StopSignal
from millpond.errors import Closed
from millpond.sync._notify import Notify
from millpond.sync._wait import wait_until_or_raise

V = TypeVar("V")

FAST_OPERATIONS = 128
"""Waits in a row that need not sleep before one gives way to other tasks."""


@final
class Watch(Generic[V]):
    """Holds a value that many may follow.

    Args:
        value: The first value. A subscription counts it as seen.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     limit = Watch(10)
        ...     follower = limit.subscribe()
        ...     limit.modify(lambda n: n + 5)
        ...     await follower.changed()
        ...     print(follower.borrow())
        >>> asyncio.run(main())
        15
    """

    __slots__ = ("_changed", "_closed", "_value", "_version")

    def __init__(self, value: V) -> None:
        self._value = value
        self._version = 0
        self._closed = False
        self._changed = Notify()

    def set(self, value: V) -> None:
        """Replace the value and wake everybody who follows.

        Raises:
            Closed: After `close`.
        """
        if self._closed:
            raise Closed("watch")
        self._changed.check_thread()
        self._value = value
        self._version += 1
        self._changed.notify_waiters()

    def modify(self, function: Callable[[V], V]) -> None:
        """Replace the value by what *function* makes of it.

        Raises:
            Closed: After `close`.
            Exception: What *function* raises; nothing is changed then.
        """
        if self._closed:
            raise Closed("watch")
        self.set(function(self._value))

    def borrow(self) -> V:
        """Return the value."""
        return self._value

    def subscribe(self) -> "WatchSubscription[V]":
        """Return a follower to whom the present value counts as seen."""
        return WatchSubscription(self)

    def close(self) -> None:
        """Say that the value will not change any more."""
        if not self._closed:
            self._changed.check_thread()
            self._closed = True
            self._changed.notify_waiters()

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<Watch {self._value!r}, version {self._version}{closed}>"


@final
class WatchSubscription(Generic[V]):
    """Follows a `Watch`. Made by `Watch.subscribe` only."""

    __slots__ = ("_fast", "_seen", "_watch")

    def __init__(self, watch: Watch[V]) -> None:
        self._watch = watch
        self._seen = watch._version
        self._fast = 0

    def has_changed(self) -> bool:
        """Whether there is a value newer than the last one seen.

        Raises:
            Closed: If the watch is closed.
        """
        if self._watch._closed:
            raise Closed("watch")
        return self._is_behind()

    async def changed(self, *, stop: StopSignal | None = None) -> None:
        """Return once there is a newer value than the last one seen; it counts as seen then.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: If the watch is closed, and its last value was seen.

        Cancellation:
            Safe: the value still counts as not seen.

        Ordering:
            All followers are woken. Stop beats value, a value beats closed.
        """
        watch = self._watch
        await self._give_way()
        await wait_until_or_raise(watch._changed, stop, lambda: self._is_behind() or watch._closed)
        if not self._is_behind():
            raise Closed("watch")
        self.mark_unchanged()

    async def wait_for(
        self, predicate: Callable[[V], object], *, stop: StopSignal | None = None
    ) -> V:
        """Return the value once *predicate* holds for it; it counts as seen then.

        The present value is looked at first, also on a closed watch.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: If the watch is closed, and *predicate* does not hold.
            Exception: What *predicate* raises.

        Cancellation:
            Safe.

        Ordering:
            Stop beats value, a value beats closed.
        """
        watch = self._watch
        await self._give_way()
        await wait_until_or_raise(
            watch._changed, stop, lambda: predicate(watch._value) or watch._closed
        )
        if not predicate(watch._value):
            raise Closed("watch")
        return self.borrow_and_update()

    def borrow(self) -> V:
        """Return the value, and leave it as seen or not seen as it was."""
        return self._watch._value

    def borrow_and_update(self) -> V:
        """Return the value, which counts as seen then."""
        self.mark_unchanged()
        return self._watch._value

    def mark_changed(self) -> None:
        """Count the present value as not seen."""
        self._seen = -1

    def mark_unchanged(self) -> None:
        """Count the present value as seen."""
        self._seen = self._watch._version

    async def _give_way(self) -> None:
        self._fast += 1
        if self._fast >= FAST_OPERATIONS:
            self._fast = 0
            await asyncio.sleep(0)

    def _is_behind(self) -> bool:
        return self._seen != self._watch._version

    def __repr__(self) -> str:
        state = "behind" if self._is_behind() else "up to date"
        return f"<WatchSubscription of {self._watch!r}, {state}>"
