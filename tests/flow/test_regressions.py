"""Faults found in this pipeline before its first release; each test is one of them."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest

from millpond.errors import SourceFailed, SupplierFailed, UsageError
from millpond.flow import (
    AdmissionGate,
    Inventory,
    Limiter,
    Outcome,
    ResourceEnvelope,
    Run,
    Watermarks,
)
from tests.flow.conftest import (
    VirtualLoop,
    World,
    drained,
    limiters,
    quiet,
    read_to_error,
    small,
    statuses,
    turns,
)

pytestmark = pytest.mark.virtual_time


class Fatal(BaseException):
    """Not to be caught by anybody."""


class Ends:
    """A journal that only remembers ends, and may fail in a way of its own."""

    def __init__(self, error: Exception | None = None) -> None:
        self.ends: list[tuple[str, str]] = []
        self._error = error

    def recall(self, _: str) -> None:
        """Know nothing."""

    def answer(self, _key: str, _value: object) -> None:
        """Keep nothing."""

    def finish(self, key: str, outcome: Outcome[object, object]) -> None:
        """Keep the end, or fail."""
        if self._error is not None:
            raise self._error
        self.ends.append((key, outcome.status.value))

    async def committed(self, _: str) -> None:
        """Be quick."""


# -- hangs


async def test_answers_that_expire_at_a_claim_reopen_the_gate() -> None:
    """G2, I5: the clean-up of a claim changes the stock, so whoever waits for it hears of it."""
    world: World[str] = World()
    calls = 0

    async def supply() -> int:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise OSError(calls)
        return world.make()

    async def consume(_t: int, _q: str, _item: int) -> str:
        await asyncio.sleep(0.5)
        return "value"

    pipeline = world.pipeline(
        supply=supply, consume=consume, ttl_q=0.2, capacity=small(1, 1, 2, 1), max_unread=1
    )
    async with pipeline.run(range(3)) as run:
        outcomes = await drained(run)
    world.check_over(run, outcomes)


async def test_a_t_that_expires_at_a_claim_lets_a_producer_in() -> None:
    """The same, for T and a gate alone."""
    t_slots, q_slots = Limiter(1, name="t"), Limiter(1, name="q")
    inventory: Inventory[str, str] = Inventory(t_slots=t_slots, q_slots=q_slots)
    marks = Watermarks(high=1, low=0)
    gate = AdmissionGate(inventory, t=marks, q=marks)
    inventory.put_t(await ResourceEnvelope.create_with_slot("T", t_slots, ttl=1))
    producer = asyncio.create_task(gate.admit_t())
    await asyncio.sleep(2)
    claim = asyncio.create_task(inventory.claim_pair().__aenter__())
    await quiet()
    let_in = producer.done()
    claim.cancel()
    await asyncio.wait({claim})
    (await producer).release()
    assert let_in


async def test_a_pair_given_back_is_watched_for_its_expiry() -> None:
    """Defect row 7: a producer waits for the slot of a T that comes back from a cancelled claim."""
    t_slots, q_slots = Limiter(1, name="t"), Limiter(1, name="q")
    inventory: Inventory[str, str] = Inventory(t_slots=t_slots, q_slots=q_slots)
    inventory.put_q(await ResourceEnvelope.create_with_slot("Q", q_slots))
    envelope = await ResourceEnvelope.create_with_slot("T", t_slots, ttl=1)
    claim = asyncio.create_task(inventory.claim_pair().__aenter__())
    await quiet()
    producer = asyncio.create_task(ResourceEnvelope.create_with_slot("T2", t_slots))
    await quiet()
    inventory.put_t(envelope)
    claim.cancel()
    (await producer).release()
    assert asyncio.get_running_loop().time() == pytest.approx(1, abs=0.01)
    inventory.clear()


@pytest.mark.parametrize("how", ["stop", "key"])
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_source_may_stop_its_own_run(asynchronous: bool, how: str) -> None:
    """O1: the item that it yields then has an outcome, and the run ends."""
    world: World[str] = World()

    def stop_at(item: int, where: str) -> None:
        if (item, where) == (4, how):
            run.stop("enough")

    def items() -> Iterator[int]:
        for number in range(10**9):
            stop_at(number, "stop")
            yield number

    async def items_too() -> AsyncIterator[int]:
        for number in items():
            yield number

    def key(item: int) -> str:
        stop_at(item, "key")
        return str(item)

    source = items_too() if asynchronous else items()
    async with world.pipeline(key=key).run(source) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "skipped" if n == 4 else "ok" for n in range(5)}
    world.check_over(run, outcomes)


async def test_a_source_that_yields_in_spite_of_its_cancel_does_not_hold_the_run() -> None:
    """O1, R1: what it yields after the stop is skipped, and it is not asked again."""
    world: World[str] = World()

    async def items() -> AsyncIterator[int]:
        yield 0
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            yield 1
        yield 2

    async with world.pipeline().run(items()) as run:
        outcomes = [await anext(run)]
        run.stop()
        outcomes += await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "skipped"}
    world.check_over(run, outcomes)


async def test_a_journal_that_breaks_does_not_hold_the_reader() -> None:
    """R1, O2: whatever it raises, the outcome is delivered as not recorded, and the run ends."""
    world: World[str] = World()
    journal = Ends(ValueError("not JSON"))
    async with world.pipeline(journal=journal, key=str).run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(3), "ok")
    assert run.statistics().unrecorded == 3
    world.check_over(run, outcomes)


async def test_a_cancel_that_came_too_early_does_not_hold_the_block() -> None:
    """R1: it was refused, so it has no effect; leaving the block still cancels."""
    world: World[str] = World()
    run = world.pipeline().run(range(20))
    with pytest.raises(UsageError):
        run.cancel()
    async with run:
        await anext(run)
    outcomes = await drained(run)
    assert run.statistics().open == 0
    assert outcomes


# -- leaks and double ends


@pytest.mark.parametrize("error", [Fatal, asyncio.CancelledError, SystemExit])
async def test_a_plain_disposal_may_raise_anything(error: type[BaseException]) -> None:
    """W1, E1, D3: no slot of either side is lost by it."""
    world: World[str] = World()

    def discard(t: int) -> NoReturn:
        world.discarded_t[t] += 1
        raise error

    async with world.pipeline(discard_t=discard).run(range(4)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(4), "ok")
    world.check_over(run, outcomes)


async def test_a_late_end_is_not_written_over_the_first() -> None:
    """O1: an abandoned consumer that finishes after all ends nothing a second time."""
    world: World[str] = World()
    going = asyncio.Event()
    journal = Ends()

    async def consume(_t: int, _q: str, _item: int) -> str:
        while not going.is_set():
            try:
                await going.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async with world.pipeline(consume=consume, journal=journal, key=str).run([1]) as run:
        await quiet()
        run.cancel("enough")
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "abandoned"}
    assert run.statistics().abandoned == ("consume of 1",)
    going.set()
    await quiet()
    assert journal.ends == [("1", "abandoned")]
    world.check_over(run, outcomes)


@pytest.mark.parametrize("count", range(12))
async def test_leaving_a_box_is_not_interrupted_by_the_cancel_of_its_entering(count: int) -> None:
    """D1: entered in the tick of the cancel, it is on its way out when the cancel is dealt with."""
    world: World[str] = World()
    entered: list[int] = []
    left: list[int] = []

    @asynccontextmanager
    async def box() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        entered.append(1)
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            left.append(1)

    async with world.pipeline(supply=box, discard_t=None).run(range(6)) as run:
        await turns(count)
        run.cancel()
        await drained(run)
    assert entered == left


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("count", range(1, 30))
def test_a_closing_loop_disposes_of_every_t(count: int, asynchronous: bool) -> None:
    """R2, R57: also of a T that a cancelled claim gave back, and where a disposal had not begun."""
    world: World[str] = World()
    begun: list[Run[Any, Any]] = []

    async def later(t: int) -> None:
        world.discarded_t[t] += 1

    settings: dict[str, Any] = {"discard_t": later} if asynchronous else {}

    async def body() -> None:
        async with world.pipeline(**settings).run(range(1000)) as run:
            begun.append(run)
            await drained(run)

    async def main() -> "asyncio.Task[None]":
        task = asyncio.create_task(body())
        await turns(count)
        return task

    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        task = runner.run(main())
    assert task.cancelled()
    gc.collect()
    assert not loop.complaints
    assert world.discarded_t == Counter(world.made)
    assert world.discarded_q == Counter(world.answered)
    for run in begun:
        assert all(state.free == state.capacity for state in limiters(run).values())


async def test_a_refused_ttl_disposes_of_the_resource() -> None:
    """E1: `create_with_slot` answers for it from the call on."""
    discarded: list[str] = []
    with pytest.raises(ValueError, match="`ttl`"):
        await ResourceEnvelope.create_with_slot(
            "T", Limiter(1, name="t"), ttl=-1, discard=discarded.append
        )
    assert discarded == ["T"]


# -- clean-ups cut off, tasks left behind


@pytest.mark.parametrize("ends_by", ["itself", "stop", "cancel", "leaving"])
@pytest.mark.parametrize("seconds", [0.01, 3.0])
async def test_the_clean_up_of_a_source_is_not_cut_off(seconds: float, ends_by: str) -> None:
    """K2 (R53): it has the time that closing may take, and the block waits for it."""
    world: World[str] = World()
    closed: list[float] = []

    class Source:
        def __init__(self) -> None:
            self._given = 0

        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            if ends_by == "itself" and self._given == 2:
                raise StopAsyncIteration
            self._given += 1
            return self._given

        async def aclose(self) -> None:
            await asyncio.sleep(seconds)
            closed.append(seconds)

    async with world.pipeline(max_unread=1).run(Source()) as run:
        await quiet()
        if ends_by == "stop":
            run.stop()
        if ends_by == "cancel":
            run.cancel()
        if ends_by != "leaving":
            await drained(run)
    assert closed == [seconds]


async def test_a_supply_that_does_not_obey_is_named() -> None:
    """R2: no task of ours is alive but those named as abandoned, whichever stage it is in."""
    world: World[str] = World()
    going = asyncio.Event()

    async def supply() -> int:
        while not going.is_set():
            try:
                await going.wait()
            except asyncio.CancelledError:
                continue
        return world.make()

    async with world.pipeline(supply=supply).run([1]) as run:
        await quiet()
        run.cancel("enough")
        outcomes = await drained(run)
    assert run.statistics().abandoned == ("S1",)
    going.set()
    await quiet()
    world.check_over(run, outcomes)


async def test_a_box_that_fails_to_leave_after_a_cancelled_entering_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D3: in our log, not as an exception that asyncio calls never retrieved."""
    world: World[str] = World()

    @asynccontextmanager
    async def box() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(10)
            yield 1
        finally:
            msg = "cannot stop the box"
            raise OSError(msg)

    async with world.pipeline(supply=box, discard_t=None).run(range(2)) as run:
        await quiet()
    assert run.statistics().live_t == 0
    assert "cannot stop the box" in caplog.text


