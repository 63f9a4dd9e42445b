"""Values from many senders to many receivers, each received once.

Invariants:
    C1  ``buffered + reserved <= capacity`` whenever the loop can switch tasks.
    C2  Every value that was sent is received once, or still in the buffer. No value
        travels inside a wake-up: a woken receiver takes it from the buffer.
    C3  Values keep the order of their sending. Receivers and senders that wait are served
        in the order in which they came, and before a newcomer: that one takes only a value,
        or room, that was not promised to them.
    C4  A send that was cancelled has not happened: only the reservation can be
        cancelled, the sending itself is synchronous.
    C5  Closed and empty with nothing reserved, every receiver is told so.
"""

import asyncio
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar, final

from millpond._base import Home, Parked, StopSignal, at_least_one, park, reason_of, wake
from millpond.errors import AlreadyReleased, Closed, Stopped, WouldBlock

V = TypeVar("V")

FAST_OPERATIONS = 128
"""Operations in a row that do not wait before one gives way to other tasks."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatistics:
    """What a `Channel` looks like at one moment."""

    capacity: int | None
    buffered: int
    reserved: int
    """Slots in the hands of senders, or on the way to them."""
    receivers: int
    """Receivers that wait for a value."""
    senders: int
    """Senders that wait for room."""
    closed: bool


@final
class Slot(Generic[V]):
    """Room for one value. Made by `Channel.reserve` only.

    Use it as a context manager, or call `send` or `release` once.
    """

    __slots__ = ("_settle",)

    def __init__(self, settle: Callable[[tuple[V] | None], None]) -> None:
        self._settle: Callable[[tuple[V] | None], None] | None = settle

    def send(self, value: V) -> None:
        """Put *value* into the channel. There is room for it, also after `Channel.close`.

        Raises:
            AlreadyReleased: If the slot was used or released.
        """
        self._settle_with((value,))

    def release(self) -> None:
        """Give the room back unused.

        Raises:
            AlreadyReleased: If the slot was used or released.
        """
        self._settle_with(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._settle is not None:
            self.release()

    def __del__(self) -> None:
        if self._settle is not None:
            warnings.warn(
                "a Slot was dropped unused, and its room is lost; use it in a `with`",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    def __repr__(self) -> str:
        return f"<Slot {'settled' if self._settle is None else 'reserved'}>"

    def _settle_with(self, value: tuple[V] | None) -> None:
        if self._settle is None:
            raise AlreadyReleased(self)
        self._settle(value)
        self._settle = None  # afterwards: what was refused can still be sent or released


@final
class Channel(Generic[V]):
    """A queue of values with room for *capacity* of them.

    Args:
        capacity: Values that may lie in it or be reserved, at least 1. None: any number.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     channel: Channel[str] = Channel(2)
        ...     with await channel.reserve() as slot:
        ...         slot.send("first")
        ...     await channel.send("second")
        ...     channel.close()
        ...     print([value async for value in channel])
        >>> asyncio.run(main())
        ['first', 'second']
    """

    __slots__ = (
        "_buffer",
        "_capacity",
        "_closed",
        "_fast",
        "_home",
        "_promised",
        "_receivers",
        "_reserved",
        "_room",
        "_senders",
    )

    def __init__(self, capacity: int | None = None) -> None:
        if capacity is not None:
            at_least_one("capacity", capacity)
        self._capacity = capacity
        self._room = float("inf") if capacity is None else capacity
        self._buffer: deque[V] = deque()
        self._promised = 0  # values in the buffer for receivers that were woken
        self._reserved = 0  # room for senders that were woken, or hold a slot
        self._closed = False
        self._fast = 0
        self._home = Home("Channel")
        # Who waits, oldest first. Whoever is woken leaves the line in that moment: with a
        # result it was promised a value, or room; with an exception it was sent away.
        self._receivers: OrderedDict[Parked, None] = OrderedDict()
        self._senders: OrderedDict[Parked, None] = OrderedDict()

    # -- sending

    def send_nowait(self, value: V) -> None:
        """Send *value*, or refuse at once.

        Raises:
            WouldBlock: If there is no room, or somebody's turn comes first.
            Closed: After `close`.
        """
        self._check_room()
        self._put(value)

    async def send(self, value: V, *, stop: StopSignal | None = None) -> None:
        """Send *value*, waiting for room if need be.

        Raises:
            Stopped: When *stop* is asked for; nothing was sent.
            Closed: After `close`, also for those who wait.

        Cancellation:
            Safe: cancelled, it has not sent.

        Ordering:
            First come, first served. Stop beats room. A newcomer takes only room that
            nobody who waits was promised, and may then send before one that was woken has run.
        """
        if (
            self._closed
            or stop is not None
            or self._senders
            or self._is_full()
            or self._fast >= FAST_OPERATIONS
        ):
            await self._wait_for_room(stop)
        else:
            self._fast += 1
        self._put(value)

    def reserve_nowait(self) -> Slot[V]:
        """Reserve room for one value, or refuse at once. Otherwise as `reserve`.

        Raises:
            WouldBlock: If there is no room, or somebody's turn comes first.
            Closed: After `close`.
        """
        self._check_room()
        self._reserved += 1
        return Slot(self._settle)

    async def reserve(self, *, stop: StopSignal | None = None) -> Slot[V]:
        """Wait for room for one value; sending it is then a plain call that cannot fail.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: After `close`, also for those who wait.

        Cancellation:
            Safe: no room stays reserved.

        Ordering:
            First come, first served, together with `send`. Stop beats room.
        """
        await self._wait_for_room(stop)
        self._reserved += 1
        return Slot(self._settle)

    # -- receiving

    def recv_nowait(self) -> V:
        """Take the oldest value, or refuse at once.

        Raises:
            WouldBlock: If there is none, or somebody's turn comes first.
            Closed: If the channel is closed, and nothing will come any more.
        """
        if len(self._buffer) > self._promised and not self._receivers:
            return self._take()
        self._raise_if_over()
        raise WouldBlock

    async def recv(self, *, stop: StopSignal | None = None) -> V:
        """Return the oldest value, waiting for one if need be.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: If the channel is closed, and nothing will come any more.

        Cancellation:
            Safe: the value stays in the channel, for the next receiver.

        Ordering:
            First come, first served. Stop beats value. A newcomer takes only a value that
            nobody who waits was promised; it is the oldest, if it runs before they do.
        """
        if stop is not None and stop.is_stopped():
            raise Stopped(reason_of(stop))
        if len(self._buffer) > self._promised and not self._receivers:
            self._fast += 1
            if self._fast <= FAST_OPERATIONS:
                return self._take()
            await self._give_way()
            if stop is not None and stop.is_stopped():
                raise Stopped(reason_of(stop))
            if len(self._buffer) > self._promised and not self._receivers:
                return self._take()
        self._raise_if_over()
        await self._line_up(self._receivers, self._unpromise, stop)
        self._promised -= 1
        return self._take()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> V:
        """Return the next value; the iteration ends when the channel is over.

        Cancellation:
            As `recv`.
        """
        try:
            return await self.recv()
        except Closed:
            raise StopAsyncIteration from None

    # -- both

    def close(self) -> None:
        """Take no new sends. What is in it, or reserved, can still be received."""
        if self._closed:
            return
        self._home.check_thread()
        self._closed = True
        _dismiss(self._senders)
        self._serve_receivers()

    def drain(self) -> list[V]:
        """Take everything that lies in it and was not promised to a receiver that was woken."""
        if self._senders:
            self._home.check_thread()
        count = len(self._buffer) - self._promised
        values = [self._buffer.popleft() for _ in range(count)]
        self._serve_senders()
        return values

    def statistics(self) -> ChannelStatistics:
        """Return a snapshot."""
        return ChannelStatistics(
            capacity=self._capacity,
            buffered=len(self._buffer),
            reserved=self._reserved,
            receivers=len(self._receivers),
            senders=len(self._senders),
            closed=self._closed,
        )

    def __repr__(self) -> str:
        now = self.statistics()
        room = "unbounded" if now.capacity is None else f"of {now.capacity}"
        closed = ", closed" if now.closed else ""
        return f"<Channel {now.buffered} {room}, {now.reserved} reserved{closed}>"

    async def _wait_for_room(self, stop: StopSignal | None) -> None:
        """Return when the very next step may put a value or reserve its place."""
        self._raise_if_refused(stop)
        if not self._senders and not self._is_full():
            self._fast += 1
            if self._fast <= FAST_OPERATIONS:
                return
            await self._give_way()
            self._raise_if_refused(stop)
        if self._senders or self._is_full():
            await self._line_up(self._senders, self._unreserve, stop)
            self._reserved -= 1  # what follows takes its place

    async def _line_up(
        self,
        line: OrderedDict[Parked, None],
        take_back: Callable[[], None],
        stop: StopSignal | None,
    ) -> None:
        """Wait at the end of *line* until something is promised to us."""
        parked = self._home.new_parked()
        line[parked] = None
        try:
            if stop is None:
                await parked
            else:
                await park(parked, stop)
                if stop.is_stopped():
                    raise Stopped(reason_of(stop))  # noqa: TRY301 - one place that leaves
        except BaseException as error:
            if parked in line:
                del line[parked]
            elif not parked.cancelled() and parked.exception() is None:
                take_back()
            if isinstance(error, Closed) and stop is not None and stop.is_stopped():
                raise Stopped(reason_of(stop)) from None  # closed first, stopped before we ran
            raise

    def _raise_if_refused(self, stop: StopSignal | None) -> None:
        if stop is not None and stop.is_stopped():
            raise Stopped(reason_of(stop))
        if self._closed:
            raise Closed("channel")

    async def _give_way(self) -> None:
        self._fast = 0
        await asyncio.sleep(0)

    def _is_full(self) -> bool:
        return len(self._buffer) + self._reserved >= self._room

    def _check_room(self) -> None:
        if self._closed:
            raise Closed("channel")
        if self._senders or self._is_full():
            raise WouldBlock

    def _raise_if_over(self) -> None:
        if self._closed and not self._buffer and not self._reserved:
            raise Closed("channel")

    def _put(self, value: V) -> None:
        if self._receivers:
            self._home.check_thread()  # before: refused afterwards, it would be there all the same
            self._buffer.append(value)
            self._serve_receivers()
        else:
            self._buffer.append(value)

    def _take(self) -> V:
        if self._senders:
            self._home.check_thread()
            value = self._buffer.popleft()
            self._serve_senders()
        else:
            value = self._buffer.popleft()
        if self._closed:
            self._serve_receivers()
        return value

    def _settle(self, value: tuple[V] | None) -> None:
        if self._receivers or self._senders:
            self._home.check_thread()
        self._reserved -= 1
        if value is not None:
            self._put(*value)
        else:
            self._serve_senders()
            self._serve_receivers()

    def _unreserve(self) -> None:
        self._reserved -= 1
        self._serve_senders()
        self._serve_receivers()

    def _unpromise(self) -> None:
        self._promised -= 1
        self._serve_receivers()

    def _serve_receivers(self) -> None:
        receivers = self._receivers
        while receivers and len(self._buffer) > self._promised:
            parked, _ = receivers.popitem(last=False)
            if not parked.cancelled():
                self._promised += 1  # it takes its value only when it runs
                wake(parked)
        # Not while a value is promised: its receiver may be cancelled, and then it is theirs.
        if self._closed and not self._reserved and not self._buffer:
            _dismiss(receivers)

    def _serve_senders(self) -> None:
        senders = self._senders
        while senders and not self._is_full():
            parked, _ = senders.popitem(last=False)
            if not parked.cancelled():
                self._reserved += 1
                wake(parked)


def _dismiss(line: OrderedDict[Parked, None]) -> None:
    # Whoever was woken by a stop, or cancelled, stays in line until it runs and leaves: out of
    # the line with a result would mean that something was promised to it.
    for parked in [parked for parked in line if not parked.done()]:
        del line[parked]
        parked.set_exception(Closed("channel"))
