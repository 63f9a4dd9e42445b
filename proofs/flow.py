"""Scenarios of `millpond.flow`: slots, permits, pairs and leases go back, whoever is cancelled.

What could rescue a lost sleeper is optional everywhere, or it would hide that it was lost.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from millpond.errors import Closed, Expired, Stopped, UsageError, WouldBlock
from millpond.flow import (
    Admission,
    AdmissionGate,
    Capacity,
    Disposer,
    Inventory,
    Limiter,
    PairLease,
    Pipeline,
    ResourceEnvelope,
    Run,
    Status,
    Watermarks,
)
from millpond.sync import Stop
from millpond.testing import Actor, Bounds, World
from proofs.catalogue import Proof


def _balanced(limiter: Limiter) -> bool:
    now = limiter.statistics()
    return now.free + now.held + now.granted == now.capacity and now.free >= 0


def _is_home(limiter: Limiter) -> bool:
    now = limiter.statistics()
    return now.free == now.capacity and not now.queued


def _asleep(*actors: Actor) -> bool:
    """Whether one of them has begun, and waits."""
    return any(one.started and not one.finished for one in actors)


# -- Limiter ---------------------------------------------------------------------------------------


def limiter(world: World) -> None:
    """Permits go out first come, first served, and all come back (F1, F2, F3, F4).

    Whoever gives one back and asks again at once stands behind those who wait.
    """
    permits = Limiter(1, name="llm")
    came = served = inside = 0

    async def work(times: int) -> None:
        nonlocal came, served, inside
        for _ in range(times):
            mine = came
            came += 1
            with await permits.acquire():
                assert mine >= served, "somebody was overtaken"
                served = mine
                inside += 1
                try:
                    assert inside == 1, "two at once"
                    await world.io("work")
                finally:
                    inside -= 1

    for name, times in (("A", 2), ("B", 1), ("C", 1)):
        world.spawn(name, work(times), cancel=True, anytime=name == "C")
    world.invariant("the books", lambda: _balanced(permits))
    world.final("all are back", lambda: _is_home(permits))


def limiter_ends(world: World) -> None:
    """Who waits for a permit hears of a close or a stop; permits that are out stay good.

    Stop beats grant, and what was granted to one who left goes to the next in line (F4).
    """
    permits, stop = Limiter(1, name="llm"), Stop()

    async def work(stop: Stop | None) -> None:
        try:
            permit = await permits.acquire(stop=stop)
        except Closed:
            assert permits.statistics().closed
            return
        except Stopped:
            assert stop is not None
            assert stop.is_stopped()
            return
        assert stop is None or not stop.is_stopped(), "granted, although it was stopped"
        with permit:
            await world.io("work")

    for name in "ABC":
        world.spawn(name, work(stop if name == "B" else None), cancel=name != "A", daemon=True)
    world.event("close", permits.close, optional=True)
    world.event("stop", stop.stop, optional=True)
    world.invariant("the books", lambda: _balanced(permits))
    world.final("nobody queues, and all are back", lambda: _is_home(permits))


def weighted(world: World) -> None:
    """A heavy request is granted whole, and neither overtaken for ever nor half served (F3).

    Whoever asks without waiting gets nothing that is somebody else's turn.
    """
    permits = Limiter(2, name="memory")
    came = served = 0

    async def work(weight: int) -> None:
        nonlocal came, served
        mine = came
        came += 1
        async with permits.hold(weight):
            assert mine >= served, "somebody was overtaken"
            served = mine
            await world.io("work")

    def newcomer() -> None:
        before = permits.statistics()
        with contextlib.suppress(WouldBlock):
            permits.acquire_nowait().release()
            assert not before.queued, "it was somebody else's turn"
            assert not before.granted, "it was somebody else's turn"

    for name, weight in (("A", 1), ("B", 2), ("C", 1)):
        world.spawn(name, work(weight), cancel=True, anytime=name == "C")
    world.event("newcomer", newcomer, optional=True)
    world.invariant("the books", lambda: _balanced(permits))
    world.final("all are back", lambda: _is_home(permits))


def resized(world: World) -> None:
    """A limiter that shrinks sends away only those who could never be served.

    One that grows serves who waits, and everything comes back.
    """
    permits = Limiter(2, name="memory")
    least = 2

    async def work(weight: int) -> None:
        with contextlib.suppress(UsageError):
            async with permits.hold(weight):
                await world.io("work")
                return
        assert weight > least, "sent away, although it could be served"

    def resize(capacity: int) -> None:
        nonlocal least
        least = min(least, capacity)
        permits.resize(capacity)

    workers = [
        world.spawn(name, work(weight), cancel=True, daemon=True)
        for name, weight in (("A", 1), ("B", 2), ("C", 1))
    ]
    world.event("shrink", lambda: resize(1), optional=True)
    world.event("grow", lambda: resize(3), optional=True)

    @world.invariant
    def the_books() -> bool:
        now = permits.statistics()
        return now.free + now.held + now.granted == now.capacity

    world.final("nobody waits", lambda: not _asleep(*workers))
    world.final("all are back", lambda: _is_home(permits))


# -- envelopes and their disposal ------------------------------------------------------------------


def slots(world: World) -> None:
    """A slot and its resource are one from the first moment, and end once each (E1, E2, E3).

    Whoever is cancelled or stopped while it waits has no slot, and its resource is disposed of.
    """
    slots, stop = Limiter(1, name="t slots"), Stop()
    made = disposed = 0

    def dispose(_: str) -> None:
        nonlocal disposed
        disposed += 1

    async def produce() -> None:
        nonlocal made
        await world.io("make")
        made += 1
        try:
            envelope = await ResourceEnvelope.create_with_slot(
                "T", slots, discard=dispose, stop=stop
            )
        except Stopped:
            return
        try:
            await world.io("use")
        finally:
            envelope.release()

    producers = [world.spawn(name, produce(), cancel=name != "A", daemon=True) for name in "ABC"]
    world.event("stop", stop.stop, optional=True)
    world.invariant("the books", lambda: _balanced(slots))
    world.invariant("no more than was made", lambda: disposed <= made)

    @world.invariant
    def what_lives_has_a_slot_or_waits_for_one() -> bool:
        return made - disposed <= slots.statistics().held + slots.statistics().granted + sum(
            not one.finished for one in producers
        )

    world.final("nobody waits", lambda: not _asleep(*producers))
    world.final("all are back", lambda: _is_home(slots))
    world.final("each was disposed of", lambda: disposed == made)


def disposal(world: World) -> None:
    """A disposal ends once, whatever it does, and its slot comes back (D1, D2, D3).

    One that fails, hangs, or does not obey its cancel is counted, and nobody waits in vain.
    """
    slots = Limiter(1, name="t slots")
    begun = 0

    async def dispose(_: str) -> None:
        nonlocal begun
        begun += 1
        try:
            await world.io("dispose", None, OSError("no"), may_hang=True)
        except asyncio.CancelledError:
            if world.pick("obeys", True, False):  # noqa: FBT003 - what it picks from
                raise
            await world.io("late")

    disposer: Disposer[str] = Disposer(dispose, timeout=5)

    async def produce() -> None:
        envelope = await ResourceEnvelope.create_with_slot("T", slots, discard=disposer)
        envelope.release()

    async def wait() -> None:
        await disposer.idle()
        assert disposer.statistics().running == 0

    producers = [world.spawn(name, produce(), cancel=name == "B") for name in "AB"]
    world.spawn("W", wait(), cancel=True)
    world.invariant("the books", lambda: _balanced(slots))
    world.final("all are back", lambda: _is_home(slots))

    @world.final
    def each_ended_once() -> None:
        now = disposer.statistics()
        assert now.running == now.holding_slots == 0, f"{now}"
        assert now.ended == begun == len(producers), f"{begun} begun, {now}"
        assert now.given_up <= now.failed


# -- the parts of a pipeline -----------------------------------------------------------------------


class Plant:
    """The parts of a pipeline, put together by hand, so that a scenario can be small."""

    def __init__(self, world: World, *, slots: int = 1, stop: Stop | None = None) -> None:
        self.world = world
        self.physical = Limiter(1, name="physical")
        self.t_slots = Limiter(slots, name="t slots")
        self.q_slots = Limiter(slots, name="q slots")
        self.pending = Limiter(slots, name="pending")
        self.stock: Inventory[int, int] = Inventory(
            t_slots=self.t_slots, q_slots=self.q_slots, stop=stop
        )
        self.consumers: list[Actor] = []
        self.in_flight = 0
        self.t_made = self.q_made = self.t_gone = self.q_gone = 0
        self.claimed = 0
        self.taken = 0  # a bit for each number of T that was claimed
        world.invariant("the stock's books", self.stock.check_invariants)
        world.invariant("the limiters' books", self._limiters_balance)
        world.final("nobody sleeps beside a pair", self._nobody_sleeps)
        world.final("what is not in stock is back", self._all_back)

    def discard_t(self, _: int) -> None:
        """Count a T that is gone."""
        self.t_gone += 1

    def discard_q(self, _: int) -> None:
        """Count a Q that is gone."""
        self.q_gone += 1

    async def supply(self, ttl: float | None = None) -> None:
        """S: make a T under Physical, then bind it to a slot, then put it."""
        with await self.physical.acquire():
            await self.world.io("make")
            number = self.t_made
            self.t_made += 1
        envelope = await ResourceEnvelope.create_with_slot(
            number, self.t_slots, ttl=ttl, discard=self.discard_t
        )
        self.stock.put_t(envelope)

    async def request(self) -> None:
        """P: a pending permit, Physical for the sending alone, then the answer, then a slot."""
        with await self.pending.acquire():
            with await self.physical.acquire():
                await self.world.io("send")
            self.in_flight += 1
            try:
                await self.world.io("answer")
            finally:
                self.in_flight -= 1
            number = self.q_made
            self.q_made += 1
            envelope = await ResourceEnvelope.create_with_slot(
                number, self.q_slots, discard=self.discard_q
            )
            self.stock.put_q(envelope)

    async def consume(self) -> None:
        """C: claim both at once, and consume them under Physical."""
        waits = self.claim_waits()
        async with self.stock.claim_pair() as pair:
            self.entered(pair, waited=waits)
            with await self.physical.acquire():
                await self.world.io("consume")

    def claim_waits(self) -> bool:
        """Whether a claim that is made now has to wait."""
        now = self.stock.statistics()
        return bool(now.waiting or now.granted) or not (now.t.stocked and now.q.stocked)

    def entered(self, pair: PairLease[int, int], *, waited: bool) -> None:
        """Look at what was claimed: taken at once, it is the oldest T."""
        self.claimed += 1
        older = sum(not self.taken >> number & 1 for number in range(pair.t))
        # One that waited may have been handed its own before an older one was given back.
        assert waited or not older, f"T {pair.t} was claimed before its time"
        self.taken |= 1 << pair.t

    def spawn(self, kind: str, count: int, make: Callable[[], Any], **options: Any) -> None:
        """Declare *count* workers that are alike."""
        for number in range(count):
            actor = self.world.spawn(f"{kind}{number}", make(), daemon=True, group=kind, **options)
            if kind == "C":
                self.consumers.append(actor)

    def _limiters_balance(self) -> None:
        for limiter in (self.physical, self.t_slots, self.q_slots, self.pending):
            assert _balanced(limiter), f"{limiter.name}: {limiter.statistics()}"
        assert self.in_flight <= self.pending.statistics().held

    def _nobody_sleeps(self) -> None:
        now = self.stock.statistics()
        assert not (now.t.stocked and now.q.stocked and _asleep(*self.consumers)), f"{now}"

    def _all_back(self) -> None:
        now = self.stock.statistics()
        assert now.granted == now.leased == 0, f"{now}"
        waiting = self.t_slots.statistics().queued, self.q_slots.statistics().queued
        assert self.t_slots.statistics().held == now.t.stocked, f"{now}"
        assert self.q_slots.statistics().held == now.q.stocked, f"{now}"
        assert self.physical.statistics().free == 1
        assert self.pending.statistics().held == waiting[1], "pending permits"
        # What was made is in stock, waits for a slot, or was disposed of.
        assert self.t_made == self.t_gone + now.t.stocked + waiting[0], f"T: {now}"
        assert self.q_made == self.q_gone + now.q.stocked + waiting[1], f"Q: {now}"


def pipeline(workers: int) -> Callable[[World], None]:
    """Return: suppliers, requests and consumers in any order, with a cancel anywhere.

    F1 to F4, E1 to E3, I1 to I3, I5, I6; steps of S, P and C as W1 to W5 have them.
    """

    def scenario(world: World) -> None:
        plant = Plant(world, slots=workers)
        plant.spawn("S", workers, plant.supply, cancel=True, anytime=True)
        plant.spawn("P", workers, plant.request, cancel=True, anytime=True)
        plant.spawn("C", workers, plant.consume, cancel=True, anytime=True)

    return scenario


def pipeline_in_order(world: World) -> None:
    """The same with the start order fixed, two cancels, and one slot that two T and Q want."""
    plant = Plant(world)
    plant.spawn("C", 1, plant.consume, cancel=True)
    plant.spawn("S", 2, plant.supply, cancel=True)
    plant.spawn("P", 2, plant.request, cancel=True)


def claims(world: World) -> None:
    """Three consumers, one pair: one gets it, and a cancelled one gives it to the next (I2, I3).

    Who is cancelled in line, or before it has run, has touched nothing.
    """
    plant = Plant(world)
    plant.spawn("C", 3, plant.consume, cancel=True)
    plant.spawn("S", 1, plant.supply)
    plant.spawn("P", 1, plant.request)

    @world.final
    def the_pair_is_used_or_still_there() -> None:
        now = plant.stock.statistics()
        assert plant.claimed + now.t.stocked == 1, f"{plant.claimed} claimed, {now}"
        assert plant.claimed + now.q.stocked == 1, f"{plant.claimed} claimed, {now}"


def claims_of_two(world: World) -> None:
    """Two pairs: what was given back is the oldest again, on both sides (I1, I2, H1)."""
    plant = Plant(world, slots=2)

    async def consume() -> None:
        waits = plant.claim_waits()
        async with plant.stock.claim_pair() as pair:
            plant.entered(pair, waited=waits)
            assert pair.t == pair.q, "the oldest T goes with the oldest Q"
            await world.io("consume", None, OSError("no"))

    async def fill() -> None:
        for number in range(2):
            t = await ResourceEnvelope.create_with_slot(number, plant.t_slots)
            q = await ResourceEnvelope.create_with_slot(number, plant.q_slots)
            await world.io("made")
            plant.stock.put_t(t)
            plant.stock.put_q(q)

    world.spawn("F", fill())
    for number in range(3):
        actor = world.spawn(
            f"C{number}",
            consume(),
            cancel=number < 2,
            anytime=number == 2,
            daemon=True,
            may_raise=(OSError,),
        )
        plant.consumers.append(actor)
    plant.t_made = plant.q_made = 2

    @world.invariant
    def none_is_lost() -> None:
        settled = plant.stock.statistics().claimed - plant.stock.statistics().leased
        plant.t_gone = plant.q_gone = settled


def inventory_stops(world: World) -> None:
    """After a stop claims end, puts are settled, and a clearing leaves nothing (E1, I6).

    Stop beats grant: a pair that was handed over goes back.
    """
    stop = Stop()
    plant = Plant(world, stop=stop)
    admitted = True

    async def consume() -> None:
        waits = plant.claim_waits()
        try:
            async with plant.stock.claim_pair() as pair:
                assert not stop.is_stopped(), "claimed, although it was stopped"
                plant.entered(pair, waited=waits)
                await world.io("consume")
        except Stopped:
            assert stop.is_stopped()

    async def supply() -> None:
        nonlocal admitted
        plant.t_made += 1
        envelope = await ResourceEnvelope.create_with_slot(
            0, plant.t_slots, discard=plant.discard_t
        )
        await world.io("made")
        became = plant.stock.put_t(envelope)
        assert (became is Admission.STOPPED) is stop.is_stopped()

    plant.spawn("C", 2, consume, cancel=True)
    world.spawn("S", supply())
    plant.spawn("P", 1, plant.request)
    world.event("stop", stop.stop, optional=True)

    @world.final
    def nothing_is_left() -> None:
        if stop.is_stopped():
            assert not _asleep(*plant.consumers), "asleep beside a stop"
        plant.stock.clear()
        assert _is_home(plant.t_slots)
        assert _is_home(plant.q_slots)
        assert plant.t_gone == plant.t_made
        assert plant.q_gone == plant.q_made
        plant.stock.check_invariants()


def expiry(world: World) -> None:
    """A T that outlived its time is never paired, and its slot comes back by itself (I4, H2).

    Also when a supplier waits for that slot and nobody else does anything.
    """
    plant = Plant(world)
    granted_at: float | None = None

    async def supply(ttl: float) -> None:
        await plant.supply(ttl)

    async def consume() -> None:
        waits = plant.claim_waits()
        async with plant.stock.claim_pair() as pair:
            plant.entered(pair, waited=waits)
            now = asyncio.get_running_loop().time()
            expires_at = pair.t_envelope.expires_at
            assert expires_at is not None
            assert expires_at >= (now if granted_at is None else granted_at), "it had expired"
            with await plant.physical.acquire(), contextlib.suppress(Expired):
                pair.ensure_fresh()
                await world.io("consume")

    @world.invariant
    def when_it_was_granted() -> None:
        nonlocal granted_at
        if not plant.stock.statistics().granted:
            granted_at = None
        elif granted_at is None:
            granted_at = asyncio.get_running_loop().time()

    suppliers = [world.spawn(f"S{n}", supply(10 - n), daemon=True) for n in range(2)]
    plant.spawn("P", 1, plant.request, anytime=True)
    plant.spawn("C", 1, consume, cancel=True, anytime=True)
    world.final("no supplier waits for a slot that expired", lambda: not _asleep(*suppliers))


# -- the gate --------------------------------------------------------------------------------------


def gate(world: World) -> None:
    """Tickets go back, whoever is cancelled; nobody waits before an open gate (G1, G3)."""
    plant = Plant(world, slots=3)
    gate = AdmissionGate(plant.stock, t=Watermarks(low=0, high=1), q=Watermarks(low=0, high=2))

    async def supply() -> None:
        with await gate.admit_t():
            await plant.supply()

    plant.spawn("S", 3, supply, cancel=True)
    plant.spawn("P", 1, plant.request)
    plant.spawn("C", 1, plant.consume)

    @world.invariant
    def never_more_than_the_high_mark() -> None:
        total = gate.statistics().t_out + plant.stock.statistics().t.stocked
        # It is put before its ticket goes back, so one may be counted twice in between.
        assert total <= 1, f"{total} in stock and in production"

    @world.final
    def nobody_waits_before_an_open_gate() -> bool:
        now = gate.statistics()
        assert now.t_out == 0, f"{now.t_out} tickets are out"
        return not now.t_waiting or plant.stock.statistics().t.stocked == 1


def hysteresis(world: World) -> None:
    """Once paused at the high mark, nobody passes before the low one (G1, G2)."""
    plant = Plant(world, slots=3)
    gate = AdmissionGate(plant.stock, t=Watermarks(low=0, high=3), q=Watermarks(low=0, high=2))
    admitted = gone = 0

    async def request() -> None:
        nonlocal admitted
        with await gate.admit_q():
            admitted += 1
            # Two are the high mark; the third comes when none of them was left.
            assert admitted <= 2 or gone == 2, f"number {admitted} after {gone} were gone"
            plant.q_made += 1
            await world.io("answer")
            plant.stock.put_q(
                await ResourceEnvelope.create_with_slot(0, plant.q_slots, discard=plant.discard_q)
            )

    async def supply() -> None:
        await plant.supply()

    async def consume() -> None:
        waits = plant.claim_waits()
        async with plant.stock.claim_pair() as pair:
            plant.entered(pair, waited=waits)

    plant.spawn("P", 3, request)
    plant.spawn("S", 2, supply)
    plant.spawn("C", 1, consume, cancel=True)
    plant.spawn("C'", 1, consume, anytime=True)

    @world.invariant
    def how_many_were_gone_at_once() -> None:
        nonlocal gone
        now = plant.stock.statistics()
        # A pair that was granted is out of the stock, though it may come back.
        gone = max(gone, now.granted + now.claimed)

    @world.final
    def nobody_waits_before_an_open_gate() -> None:
        now, stocked = gate.statistics(), plant.stock.statistics().q.stocked
        assert now.q_out == 0, f"{now.q_out} tickets are out"
        assert not now.q_waiting or stocked > 0, f"waiting beside an open gate, {stocked} stocked"


# -- the whole pipeline ----------------------------------------------------------------------------


def _each(runs: Sequence[Run[int, str]], act: Callable[[Run[int, str]], None]) -> None:
    for one in runs:
        act(one)


def run(  # noqa: C901 - one scenario, with all that the world may do
    items: int, *, limits: bool = False, ends: bool = False, fails: bool = False
) -> Callable[[World], None]:
    """Return: a `Pipeline` whose reader may be cancelled at any moment (R1, R2, W1 to W7, O1).

    Args:
        items: How many there are.
        limits: Whether a request or a consumption may take longer than it is allowed to.
        ends: Whether somebody may stop the run, or cancel it.
        fails: Whether a request or a consumption may fail.
    """
    bad = (OSError,) if fails else ()

    def scenario(world: World) -> None:  # noqa: C901 - the same
        made = gone = read = 0
        runs: list[Run[int, str]] = []

        async def supply() -> str:
            nonlocal made
            await world.io("make")
            made += 1
            return "T"

        def discard(_: str) -> None:
            nonlocal gone
            gone += 1

        async def request(_: int) -> str:
            return str(await world.io("answer", "Q", *bad))

        async def consume(_t: str, _q: str, _item: int) -> str:
            return str(await world.io("consume", "V", *bad))

        whole = Pipeline(
            supply=supply,
            request=request,
            consume=consume,
            discard_t=discard,
            capacity=Capacity(physical=1, t_slots=1, q_slots=1, q_pending=1),
            ttl_t=None,
            request_timeout=95 if limits else None,
            consume_timeout=60 if limits else None,
        )

        async def main() -> None:
            nonlocal read
            async with whole.run(range(items)) as running:
                runs.append(running)
                async for outcome in running:
                    read += 1
                    if outcome.status is Status.OK:
                        assert outcome.value == "V"

        world.spawn("main", main(), cancel=True)
        if ends:
            world.event(
                "stop", functools.partial(_each, runs, lambda one: one.stop()), optional=True
            )
            world.event(
                "cancel", functools.partial(_each, runs, lambda one: one.cancel()), optional=True
            )

        @world.invariant
        def the_books() -> None:
            for one in runs:
                one.check_invariants()

        @world.final
        def everything_came_home() -> None:
            for one in runs:
                now = one.statistics()
                assert now.open == 0, f"{now}"
                assert now.ended == now.pulled, f"{now}"
                assert now.unread + read == now.pulled, f"{read} read, {now}"
                assert now.producing == now.in_flight == now.consuming == 0, f"{now}"
                assert now.t_stock == now.q_stock == now.live_t == 0, f"{now}"
            assert made == gone, f"{made} T were made, and {gone} disposed of"

    return scenario


_ONE: Final = Bounds(preemptions=None, cancels=1)
_TWO: Final = Bounds(preemptions=None, cancels=2)
_SOME: Final = Bounds(preemptions=1, cancels=2)
_LESS: Final = Bounds(preemptions=1, cancels=1)

PROOFS: Final = (
    Proof(name="Limiter: first come, first served", scenario=limiter, bounds=_TWO),
    Proof(name="Limiter: close and stop", scenario=limiter_ends, bounds=_TWO),
    Proof(name="Limiter: weights", scenario=weighted, bounds=_TWO),
    Proof(name="Limiter: resize", scenario=resized, bounds=_ONE),
    Proof(name="create_with_slot", scenario=slots, bounds=Bounds(preemptions=2, cancels=2)),
    Proof(name="Disposer", scenario=disposal, bounds=_LESS),
    Proof(name="claim_pair: three for one", scenario=claims, bounds=_TWO),
    Proof(
        name="claim_pair: two pairs",
        scenario=claims_of_two,
        bounds=_LESS,
    ),
    Proof(
        name="claim_pair: stop",
        scenario=inventory_stops,
        bounds=_SOME,
    ),
    Proof(name="expiry", scenario=expiry, bounds=_LESS),
    Proof(name="AdmissionGate: tickets", scenario=gate, bounds=_ONE),
    Proof(name="AdmissionGate: hysteresis", scenario=hysteresis, bounds=_LESS),
    Proof(name="S/P/C: three tasks", scenario=pipeline(1), bounds=_ONE),
    Proof(name="S/P/C: two cancels", scenario=pipeline_in_order, bounds=_TWO),
    Proof(
        name="S/P/C: nine workers",
        scenario=pipeline(3),
        bounds=Bounds(preemptions=None, cancels=1, deviations=1),
        quick=Bounds(preemptions=None, cancels=1, deviations=1),
        deep=Bounds(preemptions=None, cancels=1, deviations=2),
    ),
    Proof(name="Pipeline: two items", scenario=run(2), bounds=_SOME),
    Proof(name="Pipeline: stop and cancel", scenario=run(1, ends=True), bounds=_SOME),
    Proof(name="Pipeline: failures", scenario=run(2, fails=True), bounds=_SOME),
    Proof(name="Pipeline: limits", scenario=run(1, limits=True), bounds=_SOME),
)