# -- wrong ends


async def test_a_source_that_cancels_itself_has_failed() -> None:
    """Its CancelledError is not the end of the input."""
    world: World[str] = World()

    def items() -> Iterator[int]:
        yield 0
        raise asyncio.CancelledError

    async with world.pipeline().run(items()) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, SourceFailed)
    assert statuses(outcomes) == {0: "ok"}
    world.check_over(run, outcomes)


async def test_a_source_that_raises_for_the_whole_process_is_heard() -> None:
    """Also when every item that it gave has ended by then."""
    world: World[str] = World()

    async def items() -> AsyncIterator[int]:
        yield 0
        await asyncio.sleep(10)
        raise Fatal

    async with world.pipeline().run(items()) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, Fatal)
    world.check_over(run, outcomes)


async def test_a_stop_signal_that_returns_too_early_does_not_stop() -> None:
    """`is_stopped` is the authority: look again, without spinning."""

    class Hasty:
        def is_stopped(self) -> bool:
            return False

        async def wait_stopped(self) -> None:
            await asyncio.sleep(0)

    world: World[str] = World()
    async with world.pipeline().run(range(20), stop=Hasty()) as run:
        outcomes = await drained(run)
    assert len(outcomes) == 20
    world.check_over(run, outcomes)


async def test_a_stray_cancel_of_one_item_does_not_end_the_run_with_another() -> None:
    """R36: TaskGroup of 3.11 and 3.12 leaves a request behind, also when the stage succeeds."""
    world: World[str] = World()

    async def bad() -> NoReturn:
        raise OSError

    async def request(item: int) -> str:
        if item:
            raise asyncio.CancelledError
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bad())
        except* OSError:
            pass
        return world.answer(item)

    pipeline = world.pipeline(request=request, capacity=small(q_pending=1))
    async with pipeline.run(range(6)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "cancelled" if n else "ok" for n in range(6)}
    world.check_over(run, outcomes)


@pytest.mark.parametrize("error", [OSError, SystemExit])
async def test_why_a_run_failed_is_not_lost_when_nobody_read_to_the_end(
    error: type[BaseException],
) -> None:
    """It comes out of the block, unless the iteration raised it already."""
    world: World[str] = World()

    async def supply() -> NoReturn:
        raise error

    with pytest.raises(SupplierFailed if error is OSError else error):
        async with world.pipeline(supply=supply).run(range(6)):
            await asyncio.sleep(100)


async def test_a_time_out_after_a_handled_task_group_is_a_time_out() -> None:
    """R36: the request that TaskGroup leaves behind on 3.11 and 3.12 hides no time-out."""
    world: World[str] = World()

    async def fails() -> NoReturn:
        raise LookupError

    async def request(item: int) -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
        except* LookupError:
            if item == 1:
                await asyncio.sleep(3600)
        return world.answer(item)

    pipeline = world.pipeline(request=request, request_timeout=1.0)
    async with pipeline.run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "timed_out", 2: "ok"}
    assert next(o.layer for o in outcomes if o.item == 1) == "request"
    world.check_over(run, outcomes)
