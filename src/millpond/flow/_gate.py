"""Whether a producer may go on, judged by depth and fixed marks alone.

Invariants:
    G1  Per side, ``stock + tickets out <= high`` right after every admission.
    G2  Once paused, nobody passes until ``stock + tickets out <= low``.
    G3  A ticket goes back exactly once, in a plain ``def``, so no cancel can lose it.

The gate waits, and that is all: it moves nothing, picks no role and changes no
capacity. T counts what is in stock and being produced, Q what is in stock and in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, final

from millpond._base import StopSignal, TurnQueue, reason_of
from millpond.errors import AlreadyReleased, Stopped
from millpond.flow._inventory import Inventory


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """At *high* a side pauses; at *low* it resumes.

    Args:
        high: At least 1.
        low: From 0 to *high*.
    """

    high: int
    low: int

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high or self.high < 1:
            msg = f"watermarks must satisfy 0 <= low <= high and high >= 1, got {self}"
            raise ValueError(msg)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GateStatistics:
    """What an `AdmissionGate` looks like at one moment."""

    t_out: int
    """T being produced."""
    q_out: int
    """Q in flight."""
    t_paused: bool
    q_paused: bool
    t_waiting: int
    q_waiting: int


@final
class Ticket:
    """Leave to produce one item. Use it as a context manager, or `release` it once."""

    __slots__ = ("_give_back",)

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Say that the item is in stock, or will never be.

        Raises:
            AlreadyReleased: On the second call.
        """
        if self._give_back is None:
            raise AlreadyReleased(self)
        self._give_back()
        self._give_back = None  # afterwards: what was refused can still be released

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Ticket {'released' if self._give_back is None else 'out'}>"


class _Side:
    """One side of the gate."""

    __slots__ = ("_marks", "_pauses_at_once", "_stock", "line", "out", "paused")

    def __init__(
        self, marks: Watermarks, stock: Callable[[], int], *, pauses_at_once: bool
    ) -> None:
        self._marks = marks
        self._stock = stock
        self._pauses_at_once = pauses_at_once
        self.out = 0
        self.paused = False
        self.line: TurnQueue[None, Ticket] = TurnQueue(
            take_back=Ticket.release, serve=self.serve, owner="AdmissionGate"
        )

    async def admit(self, stop: StopSignal | None) -> Ticket:
        if stop is not None and stop.is_stopped():
            raise Stopped(reason_of(stop))
        if not self.line.busy and self._open():
            return self._ticket()
        return await self.line.turn(None, stop=stop)

    def serve(self) -> None:
        while len(self.line) and self._open():
            self.line.hand(self._ticket())

    def _open(self) -> bool:
        total = self._stock() + self.out
        if total >= self._marks.high:
            self.paused = True
        elif total <= self._marks.low:
            self.paused = False
        return not self.paused

    def _ticket(self) -> Ticket:
        self.out += 1
        if self._pauses_at_once:
            self._open()
        return Ticket(self._take_back)

    def _take_back(self) -> None:
        self.line.check_thread()
        self.out -= 1
        self.serve()


@final
class AdmissionGate:
    """Holds producers back while enough is in stock and under way.

    Args:
        inventory: Listened to; whoever waits is let in when the stock falls.
        t: Marks for T. The side pauses when a producer finds it at the high mark.
        q: Marks for Q. The side pauses in the moment it reaches the high mark.
    """

    def __init__(self, inventory: Inventory[Any, Any], *, t: Watermarks, q: Watermarks) -> None:
        self._t = _Side(t, lambda: inventory.t_stock, pauses_at_once=False)
        self._q = _Side(q, lambda: inventory.q_stock, pauses_at_once=True)
        inventory.subscribe(self._t.serve)
        inventory.subscribe(self._q.serve)

    @property
    def t_out(self) -> int:
        """How many T are being produced."""
        return self._t.out

    async def admit_t(self, stop: StopSignal | None = None) -> Ticket:
        """Return leave to produce one T.

        Raises:
            Stopped: When *stop* is asked for.

        Cancellation:
            Safe: a ticket that was granted and not received goes back.

        Ordering:
            First come, first served. Stop beats grant.
        """
        return await self._t.admit(stop)

    async def admit_q(self, stop: StopSignal | None = None) -> Ticket:
        """Return leave to send one request. Otherwise as `admit_t`."""
        return await self._q.admit(stop)

    def statistics(self) -> GateStatistics:
        """Return a snapshot."""
        return GateStatistics(
            t_out=self._t.out,
            q_out=self._q.out,
            t_paused=self._t.paused,
            q_paused=self._q.paused,
            t_waiting=len(self._t.line),
            q_waiting=len(self._q.line),
        )
