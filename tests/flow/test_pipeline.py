"""Pipeline: the step orders, the ten invariants, and the defects of a naive build."""

import asyncio
import gc
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import millpond.flow
from millpond.errors import SupplierFailed, Transient, UsageError
from millpond.flow import Capacity, LimiterStatistics, Pipeline, Retry, Run, RunStatistics, Status
from tests.flow.conftest import World, drained, limiters, quiet, read_to_error, small, statuses

pytestmark = pytest.mark.virtual_time

AnyRun = Run[Any, Any]


class Watched(World[str]):
    """Writes down the limiters as each callback sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.run: AnyRun | None = None
        self.seen: list[tuple[str, dict[str, LimiterStatistics]]] = []

    def look(self, where: str) -> None:
        """Note what is out at this moment, and check the books there too."""
        assert self.run is not None
        self.run.check_invariants()
        self.seen.append((where, dict(limiters(self.run))))

    def held(self, where: str, limiter: str) -> set[int]:
        """Return every count of held permits that was seen at *where*."""
        return {state[limiter].held for place, state in self.seen if place == where}

    async def supply(self) -> int:
        """Look before and after the work."""
        self.look("supply")
        await asyncio.sleep(1)
        self.look("supply")
        return self.make()

    async def send(self, item: int) -> int:
        """Look while it is sent."""
        self.look("send")
        await asyncio.sleep(1)
        return item

    async def request(self, item: int) -> str:
        """Look while the answer is awaited."""
        self.look("request")
        await asyncio.sleep(5)
        self.look("request")
        return self.answer(item)

    async def consume(self, t: int, q: str, item: int) -> str:
        """Look while the pair is used."""
        self.look("consume")
        await asyncio.sleep(1)
        self.look("consume")
        return await super().consume(t, q, item)


# -- the good case


async def test_every_item_gets_its_outcome_and_nothing_is_left() -> None:
    """R2, O1: the value belongs to the item, and the books balance at every outcome."""
    world: World[str] = World()
    async with world.pipeline().run(range(25)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(25), "ok")
    assert all(outcome.value == f"value {outcome.item}" for outcome in outcomes)
    assert all(outcome.unwrap() and not outcome.degraded_reason for outcome in outcomes)
    world.check_over(run, outcomes)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_empty_and_single_inputs_end(count: int, asynchronous: bool) -> None:
    """R1: nothing to do is done at once, and makes no T."""

    async def items() -> AsyncIterator[int]:
        for number in range(count):
            yield number

    world: World[str] = World()
    async with world.pipeline().run(items() if asynchronous else range(count)) as run:
        outcomes = await drained(run)
    assert len(outcomes) == count == len(world.made)
    world.check_over(run, outcomes)


async def test_a_finite_input_makes_no_more_t_than_items() -> None:
    """No T is produced beyond what is outstanding."""
    world: World[str] = World()
    async with world.pipeline(capacity=small(3, 8, 8, 8)).run(range(5)) as run:
        outcomes = await drained(run)
    assert len(world.made) == 5
    world.check_over(run, outcomes)


async def test_a_failed_request_lowers_the_need_for_t() -> None:
    """And the T that is left over is discarded, not kept."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(50)
        if item:
            raise OSError(item)
        return world.answer(item)

    async with world.pipeline(request=request, capacity=small(2, 8, 8, 8)).run(range(4)) as run:
        outcomes = await drained(run)
    assert Counter(statuses(outcomes).values()) == {"ok": 1, "failed": 3}
    world.check_over(run, outcomes)


async def test_items_that_failed_need_no_t() -> None:
    """Five fail at once, one at a time: the sixth needs one T, not six."""
    world: World[str] = World()

    async def supply() -> int:
        await asyncio.sleep(10)
        return world.make()

    async def request(item: int) -> str:
        if item < 5:
            raise OSError(item)
        await asyncio.sleep(90)
        return world.answer(item)

    pipeline = world.pipeline(supply=supply, request=request, capacity=small(2, 8, 2, 1))
    async with pipeline.run(range(6)) as run:
        outcomes = await drained(run)
    assert len(world.made) == 1
    world.check_over(run, outcomes)


