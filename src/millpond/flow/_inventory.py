"""The only door to the stock: `put_t`, `put_q`, `claim_pair`.

Invariants:
    I1  A claim is granted a whole pair or nothing: one live T and one live Q leave the
        stock in one step.
    I2  Waiting, and being cancelled while waiting, touches nothing. A pair that was
        granted to somebody who never got to run goes back to the front of both sides.
    I3  A pair is claimed when entering the lease has returned; from then on the lease
        settles both envelopes, whatever happens.
    I4  No expired item is ever paired, and every triggered clean-up drops all of them.
    I5  Nobody waits for a pair while a live T and a live Q are in stock.
    I6  Per side: ``admitted = stocked + granted + claimed + expired in stock + left over``.

Every step below is a plain ``def``: on one event loop that is the one lock. Clean-up of
expired items is lazy: a put, a claim, or a producer that queues for a slot triggers it.
A producer that queues adds the earliest expiry of its side to its own wait, so it comes
unstuck without a sweeper, and no timer exists while nobody waits.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, final

from millpond._base import Clock, StopSignal, TurnQueue, either, loop_time, reason_of
from millpond.errors import Expired, InvariantViolated, Stopped, UsageError
from millpond.flow._envelope import Owner, ResourceEnvelope
from millpond.flow._limiter import Limiter
from millpond.flow._shelf import Shelf

T = TypeVar("T")
Q = TypeVar("Q")

JUST_AFTER_SECONDS = 0.001
"""An item is expired only after its time; a timer set to that very moment is too early."""


class Admission(enum.StrEnum):
    """What became of an envelope that was put. The inventory owns it in every case."""

    ADMITTED = "admitted"
    EXPIRED = "expired"
    """Its time was over; it was settled."""
    STOPPED = "stopped"
    """The inventory takes nothing more; it was settled."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SideStatistics:
    """One side of the stock at one moment, and what has gone through it."""

    stocked: int
    expired_in_place: int
    """Of the stocked: over their time, and not cleaned up yet."""
    admitted: int
    expired_at_put: int
    expired_in_stock: int
    left_over: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryStatistics:
    """What an `Inventory` looks like at one moment."""

    t: SideStatistics
    q: SideStatistics
    waiting: int
    """Claims in line."""
    granted: int
    """Pairs handed to tasks that have not run yet."""
    leased: int
    """Pairs in use."""
    claimed: int
    """Pairs ever claimed."""


class _Taken(NamedTuple, Generic[T, Q]):
    """A pair out of the stock, with the numbers that lead back to its places."""

    t_number: int
    t: ResourceEnvelope[T]
    q_number: int
    q: ResourceEnvelope[Q]


@final
class PairLease(Generic[T, Q]):
    """A claimed pair, for the time of an ``async with``. Made by `claim_pair` only.

    Entering waits for a pair; leaving does not wait, and settles both envelopes
    whatever the outcome.
    """

    __slots__ = ("_claim", "_pair", "_settle", "_stop")

    def __init__(
        self,
        claim: Callable[[StopSignal | None], Awaitable[_Taken[T, Q]]],
        settle: Callable[[_Taken[T, Q]], None],
        stop: StopSignal | None,
    ) -> None:
        self._claim = claim
        self._settle = settle
        self._stop = stop
        self._pair: _Taken[T, Q] | None = None

    async def __aenter__(self) -> "PairLease[T, Q]":
        if self._pair is not None:
            msg = "this lease was used already; call `claim_pair()` for each pair"
            raise UsageError(msg)
        self._pair = await self._claim(self._stop)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._settle(self._entered())

    @property
    def t(self) -> T:
        """The local resource."""
        return self.t_envelope.resource

    @property
    def q(self) -> Q:
        """The external answer."""
        return self.q_envelope.resource

    @property
    def t_envelope(self) -> ResourceEnvelope[T]:
        """The envelope of the local resource."""
        return self._entered().t

    @property
    def q_envelope(self) -> ResourceEnvelope[Q]:
        """The envelope of the external answer."""
        return self._entered().q

    def ensure_fresh(self) -> None:
        """Check both once more: before the use, and before a step that cannot be undone.

        Raises:
            Expired: If the time of one of them is over.
        """
        for name, envelope in (("T", self.t_envelope), ("Q", self.q_envelope)):
            if envelope.is_expired() and envelope.expires_at is not None:
                ttl = envelope.expires_at - envelope.created_at
                raise Expired(what=name, age=envelope.age, ttl=ttl)

    def _entered(self) -> _Taken[T, Q]:
        if self._pair is None:
            msg = "the lease has no pair yet; enter it with `async with inventory.claim_pair()`"
            raise UsageError(msg)
        return self._pair


E = TypeVar("E")
OnExpired: TypeAlias = Callable[[ResourceEnvelope[Any]], None]


