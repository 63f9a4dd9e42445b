"""Cancel and stop at every turn of the loop: whatever the moment, the books balance at the end.

Fast fakes whose latencies are counted in turns of the loop. Each sweep acts after turn
0, 1, 2, ... until the scenario is over before its turn comes.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from millpond.flow import (
    AdmissionGate,
    Disposer,
    Inventory,
    Limiter,
    Outcome,
    ResourceEnvelope,
    Run,
    Status,
    Watermarks,
)
from tests.flow.conftest import World, drained, limiters, statuses, turns, virtually

AnyRun = Run[Any, Any]

FACTORIES = ["plain", *(["eager"] if sys.version_info >= (3, 12) else [])]


@pytest.fixture(params=FACTORIES)
def tasks(request: pytest.FixtureRequest) -> str:
    """Say how tasks start: at the next turn, or (from Python 3.12 on) at once."""
    name: str = request.param
    return name


def sweep(tasks: str, scenario: Callable[[int], Awaitable[bool]], *, least: int) -> None:
    """Run ``scenario(turn)`` for every turn until it says that it was over before it.

    Args:
        tasks: How tasks start.
        scenario: Acts after that many turns; returns whether it still could.
        least: How many turns there must have been, so that the sweep is none of nothing.
    """

    async def main() -> None:
        if tasks == "eager" and sys.version_info >= (3, 12):
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        turn = 0
        while await scenario(turn):
            turn += 1
        assert turn >= least, f"the scenario was over after {turn} turns"

    virtually(main)


class Turning(World[str]):
    """Latencies in turns of the loop."""

    def __init__(self, supply: int, request: int, consume: int, discard: int) -> None:
        super().__init__()
        self._turns = {"supply": supply, "request": request, "consume": consume}
        self._discard = discard

    async def supply(self) -> int:
        """Make a T."""
        await turns(self._turns["supply"])
        return self.make()

    async def send(self, item: int) -> int:
        """Send, in a turn."""
        await asyncio.sleep(0)
        return item

    async def request(self, item: int) -> str:
        """Answer; every fifth one fails."""
        await turns(self._turns["request"])
        if item % 5 == 4:
            raise OSError(item)
        return self.answer(item)

    async def consume(self, t: int, q: str, item: int) -> str:
        """Consume; every fifth one fails."""
        await turns(self._turns["consume"])
        if item % 5 == 3:
            raise OSError(item)
        return await super().consume(t, q, item)

    def discard_t(self, t: int) -> Awaitable[object] | None:
        """Dispose of a T, in some turns."""
        self.discarded_t[t] += 1
        return turns(self._discard) if self._discard else None


SHAPES = [(1, 1, 1, 0), (0, 0, 0, 0), (3, 0, 1, 2), (0, 4, 0, 1), (1, 0, 5, 0), (2, 3, 2, 3)]

MET = [*(("plain", shape) for shape in SHAPES), *((kind, SHAPES[-1]) for kind in FACTORIES[1:])]


def act(how: str, run: AnyRun, body: "asyncio.Task[Any]") -> None:
    """Do to *run*, or to the *body* that has it, what *how* says."""
    if how == "stop":
        run.stop("swept")
    if how == "stop, then cancel":
        run.stop("swept")
        run.cancel("swept")
    if how.startswith("cancel the run"):
        run.cancel("swept")
    if how == "cancel the run twice":
        run.cancel("swept")
    if how.startswith("cancel the task"):
        body.cancel()


ACTIONS = [
    "stop",
    "stop, then cancel",
    "cancel the run",
    "cancel the run twice",
    "cancel the task",
    "cancel the task twice",
]


@pytest.mark.parametrize("how", ACTIONS)
@pytest.mark.parametrize(("tasks", "shape"), MET, ids=str)
def test_a_run_met_at_every_turn(tasks: str, shape: tuple[int, ...], how: str) -> None:
    """R1, R2, W1, W2, O1, E1, D1; defect rows 1 to 5, 14 and 16."""
    allowed = {Status.OK, Status.FAILED}
    if how != "stop":
        allowed |= {Status.CANCELLED, Status.SKIPPED}

    async def scenario(turn: int) -> bool:
        world = Turning(*shape)
        outcomes: list[Outcome[Any, Any]] = []
        begun: list[AnyRun] = []

        async def body() -> None:
            settings: dict[str, Any] = {"send": world.send} if shape[0] % 2 else {}
            async with world.pipeline(**settings).run(range(6)) as run:
                begun.append(run)
                async for outcome in run:
                    run.check_invariants()
                    outcomes.append(outcome)

        task = asyncio.create_task(body())
        await turns(turn + 1)
        acted = not task.done()
        if acted:
            act(how, begun[0], task)
            begun[0].check_invariants()
        if how == "cancel the task twice":
            await turns(1 + turn % 7)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled() == (acted and "task" in how)
        (run,) = begun
        outcomes += await drained(run)
        found = statuses(outcomes)
        assert {outcome.status for outcome in outcomes} <= allowed, found
        world.check_over(run, outcomes)
        return acted

    sweep(tasks, scenario, least=10)


@pytest.mark.parametrize("how", ["cancel the run", "cancel the task"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 0, 2), (0, 4, 0)], ids=str)
def test_a_supply_that_is_a_context_manager_met_at_every_turn(
    tasks: str, shape: tuple[int, int, int], how: str
) -> None:
    """What was entered is left, once, by the task that entered it."""

    async def scenario(turn: int) -> bool:
        world = Turning(*shape, 0)
        entered: dict[int, object] = {}
        left: dict[int, object] = {}

        @asynccontextmanager
        async def box() -> Any:  # noqa: ANN401 - a generator of T
            await turns(shape[0])
            t = world.make()
            entered[t] = asyncio.current_task()
            try:
                yield t
            finally:
                assert t not in left
                left[t] = asyncio.current_task()

        outcomes: list[Outcome[Any, Any]] = []
        begun: list[AnyRun] = []

        async def body() -> None:
            async with world.pipeline(supply=box, discard_t=None).run(range(6)) as run:
                begun.append(run)
                outcomes.extend(await drained(run))

        task = asyncio.create_task(body())
        await turns(turn + 1)
        acted = not task.done()
        if acted:
            act(how, begun[0], task)
        with suppress(asyncio.CancelledError):
            await task
        assert left == entered
        (run,) = begun
        run.check_invariants()
        now = run.statistics()
        assert (now.open, now.live_t, now.t_stock, now.q_stock) == (0, 0, 0, 0)
        assert {state.free == state.capacity for state in limiters(run).values()} == {True}
        return acted

    sweep(tasks, scenario, least=10)


def test_a_reader_cancelled_at_every_turn(tasks: str) -> None:
    """O3: its outcome goes to the next reader, whatever the turn, with and without a commit."""

    class Journal:
        def recall(self, _: str) -> None:
            return None

        def answer(self, _key: str, _value: object) -> None:
            return None

        def finish(self, _key: str, _outcome: Outcome[object, object]) -> None:
            return None

        async def committed(self, _: str) -> None:
            await turns(2)

    for journal in (None, Journal()):

        async def scenario(turn: int, journal: Journal | None = journal) -> bool:
            world: World[str] = World()
            outcomes: list[Outcome[Any, Any]] = []

            async def read() -> None:
                async for outcome in run:
                    outcomes.append(outcome)

            async with world.pipeline(journal=journal, key=str).run(range(5)) as run:
                reader = asyncio.create_task(read())
                await turns(turn)
                acted = not reader.done()
                reader.cancel()
                await asyncio.wait({reader})
                outcomes += await drained(run)
            assert statuses(outcomes) == dict.fromkeys(range(5), "ok")
            world.check_over(run, outcomes)
            return acted

        sweep(tasks, scenario, least=10)


# -- the parts alone


def orders() -> Iterator[tuple[str, str]]:
    """Yield which of T and Q comes first."""
    yield "T", "Q"
    yield "Q", "T"


@pytest.mark.parametrize("victims", ["first", "second", "both", "first, then second"])
@pytest.mark.parametrize("names", list(orders()), ids=str)
def test_two_claims_one_pair_cancelled_at_every_turn(  # noqa: C901 - one scenario
    tasks: str, names: tuple[str, str], victims: str
) -> None:
    """I1, I2, I3 (R01, R03, R27): the pair is used by the other one, or is still there."""

    async def scenario(turn: int) -> bool:
        t_slots, q_slots = Limiter(1, name="t"), Limiter(1, name="q")
        inventory: Inventory[str, str] = Inventory(t_slots=t_slots, q_slots=q_slots)
        disposed: Counter[str] = Counter()

        def discard(resource: str) -> None:
            disposed[resource] += 1

        disposer: Disposer[str] = Disposer(discard)
        used: list[str] = []

        async def claim(name: str) -> None:
            async with inventory.claim_pair() as pair:
                assert (pair.t, pair.q) == ("T", "Q")
                used.append(name)
                await turns(2)

        async def produce() -> None:
            for name in names:
                await turns(2)
                slots = t_slots if name == "T" else q_slots
                envelope = await ResourceEnvelope.create_with_slot(name, slots, discard=disposer)
                put = inventory.put_t if name == "T" else inventory.put_q
                put(envelope)
                inventory.check_invariants()

        first, second = asyncio.create_task(claim("first")), asyncio.create_task(claim("second"))
        producer = asyncio.create_task(produce())
        await turns(turn)
        acted = not (producer.done() and used and (first.done() or second.done()))
        if victims != "second":
            first.cancel()
            inventory.check_invariants()
        if victims == "first, then second":
            await turns(1)
        if victims != "first":
            second.cancel()
        await producer
        await turns(10)
        inventory.check_invariants()
        now = inventory.statistics()
        assert len(used) == now.claimed <= 1
        assert now.granted == now.leased == 0
        assert now.t.stocked == now.q.stocked == 1 - now.claimed
        if victims in ("first", "second"):
            assert now.claimed == 1  # the one that was left alone gets it
            assert now.waiting <= 1
        else:
            assert now.waiting == 0
        inventory.clear()
        assert disposed == {"T": 1, "Q": 1}
        assert (t_slots.statistics().free, q_slots.statistics().free) == (1, 1)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return acted

    sweep(tasks, scenario, least=5)


def test_order_is_kept_when_a_claim_is_cancelled_at_every_turn(tasks: str) -> None:
    """I2: three pairs, three claims, the first cancelled: T and Q still leave in their order."""

    async def scenario(turn: int) -> bool:
        t_slots, q_slots = Limiter(3, name="t"), Limiter(3, name="q")
        inventory: Inventory[str, str] = Inventory(t_slots=t_slots, q_slots=q_slots)
        used: list[tuple[str, str]] = []

        async def claim() -> None:
            async with inventory.claim_pair() as pair:
                used.append((pair.t, pair.q))
                await asyncio.sleep(0)

        async def produce() -> None:
            for number in range(3):
                inventory.put_t(await ResourceEnvelope.create_with_slot(f"T{number}", t_slots))
                inventory.put_q(await ResourceEnvelope.create_with_slot(f"Q{number}", q_slots))
                await asyncio.sleep(0)

        claims = [asyncio.create_task(claim()) for _ in range(3)]
        producer = asyncio.create_task(produce())
        await turns(turn)
        acted = not claims[0].done()
        claims[0].cancel()
        await producer
        await asyncio.gather(*claims, return_exceptions=True)
        if inventory.t_stock:
            await claim()
        assert used == [(f"T{number}", f"Q{number}") for number in range(3)]
        inventory.check_invariants()
        assert (t_slots.statistics().free, q_slots.statistics().free) == (3, 3)
        return acted

    sweep(tasks, scenario, least=2)


@pytest.mark.parametrize("twice", [True, False])
def test_a_gate_with_a_producer_cancelled_at_every_turn(tasks: str, twice: bool) -> None:
    """G3 (defect row 3): the count returns to 0, and everybody else passes, in order."""

    async def scenario(turn: int) -> bool:
        inventory: Inventory[str, str] = Inventory(
            t_slots=Limiter(1, name="t"), q_slots=Limiter(1, name="q")
        )
        marks = Watermarks(high=1, low=0)
        gate = AdmissionGate(inventory, t=marks, q=marks)
        passed: list[int] = []

        async def produce(number: int) -> None:
            admit = gate.admit_t if number % 2 else gate.admit_q
            with await admit():
                await turns(2)
                passed.append(number)

        producers = [asyncio.create_task(produce(number)) for number in range(8)]
        await turns(turn)
        victim = producers[3]
        acted = not victim.done()
        victim.cancel()
        if twice:
            await turns(1)
            victim.cancel()
        await asyncio.gather(*producers, return_exceptions=True)
        others = [number for number in range(8) if number != 3]
        assert sorted(set(passed) | {3}) == [*sorted([*others, 3])]
        assert [n for n in passed if n % 2] == [n for n in (1, 3, 5, 7) if n in passed]
        assert [n for n in passed if not n % 2] == [0, 2, 4, 6]
        now = gate.statistics()
        assert (now.t_out, now.q_out, now.t_waiting, now.q_waiting) == (0, 0, 0, 0)
        return acted

    sweep(tasks, scenario, least=4)


@pytest.mark.parametrize("twice", [True, False])
def test_create_with_slot_cancelled_at_every_turn(tasks: str, twice: bool) -> None:
    """E1, E3 (R14, R44): the slot is back, the resource disposed of once, the next one served."""

    async def scenario(turn: int) -> bool:
        slots = Limiter(1, name="t")
        disposed: Counter[str] = Counter()

        def discard(resource: str) -> None:
            disposed[resource] += 1

        async def use(name: str) -> None:
            # Begun already when it may be cancelled: before its first step a task owns nothing.
            envelope = await ResourceEnvelope.create_with_slot(name, slots, discard=discard)
            try:
                await turns(2)
            finally:
                envelope.release()

        names = ["first", "second", "third"]
        users = [asyncio.create_task(use(name)) for name in names]
        await turns(turn + 1)
        victim = users[1]
        acted = not victim.done()
        victim.cancel()
        if twice:
            await turns(1)
            victim.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        assert disposed == dict.fromkeys(names, 1)
        assert slots.statistics().free == 1
        assert slots.statistics().queued == 0
        return acted

    sweep(tasks, scenario, least=4)


def test_an_expiry_met_by_a_cancel_at_every_turn(tasks: str) -> None:
    """I4: an item that expires while a granted claim is cancelled is dropped, not revived."""

    async def scenario(turn: int) -> bool:
        now = 0.0
        t_slots, q_slots = Limiter(2, name="t"), Limiter(2, name="q")
        inventory: Inventory[str, str] = Inventory(
            t_slots=t_slots, q_slots=q_slots, clock=lambda: now
        )

        async def claim() -> None:
            async with inventory.claim_pair() as pair:
                used.append(pair.t)

        used: list[str] = []
        claims = [asyncio.create_task(claim()) for _ in range(2)]
        await turns(1)
        for name, ttl in (("old", 1.0), ("fresh", None)):
            inventory.put_t(
                await ResourceEnvelope.create_with_slot(name, t_slots, ttl=ttl, clock=lambda: now)
            )
        inventory.put_q(await ResourceEnvelope.create_with_slot("Q", q_slots))
        await turns(turn)
        acted = not claims[0].done()
        now = 2.0
        claims[0].cancel()
        await turns(5)
        inventory.check_invariants()
        assert used == (["fresh"] if acted else ["old"])
        for task in claims:
            task.cancel()
        await asyncio.gather(*claims, return_exceptions=True)
        inventory.clear()
        assert (t_slots.statistics().free, q_slots.statistics().free) == (2, 2)
        return acted

    sweep(tasks, scenario, least=1)