async def test_timings_name_the_stages() -> None:
    """Seconds per stage, and in total."""
    world = Watched()
    async with world.pipeline().run([1]) as world.run:
        (outcome,) = await drained(world.run)
    assert outcome.timings["request"] == pytest.approx(5)
    assert outcome.timings["consume"] == pytest.approx(1)
    assert outcome.timings["total"] == pytest.approx(6)


# -- the ten invariants of the architecture document


async def watched(sends: bool) -> Watched:
    """Run twelve items through a small pipeline that is looked at from inside."""
    world = Watched()
    pipeline = world.pipeline(**({"send": world.send} if sends else {}))
    async with pipeline.run(range(12)) as world.run:
        outcomes = await drained(world.run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(world.run, outcomes)
    return world


@pytest.mark.parametrize("sends", [True, False])
async def test_invariant_1_each_slot_goes_back_exactly_once(sends: bool) -> None:
    """Every slot that was taken is released once and only once."""
    world = await watched(sends)
    assert world.run is not None
    books = limiters(world.run)
    assert (books["t_slot"].free, books["q_slot"].free) == (2, 2)
    for _, state in world.seen:
        for slots in ("t_slot", "q_slot"):
            now = state[slots]
            assert now.free + now.held + now.granted == now.capacity


@pytest.mark.parametrize("sends", [True, False])
async def test_invariant_2_each_pending_permit_goes_back_exactly_once(sends: bool) -> None:
    """Held while the request runs, and free at the end."""
    world = await watched(sends)
    assert min(world.held("request", "q_pending")) >= 1
    assert max(world.held("request", "q_pending")) <= 2
    assert world.run is not None
    assert limiters(world.run)["q_pending"].free == 2


async def test_invariant_3_no_physical_while_an_answer_is_awaited() -> None:
    """With one physical permit and nobody else at work, it is free while both requests run."""
    world: World[str] = World()
    free: list[int] = []

    async def request(item: int) -> str:
        await asyncio.sleep(50)  # T are made by now
        free.append(limiters(run)["physical"].free)
        return world.answer(item)

    async def send(item: int) -> int:
        assert limiters(run)["physical"].held == 1
        await asyncio.sleep(1)
        return item

    async with world.pipeline(request=request, send=send).run(range(2)) as run:
        outcomes = await drained(run)
    assert free == [1, 1]
    world.check_over(run, outcomes)


@pytest.mark.parametrize("sends", [True, False])
async def test_invariant_4_a_q_slot_is_taken_only_after_the_answer(sends: bool) -> None:
    """As long as no answer has returned, no Q slot is out."""
    world: World[str] = World()
    held: list[int] = []

    async def request(item: int) -> str:
        await asyncio.sleep(5)
        held.append(limiters(run)["q_slot"].held)
        assert limiters(run)["q_slot"].queued == 0
        return world.answer(item)

    settings: dict[str, Any] = {"send": world_send} if sends else {}
    pipeline = world.pipeline(request=request, capacity=small(1, 2, 8, 4), **settings)
    async with pipeline.run(range(4)) as run:
        outcomes = await drained(run)
    assert held[0] == 0
    world.check_over(run, outcomes)


async def world_send(item: int) -> int:
    """Send nothing, in one turn."""
    await asyncio.sleep(0)
    return item


def test_invariant_5_only_the_three_doors_reach_the_stock() -> None:
    """C gets T and Q through `claim_pair` alone; S and P put through `put_t` and `put_q`."""
    source = (Path(millpond.flow.__file__).parent / "_machinery.py").read_text(encoding="utf-8")
    used = set(re.findall(r"self\.inventory\.(\w+)\(", source))
    doors = {"put_t", "put_q", "claim_pair"}
    looking = {"subscribe", "statistics", "check_invariants"}
    assert used == doors | looking
    consumer = source.split("# -- C")[1].split("# -- both")[0]
    assert set(re.findall(r"self\.inventory\.(\w+)", consumer)) == {"claim_pair"}


async def test_invariant_6_a_claim_gives_a_whole_pair_or_nothing() -> None:
    """Whenever a consumer runs, it has both, and as many T as Q are out on lease."""
    world: World[str] = World()

    async def consume(t: int, q: str, item: int) -> str:
        stock = run._machinery.inventory.statistics()  # type: ignore[union-attr] # begun
        books = limiters(run)
        assert books["t_slot"].held - stock.t.stocked == books["q_slot"].held - stock.q.stocked
        assert stock.leased >= 1
        return await world.consume(t, q, item)

    async with world.pipeline(consume=consume).run(range(6)) as run:
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_invariant_7_cancelled_while_waiting_for_a_pair_removes_nothing() -> None:
    """A run cancelled with one side in stock: each T is left over, none was claimed."""
    world: World[str] = World()

    async def request(_: int) -> str:
        await asyncio.sleep(1000)
        return "never"

    async with world.pipeline(request=request).run(range(4)) as run:
        await quiet()
        assert run.statistics().t_stock == 2
        run.cancel("enough")
        outcomes = await drained(run)
    stock = run._machinery.inventory.statistics()  # type: ignore[union-attr] # begun
    assert (stock.claimed, stock.t.left_over) == (0, 2)
    world.check_over(run, outcomes)


async def test_invariant_8_cancelled_after_the_claim_the_lease_releases_both() -> None:
    """Both slots are back, both resources disposed of, and the item says cancelled."""
    world: World[str] = World()

    async def consume(_t: int, _q: str, _item: int) -> str:
        await asyncio.sleep(1000)
        return "never"

    async with world.pipeline(consume=consume, grace=1).run([1]) as run:
        await quiet()
        assert run.statistics().consuming == 1
        run.cancel("enough")
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "cancelled"}
    world.check_over(run, outcomes)


