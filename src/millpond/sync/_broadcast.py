"""Every value to every subscriber, with a bounded memory.

Invariants:
    X1  A subscriber receives the values that were sent after it subscribed, in order.
    X2  The last *capacity* values are kept, exactly; older ones are overwritten.
    X3  A subscriber that fell behind learns how many values it missed, once, and goes on
        with the oldest one that is kept. Nobody else is affected.
"""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar, cast, final
from weakref import WeakSet

from millpond._base import StopSignal, at_least_one
from millpond.errors import Closed, Lagged, WouldBlock
from millpond.sync._notify import Notify
from millpond.sync._wait import wait_until_or_raise

V = TypeVar("V")

FAST_OPERATIONS = 128
"""Receives in a row that do not wait before one gives way to other tasks."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastStatistics:
    """What a `Broadcast` looks like at one moment."""

    capacity: int
    sent: int
    """Values ever sent."""
    kept: int
    subscribers: int
    closed: bool


@final
class Broadcast(Generic[V]):
    """Sends each value to all who subscribed before.

    Args:
        capacity: Values that are kept for those who are slower, at least 1.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     news: Broadcast[int] = Broadcast(2)
        ...     with news.subscribe() as reader:
        ...         for number in range(3):
        ...             news.send(number)
        ...         try:
        ...             await reader.recv()
        ...         except Exception as lag:
        ...             print("missed", lag.missed)
        ...         print(await reader.recv(), await reader.recv())
        >>> asyncio.run(main())
        missed 1
        1 2
    """

    __slots__ = ("_capacity", "_changed", "_closed", "_ring", "_sent", "_subscribers")

    def __init__(self, capacity: int) -> None:
        at_least_one("capacity", capacity)
        self._capacity = capacity
        self._ring: list[V | None] = [None] * capacity  # value number n is at n % capacity
        self._sent = 0
        self._closed = False
        self._changed = Notify()
        self._subscribers: WeakSet[Subscription[V]] = WeakSet()

    def send(self, value: V) -> int:
        """Send *value*, and return how many subscribers it is for.

        Raises:
            Closed: After `close`.
        """
        if self._closed:
            raise Closed("broadcast")
        self._changed.check_thread()
        self._ring[self._sent % self._capacity] = value
        self._sent += 1
        self._changed.notify_waiters()
        return len(self._subscribers)

    def subscribe(self) -> "Subscription[V]":
        """Return a subscription to everything that is sent from now on."""
        subscription = Subscription(self)
        self._subscribers.add(subscription)
        return subscription

    def close(self) -> None:
        """Send no more. What is kept can still be received."""
        if not self._closed:
            self._changed.check_thread()
            self._closed = True
            self._changed.notify_waiters()

    def statistics(self) -> BroadcastStatistics:
        """Return a snapshot."""
        return BroadcastStatistics(
            capacity=self._capacity,
            sent=self._sent,
            kept=min(self._sent, self._capacity),
            subscribers=len(self._subscribers),
            closed=self._closed,
        )

    def __repr__(self) -> str:
        now = self.statistics()
        closed = ", closed" if now.closed else ""
        return (
            f"<Broadcast {now.kept} of {now.capacity} kept, {now.subscribers} subscribed{closed}>"
        )


@final
class Subscription(Generic[V]):
    """What one subscriber has still to receive. Made by `Broadcast.subscribe` only.

    Use it in a ``with``, or `close` it, or drop it.
    """

    __slots__ = ("__weakref__", "_broadcast", "_closed", "_fast", "_next")

    def __init__(self, broadcast: Broadcast[V]) -> None:
        self._broadcast = broadcast
        self._next = broadcast._sent
        self._closed = False
        self._fast = 0

    def recv_nowait(self) -> V:
        """Return the next value, or refuse at once.

        Raises:
            WouldBlock: If there is none yet.
            Lagged: If values were overwritten before they were received.
            Closed: If the broadcast or the subscription is closed, and nothing is left.
        """
        source = self._broadcast
        if self._closed:
            raise Closed("subscription")
        oldest = max(0, source._sent - source._capacity)
        if self._next < oldest:
            missed = oldest - self._next
            self._next = oldest
            raise Lagged(missed=missed)
        if self._next == source._sent:
            if source._closed:
                raise Closed("broadcast")
            raise WouldBlock
        value = cast("V", source._ring[self._next % source._capacity])
        self._next += 1
        return value

    async def recv(self, *, stop: StopSignal | None = None) -> V:
        """Return the next value, waiting for it if need be.

        Raises:
            Stopped: When *stop* is asked for.
            Lagged: If values were overwritten before they were received; the next call
                goes on with the oldest one that is kept.
            Closed: If the broadcast or the subscription is closed, and nothing is left.

        Cancellation:
            Safe: nothing is skipped.

        Ordering:
            Values in the order of their sending. Stop beats value, a value beats closed.
        """
        self._fast += 1
        if self._fast >= FAST_OPERATIONS:
            self._fast = 0
            await asyncio.sleep(0)
        await wait_until_or_raise(self._broadcast._changed, stop, self._has_news)
        return self.recv_nowait()

    def close(self) -> None:
        """Receive no more."""
        if self._closed:
            return
        changed = self._broadcast._changed
        if changed._armed:  # else nobody could miss it: it may be left after the loop was closed
            changed.check_thread()
        self._closed = True
        self._broadcast._subscribers.discard(self)
        if changed._armed:
            changed.notify_waiters()

    @property
    def pending(self) -> int:
        """How many values there are to receive, those not counted that were missed."""
        source = self._broadcast
        return min(source._sent - self._next, source._capacity)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> V:
        """Return the next value; the iteration ends when nothing more comes.

        Raises:
            Lagged: As `recv`; the iteration can go on.

        Cancellation:
            As `recv`.
        """
        try:
            return await self.recv()
        except Closed:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _has_news(self) -> bool:
        source = self._broadcast
        return self._next < source._sent or source._closed or self._closed

    def __repr__(self) -> str:
        return f"<Subscription {self.pending} to receive{', closed' if self._closed else ''}>"