class _Side(Generic[E]):
    """One side: its shelf, its counters, and the watch over those who want its slots."""

    __slots__ = (
        "_clock",
        "_expire",
        "_timer",
        "_wanted",
        "admitted",
        "expired_at_put",
        "expired_in_stock",
        "left_over",
        "shelf",
    )

    def __init__(self, clock: Clock, expire: Callable[[], None]) -> None:
        self.shelf: Shelf[ResourceEnvelope[E]] = Shelf()
        self.admitted = 0
        self.expired_at_put = 0
        self.expired_in_stock = 0
        self.left_over = 0
        self._clock = clock
        self._expire = expire
        self._wanted = False
        self._timer: asyncio.TimerHandle | None = None

    def about_to_queue(self) -> None:
        """A producer wants a slot of this side: free what is expired, now and later."""
        self._wanted = True
        self._expire()
        self.set_timer()

    def nobody_queues(self) -> None:
        """No producer waits: no timer either."""
        self._wanted = False
        self.set_timer()

    def set_timer(self) -> None:
        """Look again when the next item expires, if a producer waits for that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        earliest = self.shelf.earliest_expiry() if self._wanted else None
        if earliest is not None:
            delay = max(0.0, earliest - self._clock()) + JUST_AFTER_SECONDS
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._expire()
        self.set_timer()

    def statistics(self, now: float) -> SideStatistics:
        """Return a snapshot."""
        return SideStatistics(
            stocked=len(self.shelf),
            expired_in_place=self.shelf.count_expired(now),
            admitted=self.admitted,
            expired_at_put=self.expired_at_put,
            expired_in_stock=self.expired_in_stock,
            left_over=self.left_over,
        )


@final
class Inventory(Generic[T, Q]):
    """Stock of local resources T and external answers Q, claimed in pairs.

    Args:
        t_slots: Where the slots of T come from; this inventory's alone.
        q_slots: Where the slots of Q come from; this inventory's alone.
        stop: Once it is asked for, puts settle what they are given, and claims end.
        on_expired: Told of every envelope that was settled because its time was over.
        clock: Where the time comes from.

    Example:
        >>> import asyncio
        >>> from millpond.flow import Limiter
        >>> async def main() -> None:
        ...     t_slots, q_slots = Limiter(2, name="t"), Limiter(2, name="q")
        ...     stock = Inventory(t_slots=t_slots, q_slots=q_slots)
        ...     stock.put_t(await ResourceEnvelope.create_with_slot("sandbox", t_slots))
        ...     stock.put_q(await ResourceEnvelope.create_with_slot("answer", q_slots))
        ...     async with stock.claim_pair() as pair:
        ...         print(pair.t, pair.q, stock)
        ...     print(t_slots.statistics().free, q_slots.statistics().free)
        >>> asyncio.run(main())
        sandbox answer <Inventory T 0, Q 0, 0 waiting, 1 leased>
        2 2
    """

    def __init__(
        self,
        *,
        t_slots: Limiter,
        q_slots: Limiter,
        stop: StopSignal | None = None,
        on_expired: OnExpired | None = None,
        clock: Clock = loop_time,
    ) -> None:
        if t_slots is q_slots:
            msg = "`t_slots` and `q_slots` must be two limiters: T and Q have slots of their own"
            raise UsageError(msg)
        self._t: _Side[T] = _Side(clock, self._on_slot_wanted)
        self._q: _Side[Q] = _Side(clock, self._on_slot_wanted)
        t_slots.watch_queue(self._t)
        q_slots.watch_queue(self._q)
        self._slots = {"t": t_slots, "q": q_slots}
        self._stop = stop
        self._on_expired = on_expired
        self._clock = clock
        self._claims: TurnQueue[None, _Taken[T, Q]] = TurnQueue(
            take_back=self._take_back, serve=self._match, owner="Inventory"
        )
        self._leased = 0
        self._claimed = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def t_stock(self) -> int:
        """How many T are in stock."""
        return len(self._t.shelf)

    @property
    def q_stock(self) -> int:
        """How many Q are in stock."""
        return len(self._q.shelf)

    @property
    def granted(self) -> int:
        """How many pairs were handed to tasks that have not run yet."""
        return self._claims.under_way

    def put_t(self, envelope: ResourceEnvelope[T]) -> Admission:
        """Take over a T, whatever the answer. The next claim in line may get it at once."""
        return self._put(self._t, envelope)

    def put_q(self, envelope: ResourceEnvelope[Q]) -> Admission:
        """Take over a Q, whatever the answer. The next claim in line may get it at once."""
        return self._put(self._q, envelope)

    def claim_pair(self, *, stop: StopSignal | None = None) -> PairLease[T, Q]:
        """Return a lease; entering it waits for a pair.

        Entering raises `Stopped` when *stop* or the inventory's own stop is asked for.

        Cancellation:
            Safe while entering: the stock is as if the claim had never been. Inside the
            block, leaving settles both envelopes.

        Ordering:
            First come, first served; the oldest live T goes with the oldest live Q.
            Stop beats grant.
        """
        return PairLease(self._claim, self._settle, stop)

    def clear(self) -> int:
        """Settle everything in stock, as at the end of a run; return how many that were."""
        count = 0
        for side in (self._t, self._q):
            for envelope in side.shelf.clear():
                side.left_over += 1
                count += 1
                envelope.settle(Owner.INVENTORY)
        self._tell()
        return count

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call *listener*, a plain function, after every change of the stock."""
        self._listeners.append(listener)

    def statistics(self) -> InventoryStatistics:
        """Return a snapshot. Nothing is cleaned up, nobody is woken."""
        now = self._clock()
        return InventoryStatistics(
            t=self._t.statistics(now),
            q=self._q.statistics(now),
            waiting=len(self._claims),
            granted=self._claims.under_way,
            leased=self._leased,
            claimed=self._claimed,
        )

    def check_invariants(self) -> None:
        """Raise if the books do not balance. Changes nothing; may run at any time.

        Raises:
            InvariantViolated: With the figures.
        """
        now = self.statistics()
        for name, side in (("t", now.t), ("q", now.q)):
            out = side.stocked + now.granted + now.claimed + side.expired_in_stock + side.left_over
            ledger: dict[str, object] = {
                "side": name,
                "admitted": side.admitted,
                "stocked": side.stocked,
                "granted": now.granted,
                "claimed": now.claimed,
                "expired_in_stock": side.expired_in_stock,
                "left_over": side.left_over,
            }
            if side.admitted != out:
                raise InvariantViolated("I6 admitted = stocked + granted + claimed + ...", ledger)
            slots = self._slots[name].statistics()
            occupied = side.stocked + now.granted + now.leased
            if slots.held < occupied:
                ledger |= {"slots_held": slots.held, "occupied": occupied}
                raise InvariantViolated("every envelope holds a slot", ledger)
        live = min(side.stocked - side.expired_in_place for side in (now.t, now.q))
        if live and now.waiting and not now.granted:
            raise InvariantViolated(
                "I5 nobody waits beside a pair", {"live pairs": live, "waiting": now.waiting}
            )

    def __repr__(self) -> str:
        return (
            f"<Inventory T {self.t_stock}, Q {self.q_stock}, {len(self._claims)} waiting,"
            f" {self._leased} leased>"
        )

    def _put(self, side: _Side[E], envelope: ResourceEnvelope[E]) -> Admission:
        self._claims.check_thread()
        envelope.move(Owner.WORKER, Owner.INVENTORY)
        now = self._clock()
        if self._stop is not None and self._stop.is_stopped():
            envelope.settle(Owner.INVENTORY)
            return Admission.STOPPED
        if envelope.is_expired(now):
            side.expired_at_put += 1
            self._settle_expired(envelope)
            self._match()
            return Admission.EXPIRED
        side.shelf.add(envelope)
        side.admitted += 1
        self._match()
        side.set_timer()
        return Admission.ADMITTED

    async def _claim(self, stop: StopSignal | None) -> _Taken[T, Q]:
        stop = either(self._stop, stop)
        if stop is not None and stop.is_stopped():
            raise Stopped(reason_of(stop))
        if self._drop_expired():
            self._tell()
        if self._claims.busy or not (self.t_stock and self.q_stock):
            pair = await self._claims.turn(None, stop=stop)
        else:
            pair = self._take()
        # From here to the body of the caller's `async with` nothing can interfere.
        pair.t.move(Owner.INVENTORY, Owner.LEASE)
        pair.q.move(Owner.INVENTORY, Owner.LEASE)
        self._leased += 1
        self._claimed += 1
        self._tell()
        return pair

    def _settle(self, pair: _Taken[T, Q]) -> None:
        self._leased -= 1
        pair.t.settle(Owner.LEASE)
        pair.q.settle(Owner.LEASE)
        self._tell()

    def _take(self) -> _Taken[T, Q]:
        return _Taken(*self._t.shelf.take(), *self._q.shelf.take())

    def _take_back(self, pair: _Taken[T, Q]) -> None:
        self._t.shelf.put_back(pair.t_number, pair.t)
        self._q.shelf.put_back(pair.q_number, pair.q)
        # What is back may be the next to expire, and a producer may wait for its slot.
        self._t.set_timer()
        self._q.set_timer()

    def _match(self) -> None:
        """Drop what is expired, and hand out as many pairs as there are takers."""
        self._drop_expired()
        while len(self._claims) and self.t_stock and self.q_stock:
            self._claims.hand(self._take())
        self._tell()

    def _on_slot_wanted(self) -> None:
        self._drop_expired()
        self._tell()

    def _drop_expired(self) -> bool:
        now = self._clock()
        dropped = False
        for side in (self._t, self._q):
            for envelope in side.shelf.drop_expired(now):
                dropped = True
                side.expired_in_stock += 1
                self._settle_expired(envelope)
        return dropped

    def _settle_expired(self, envelope: ResourceEnvelope[Any]) -> None:
        envelope.settle(Owner.INVENTORY)
        if self._on_expired is not None:
            self._on_expired(envelope)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