async def test_invariant_9_expired_resources_are_not_paired() -> None:
    """A T that expired in stock meets no answer; another is made for the item."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(10)
        return world.answer(item)

    used: list[int] = []

    async def consume(t: int, q: str, item: int) -> str:
        used.append(t)
        return await world.consume(t, q, item)

    pipeline = world.pipeline(request=request, consume=consume, ttl_t=4)
    async with pipeline.run([1]) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "ok"}
    assert used == [len(world.made) - 1]
    assert len(world.made) >= 2
    world.check_over(run, outcomes)


async def test_invariant_10_looking_changes_nothing() -> None:
    """Statistics, checks and repr are read-only: the same before and after, expired items too."""
    world: World[str] = World()

    async def request(_: int) -> str:
        await asyncio.sleep(100)
        return "never"

    async with world.pipeline(request=request, ttl_t=1).run(range(4)) as run:
        await asyncio.sleep(50)
        before = (run.statistics(), limiters(run))
        for _ in range(3):
            run.check_invariants()
            assert repr(run).startswith("<Run 0 ended, 2 open, 2 in flight>")
        await quiet()
        assert (run.statistics(), limiters(run)) == before
        assert before[0].t_stock == 2


@pytest.mark.parametrize("sends", [True, False])
async def test_step_orders(sends: bool) -> None:
    """S and C hold Physical while they work; P only while it sends."""
    world = await watched(sends)
    for stage in ("supply", "consume", *(["send"] if sends else [])):
        assert world.held(stage, "physical") == {1}, stage
    assert 0 in world.held("request", "physical")
    assert world.held("consume", "t_slot") <= {1, 2}
    assert min(world.held("consume", "q_slot")) >= 1


async def test_a_t_slot_is_taken_only_after_t_exists() -> None:
    """S: while the first T are made, no T slot is out."""
    world = Watched()
    async with world.pipeline(capacity=small(2)).run(range(4)) as world.run:
        await drained(world.run)
    first = next(state for where, state in world.seen if where == "supply")
    assert (first["t_slot"].held, first["t_slot"].granted) == (0, 0)


async def test_full_q_slots_hold_back_new_requests() -> None:
    """The pending permit goes back after `put_q`: an answer without a slot keeps its permit."""
    world: World[str] = World()
    asked: list[int] = []

    async def request(item: int) -> str:
        asked.append(item)
        return world.answer(item)

    async def consume(t: int, q: str, item: int) -> str:
        await asyncio.sleep(10)
        return await world.consume(t, q, item)

    pipeline = world.pipeline(request=request, consume=consume, capacity=small(1, 1, 1, 2))
    async with pipeline.run(range(20)) as run:
        await quiet()
        # one in consumption or in stock (one slot), two with an answer in hand
        assert len(asked) == 3
        assert limiters(run)["q_pending"].held == 2
        assert limiters(run)["q_slot"].queued == 2
        run.check_invariants()
        outcomes = await drained(run)
    world.check_over(run, outcomes)


# -- defects of a naive build, and faults that others shipped


async def test_one_of_four_suppliers_raises() -> None:
    """R39, the first case of all: three are graded, one has a reason, the run returns."""
    world: World[str] = World()

    async def request(item: int) -> str:
        if item == 2:
            msg = "no answer for 2"
            raise OSError(msg)
        return await world.request(item)

    async with world.pipeline(request=request).run(range(4)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "ok", 2: "failed", 3: "ok"}
    failed = next(outcome for outcome in outcomes if outcome.item == 2)
    assert (failed.stage, failed.degraded_reason) == ("request", "OSError: no answer for 2")
    with pytest.raises(OSError, match="no answer for 2"):
        failed.unwrap()
    world.check_over(run, outcomes)


async def test_one_timeout_discards_ten_results() -> None:
    """R32: nine results, one that names the layer, and no orphan."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(100 if item == 4 else 1)
        return world.answer(item)

    pipeline = world.pipeline(request=request, request_timeout=9, capacity=small(2, 4, 4, 10))
    async with pipeline.run(range(10)) as run:
        outcomes = await drained(run)
    assert Counter(statuses(outcomes).values()) == {"ok": 9, "timed_out": 1}
    late = next(outcome for outcome in outcomes if outcome.status is Status.TIMED_OUT)
    assert (late.item, late.layer, late.stage) == (4, "request", "request")
    assert "request exceeded its 9 s" in late.degraded_reason
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", ["request", "consume"])
async def test_stuck_at_199_of_200(stage: str) -> None:
    """R34: the last item never answers; its layer ends it, and the run says which it was."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(1e9 if item == 19 and stage == "request" else 0)
        return world.answer(item)

    async def consume(t: int, q: str, item: int) -> str:
        await asyncio.sleep(1e9 if item == 19 and stage == "consume" else 0)
        return await world.consume(t, q, item)

    async with world.pipeline(request=request, consume=consume).run(range(20)) as run:
        outcomes = await drained(run)
    assert outcomes[-1].item == 19
    assert (outcomes[-1].status, outcomes[-1].layer) == (Status.TIMED_OUT, stage)
    world.check_over(run, outcomes)


async def test_siblings_of_a_failure_run_on_and_are_awaited() -> None:
    """R37: one of several fails; the others end as they would have."""
    world: World[str] = World()
    ended: list[int] = []

    async def request(item: int) -> str:
        if item == 0:
            raise OSError(item)
        await asyncio.sleep(10 + item)
        ended.append(item)
        return world.answer(item)

    async with world.pipeline(request=request, capacity=small(1, 2, 8, 6)).run(range(5)) as run:
        outcomes = await drained(run)
    assert ended == [1, 2, 3, 4]
    world.check_over(run, outcomes)


async def test_the_only_producer_dies_before_its_first_put() -> None:
    """R38: the run ends, and the cause comes first."""
    world: World[str] = World()

    async def supply() -> int:
        msg = "no such image"
        raise FileNotFoundError(msg)

    async with world.pipeline(supply=supply).run(range(3)) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, SupplierFailed)
    assert isinstance(error.__cause__, FileNotFoundError)
    assert "no such image" in str(error)
    assert set(statuses(outcomes).values()) == {"skipped"}
    assert all("no such image" in outcome.degraded_reason for outcome in outcomes)
    world.check_over(run, outcomes)


async def test_double_owner() -> None:
    """Defect row 1: cancelled at any turn after a put, no slot is both free and in stock.

    Turn by turn in tests/races; here the moment right behind the first puts.
    """
    world: World[str] = World()
    async with world.pipeline(request=never).run(range(4)) as run:
        for _ in range(99):
            if run.statistics().t_stock:
                break
            await asyncio.sleep(0)
        run.cancel()
        outcomes = await drained(run)
    world.check_over(run, outcomes)


async def never(_: int) -> str:
    """Answer nothing."""
    await asyncio.sleep(1e9)
    return "never"


@pytest.mark.parametrize("moment", ["mid-request", "after the return"])
async def test_pending_permit_lost(moment: str) -> None:
    """Defect row 4: whenever P is cancelled, its permit is back exactly once."""
    world: World[str] = World()

    async def request(item: int) -> str:
        if moment == "mid-request":
            await asyncio.sleep(1e9)
        return world.answer(item)

    pipeline = world.pipeline(request=request, consume=never_consumes, capacity=small(1, 1, 1, 2))
    async with pipeline.run(range(9)) as run:
        await quiet()
        assert limiters(run)["q_pending"].held == 2
        run.cancel()
        run.cancel()
        outcomes = await drained(run)
    assert limiters(run)["q_pending"].free == 2
    world.check_over(run, outcomes)


async def never_consumes(_t: int, _q: str, _item: int) -> str:
    """Use a pair for ever."""
    await asyncio.sleep(1e9)
    return "never"


async def test_counters_do_not_add_up() -> None:
    """Defect row 12: the identities hold after expiry between claim and use, and early raises."""
    world: World[str] = World()

    async def consume(t: int, q: str, item: int) -> str:
        if item % 3 == 0:
            raise OSError(item)
        await asyncio.sleep(4)
        return await world.consume(t, q, item)

    pipeline = world.pipeline(consume=consume, ttl_q=6, capacity=small(1, 3, 3, 3))
    async with pipeline.run(range(12)) as run:
        outcomes = await drained(run)
    stock = run._machinery.inventory.statistics()  # type: ignore[union-attr] # begun
    by_status = Counter(outcome.status for outcome in outcomes)
    expired_after_claim = sum(
        outcome.status is Status.EXPIRED and outcome.stage == "consume" for outcome in outcomes
    )
    assert expired_after_claim >= 1
    assert stock.claimed == by_status[Status.OK] + by_status[Status.FAILED] + expired_after_claim
    assert sum(by_status.values()) == 12 == run.statistics().ended
    assert run.statistics().by_status == by_status
    world.check_over(run, outcomes)


async def test_fresh_at_claim_stale_at_use() -> None:
    """Defect row 13: expired during the wait for Physical; consume is not called."""
    world: World[str] = World()

    async def consume(t: int, q: str, item: int) -> str:
        await asyncio.sleep(10)
        return await world.consume(t, q, item)

    pipeline = world.pipeline(consume=consume, ttl_q=5, capacity=small(1, 2, 2, 2))
    async with pipeline.run(range(2)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "expired"}
    assert world.consumed == [0]
    assert outcomes[1].stage == "consume"
    assert "expired" in outcomes[1].degraded_reason
    world.check_over(run, outcomes)


async def test_an_answer_that_expires_in_stock_is_an_outcome() -> None:
    """Lazy: the next event ends the item, and says how old the answer was."""
    world: World[str] = World()

    async def supply() -> int:
        await asyncio.sleep(10)
        return world.make()

    async with world.pipeline(supply=supply, ttl_q=5).run([1]) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "expired"}
    assert outcomes[0].stage == "returned"
    assert outcomes[0].degraded_reason == "the answer was 10 s old before it was used"
    world.check_over(run, outcomes)


async def test_an_answer_that_expires_while_it_waits_for_a_slot_is_an_outcome() -> None:
    """Q ages from its return: the wait for its slot counts."""
    world: World[str] = World()

    async def consume(t: int, q: str, item: int) -> str:
        await asyncio.sleep(10)
        return await world.consume(t, q, item)

    pipeline = world.pipeline(consume=consume, ttl_q=5, capacity=small(1, 1, 1, 2))
    async with pipeline.run(range(2)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "expired"}
    world.check_over(run, outcomes)


async def test_slots_full_of_expired_t_do_not_stall_the_run() -> None:
    """Defect row 7, in the pipeline: the slow answers come when every T in stock is too old."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(50)
        return world.answer(item)

    async with world.pipeline(request=request, ttl_t=3).run(range(6)) as run:
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_detached_settle_tasks() -> None:
    """Defect row 15, R56: collect garbage in mid-run; no task vanishes, no error is only logged."""
    world: World[str] = World()

    async def discard(t: int) -> None:
        await asyncio.sleep(3)
        world.discarded_t[t] += 1

    async def request(item: int) -> str:
        await asyncio.sleep(1)
        return world.answer(item)

    async with world.pipeline(discard_t=discard, request=request).run(range(6)) as run:
        for _ in range(8):
            await asyncio.sleep(0.5)
            gc.collect()
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_tasks_cancelled_but_not_awaited() -> None:
    """Defect row 16: when the block is left, no task of ours exists, not even for one turn."""
    world: World[str] = World()
    before = asyncio.all_tasks()
    async with world.pipeline(request=never, consume=never_consumes).run(range(9)) as run:
        await quiet()
        assert len(asyncio.all_tasks()) > 8
        run.cancel()
    assert asyncio.all_tasks() == before


async def test_two_truths_about_a_derived_number() -> None:
    """Defect row 17: the workers that run are those that the capacity names."""
    world: World[str] = World()
    capacity = Capacity(physical=3, t_slots=2, q_slots=2, q_pending=4)
    async with world.pipeline(capacity=capacity, request=never).run(range(9)) as run:
        await quiet()
        names = Counter(
            re.sub(r"\d+$", "", task.get_name().removeprefix("millpond-"))
            for task in asyncio.all_tasks()
        )
        workers = capacity.workers
        assert (names["S"], names["P"], names["C"]) == (
            workers.supply,
            workers.request,
            workers.consume,
        )
        assert (workers.supply, workers.request, workers.consume) == (5, 6, 5)
        assert run.statistics().in_flight == 4


# -- retry and send


async def test_a_failure_that_may_pass_is_tried_again() -> None:
    """The item ends ok, the retries are counted, and each attempt sends anew under Physical."""
    world: World[str] = World()
    attempts: Counter[int] = Counter()
    sent: Counter[int] = Counter()

    async def send(item: int) -> int:
        sent[item] += 1
        assert limiters(run)["physical"].held == 1
        return item

    async def request(item: int) -> str:
        attempts[item] += 1
        await asyncio.sleep(0)
        if attempts[item] <= item:
            msg = "busy"
            raise Transient(msg, retry_after=2)
        return world.answer(item)

    pipeline = world.pipeline(request=request, send=send, retry=Retry(3, jitter=0))
    async with pipeline.run(range(4)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "ok", 2: "ok", 3: "failed"}
    assert attempts == sent == {0: 1, 1: 2, 2: 3, 3: 3}
    assert run.statistics().retries == 1 + 2 + 2
    world.check_over(run, outcomes)


async def test_retries_count_against_the_time_of_the_request() -> None:
    """R33: the limit bounds all attempts together, pauses included."""
    world: World[str] = World()
    loop = asyncio.get_running_loop()

    async def request(_: int) -> str:
        await asyncio.sleep(4)
        msg = "busy"
        raise Transient(msg)

    pipeline = world.pipeline(
        request=request, request_timeout=10, retry=Retry(99, first_wait=1, jitter=0)
    )
    async with pipeline.run([1]) as run:
        outcomes = await drained(run)
    assert outcomes[0].status in (Status.FAILED, Status.TIMED_OUT)
    assert loop.time() <= 10.1
    world.check_over(run, outcomes)


async def test_request_gets_what_send_made_of_the_item() -> None:
    """And consume gets the item itself."""
    world: World[str] = World()
    got: list[object] = []

    async def send(item: int) -> str:
        return f"sent {item}"

    async def request(sent: str) -> str:
        got.append(sent)
        return world.answer(int(sent.removeprefix("sent ")))

    async with world.pipeline(send=send, request=request).run([7]) as run:
        outcomes = await drained(run)
    assert (got, statuses(outcomes)) == (["sent 7"], {7: "ok"})
    world.check_over(run, outcomes)


async def test_a_failed_send_gives_physical_back() -> None:
    """It ends its item in the stage of the request, and holds up nobody."""
    world: World[str] = World()

    async def send(item: int) -> int:
        await asyncio.sleep(0)
        if item % 2:
            raise OSError(item)
        return item

    async with world.pipeline(send=send).run(range(6)) as run:
        outcomes = await drained(run)
    assert Counter(statuses(outcomes).values()) == {"ok": 3, "failed": 3}
    world.check_over(run, outcomes)


# -- figures and misuse


async def test_peaks_are_those_that_were_seen() -> None:
    """Peak of requests in flight, and of T alive."""
    world: World[str] = World()
    flying = most = 0

    async def request(item: int) -> str:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(5)
        flying -= 1
        return world.answer(item)

    async with world.pipeline(request=request, capacity=small(2, 2, 4, 5)).run(range(20)) as run:
        outcomes = await drained(run)
    now: RunStatistics = run.statistics()
    assert now.peak_in_flight == most == 5
    assert 2 <= now.peak_live_t <= 2 + 2 + 2
    world.check_over(run, outcomes)


async def test_live_t_stay_within_the_bound() -> None:
    """At most t_slots + physical + 2 at once, disposals included."""
    world: World[str] = World()
    live: list[int] = []

    async def consume(t: int, q: str, item: int) -> str:
        live.append(run.statistics().live_t)
        await asyncio.sleep(1)
        return await world.consume(t, q, item)

    async def discard(t: int) -> None:
        await asyncio.sleep(3)
        world.discarded_t[t] += 1

    pipeline = world.pipeline(consume=consume, discard_t=discard, capacity=small(2, 2, 4, 4))
    async with pipeline.run(range(20)) as run:
        outcomes = await drained(run)
    assert max(live) <= run.statistics().peak_live_t <= 2 + 2 + 2
    world.check_over(run, outcomes)


async def test_two_runs_of_one_pipeline_share_nothing() -> None:
    """A pipeline is settings; each run has its own capacities and books."""
    world: World[str] = World()
    pipeline = world.pipeline()
    async with pipeline.run(range(5)) as first, pipeline.run(range(5)) as second:
        one, two = await asyncio.gather(drained(first), drained(second))
    assert statuses(one) == statuses(two) == dict.fromkeys(range(5), "ok")
    assert limiters(first)["physical"].free == limiters(second)["physical"].free == 1


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"supply": None}, "`supply` must be an async function"),
        ({"request": 3}, "`request` must be an async function"),
        ({"consume": "x"}, "`consume` must be an async function"),
        ({"ttl_t": -1}, "`ttl_t` must be seconds >= 0"),
        ({"ttl_q": "1"}, "`ttl_q` must be seconds"),
        ({"grace": None}, "`grace` must be seconds >= 0"),
        ({"discard_timeout": float("inf")}, "`discard_timeout` must be seconds"),
        ({"request_timeout": float("nan")}, "`request_timeout` must be seconds"),
        ({"supply_failures": 0}, "`supply_failures` must be an integer >= 1"),
        ({"max_unread": 0}, "`max_unread` must be an integer >= 1"),
        ({"journal": object()}, "pass `key=`"),
    ],
)
def test_arguments_that_can_never_work_are_refused(settings: dict[str, Any], error: str) -> None:
    """Before anything starts, and with what was expected."""
    world: World[str] = World()
    with pytest.raises((UsageError, ValueError), match=re.escape(error)):
        world.pipeline(**settings)


def test_a_target_is_at_least_one() -> None:
    """A run that may end before it begins is a mistake."""
    world: World[str] = World()
    with pytest.raises(ValueError, match="`target` must be an integer >= 1"):
        world.pipeline().run([1], target=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda run: run.stop(),
        lambda run: run.statistics(),
        lambda run: run.check_invariants(),
    ],
)
def test_a_run_that_was_not_entered_says_so(use: Callable[[AnyRun], object]) -> None:
    """With the way to do it."""
    world: World[str] = World()
    run = world.pipeline().run([1])
    assert repr(run) == "<Run, not started>"
    with pytest.raises(UsageError, match=r"async with pipeline\.run"):
        use(run)


async def test_a_run_is_used_once() -> None:
    """A second entering is refused, and does not disturb the first."""
    world: World[str] = World()
    async with world.pipeline().run(range(3)) as run:
        with pytest.raises(UsageError, match="for each run"):
            async with run:
                pass
        outcomes = await drained(run)
    assert len(outcomes) == 3
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", ["request", "consume"])
async def test_a_stage_that_is_not_async_ends_the_run(stage: str) -> None:
    """A mistake in the code meets every item, so it is said once and ends the run."""
    world: World[str] = World()

    def plain(*_: object) -> str:
        return "plain"

    async with world.pipeline(**{stage: plain}).run(range(9)) as run:
        with pytest.raises(UsageError, match=f"`{stage}` must be an async function"):
            await drained(run)
    assert run.statistics().ended == run.statistics().pulled
    run.check_invariants()


def test_capacity_can_be_asked_for() -> None:
    """What was given is what is used."""
    world: World[str] = World()
    pipeline: Pipeline[Any, Any, Any, Any] = world.pipeline(capacity=small(3))
    assert pipeline.capacity.physical == 3
