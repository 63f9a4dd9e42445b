"""The ends of a run: target, stop, cancel, leaving, and whoever does not obey (R1, R2)."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from millpond.errors import Stalled
from millpond.flow import Outcome, Run
from millpond.sync import Stop
from tests.flow.conftest import (
    VirtualLoop,
    World,
    check_over,
    drained,
    limiters,
    quiet,
    read_to_error,
    small,
    statuses,
)

pytestmark = pytest.mark.virtual_time

AnyRun = Run[Any, Any]


class Slow(World[str]):
    """Every stage takes its time, so that each phase can be met."""

    supply_seconds = 1.0
    request_seconds = 1.0
    consume_seconds = 1.0

    async def supply(self) -> int:
        """Make a T, slowly."""
        await asyncio.sleep(self.supply_seconds)
        return self.make()

    async def request(self, item: int) -> str:
        """Answer, slowly."""
        await asyncio.sleep(self.request_seconds)
        return self.answer(item)

    async def consume(self, t: int, q: str, item: int) -> str:
        """Consume, slowly."""
        await asyncio.sleep(self.consume_seconds)
        return await super().consume(t, q, item)


def in_supply(world: Slow) -> None:
    """S works; P and C wait."""
    world.supply_seconds = 100


def in_request(world: Slow) -> None:
    """P awaits answers; T are in stock, S waits at the gate, C for a pair."""
    world.request_seconds = 50


def in_consume(world: Slow) -> None:
    """C works, others of C wait for Physical; S and P wait for slots or at the gate."""
    world.consume_seconds = 3


PHASES = [in_supply, in_request, in_consume]
Phase = Callable[[Slow], None]


# -- target and stop


@pytest.mark.parametrize("target", [1, 3, 10])
async def test_a_target_stops_the_run(target: int) -> None:
    """After that many successes nothing new is pulled; what is in flight comes home."""
    world: World[str] = World()
    async with world.pipeline().run(range(10**9), target=target) as run:
        outcomes = await drained(run)
    # in flight, at the most: asked, in hand or in stock, in use
    assert target <= len(outcomes) <= target + 2 + 2 + 2
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_failures_do_not_count_for_the_target() -> None:
    """Only items that ended ok do."""
    world: World[str] = World()

    async def request(item: int) -> str:
        if item % 2:
            raise OSError(item)
        return world.answer(item)

    async with world.pipeline(request=request).run(range(10**9), target=4) as run:
        outcomes = await drained(run)
    assert Counter(statuses(outcomes).values())["ok"] >= 4
    assert len(outcomes) < 20
    world.check_over(run, outcomes)


@pytest.mark.parametrize("target", [5, 6])
async def test_a_target_that_is_not_reached_is_no_failure(target: int) -> None:
    """The input ends first, or in the same moment."""
    world: World[str] = World()
    async with world.pipeline().run(range(5), target=target) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(5), "ok")
    world.check_over(run, outcomes)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 2.0, 7.0, 60.0])
@pytest.mark.parametrize("phase", PHASES)
async def test_stop_blind_waits(phase: Phase, seconds: float) -> None:
    """Defect row 5: stopped in any phase, every worker leaves its wait and the run ends.

    What was pulled is paid for and comes home.
    """
    world = Slow()
    phase(world)
    pipeline = world.pipeline(request_timeout=None, consume_timeout=None)
    async with pipeline.run(range(10**9)) as run:
        await asyncio.sleep(seconds)
        run.stop("enough")
        pulled = run.statistics().pulled
        outcomes = await drained(run)
    assert len(outcomes) == pulled
    assert set(statuses(outcomes).values()) <= {"ok"}
    world.check_over(run, outcomes)


@pytest.mark.parametrize("foreign", [True, False])
async def test_a_stop_signal_stops_the_run(foreign: bool) -> None:
    """Any object with the two methods; the items in flight come home."""

    class Foreign:
        def __init__(self) -> None:
            self._asked = asyncio.Event()

        def is_stopped(self) -> bool:
            return self._asked.is_set()

        async def wait_stopped(self) -> None:
            await self._asked.wait()

        def stop(self) -> None:
            self._asked.set()

    world = Slow()
    signal = Foreign() if foreign else Stop()
    async with world.pipeline().run(range(10**9), stop=signal) as run:
        outcomes = [await anext(run)]
        signal.stop()
        outcomes += await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_a_stop_may_be_asked_for_twice_and_after_the_end() -> None:
    """Idempotent."""
    world: World[str] = World()
    async with world.pipeline().run(range(10**9)) as run:
        await anext(run)
        run.stop("first")
        run.stop("second")
        await drained(run)
    run.stop("late")
    run.cancel("late")
    run.check_invariants()


async def test_cancel_after_stop() -> None:
    """Ctrl+C twice: first what is paid for comes home, then now."""
    world = Slow()
    world.request_seconds = 90
    async with world.pipeline().run(range(9)) as run:
        await asyncio.sleep(5)
        run.stop("first")
        await asyncio.sleep(5)
        run.cancel("second")
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "cancelled", 1: "cancelled"}
    assert all(outcome.degraded_reason == "second" for outcome in outcomes)
    world.check_over(run, outcomes)


# -- cancel


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 2.0, 3.5, 7.0, 60.0])
@pytest.mark.parametrize("phase", PHASES)
async def test_cancelled_in_any_phase_every_item_has_its_outcome(
    phase: Phase, seconds: float
) -> None:
    """Requests end at once, consumers get the grace; nothing is left over."""
    loop = asyncio.get_running_loop()
    world = Slow()
    phase(world)
    pipeline = world.pipeline(request_timeout=None, consume_timeout=None)
    async with pipeline.run(range(10**9)) as run:
        reader = asyncio.create_task(drained(run))
        await asyncio.sleep(seconds)
        run.cancel("enough")
        begun = loop.time()
        outcomes = await reader
    assert loop.time() - begun <= 5
    assert set(statuses(outcomes).values()) <= {"ok", "cancelled", "skipped"}
    assert all(
        outcome.degraded_reason == "enough" for outcome in outcomes if outcome.status.value != "ok"
    )
    world.check_over(run, outcomes)


async def test_consumers_get_the_grace() -> None:
    """Who finishes within it is ok; who does not is cancelled when it is over."""
    loop = asyncio.get_running_loop()
    world = Slow()

    async def consume(t: int, q: str, item: int) -> str:
        await asyncio.sleep(4 if item == 0 else 40)
        return await World.consume(world, t, q, item)

    pipeline = world.pipeline(consume=consume, grace=6, capacity=small(physical=2))
    async with pipeline.run(range(2)) as run:
        await asyncio.sleep(3)
        assert run.statistics().consuming == 2
        run.cancel("enough")
        outcomes = await drained(run)
    assert loop.time() == 9
    assert statuses(outcomes) == {0: "ok", 1: "cancelled"}
    assert outcomes[1].stage == "consume"
    world.check_over(run, outcomes)


async def test_a_consumer_waiting_for_physical_gets_no_grace() -> None:
    """It has not begun to consume, and will not any more."""
    world = Slow()
    world.consume_seconds = 3
    async with world.pipeline().run(range(2)) as run:
        await asyncio.sleep(2.5)
        assert run.statistics().consuming == 2
        run.cancel("enough")
        outcomes = await drained(run)
    assert Counter(statuses(outcomes).values()) == {"ok": 1, "cancelled": 1}
    world.check_over(run, outcomes)


async def test_a_second_cancel_forces() -> None:
    """The grace is over at once."""
    loop = asyncio.get_running_loop()
    world = Slow()
    world.consume_seconds = 40
    async with world.pipeline(grace=30).run([1]) as run:
        await asyncio.sleep(5)
        run.cancel("please")
        await asyncio.sleep(1)
        run.cancel("now")
        outcomes = await drained(run)
    assert loop.time() == 6
    assert statuses(outcomes) == {1: "cancelled"}
    world.check_over(run, outcomes)


async def test_no_grace_means_at_once() -> None:
    """grace=0."""
    loop = asyncio.get_running_loop()
    world = Slow()
    world.consume_seconds = 40
    async with world.pipeline(grace=0).run([1]) as run:
        await asyncio.sleep(5)
        run.cancel()
        outcomes = await drained(run)
    assert loop.time() == 5
    assert statuses(outcomes) == {1: "cancelled"}
    world.check_over(run, outcomes)


async def test_what_never_began_is_skipped_not_cancelled() -> None:
    """An item that was pulled, and whose worker has not run yet, was only queued."""
    world: World[str] = World()

    def key(item: int) -> str:
        run.cancel("enough")
        return str(item)

    async with world.pipeline(key=key).run(range(9)) as run:
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"skipped"}
    assert (outcomes[0].degraded_reason, outcomes[0].stage) == ("enough", "queued")
    world.check_over(run, outcomes)


@pytest.mark.parametrize("inside", ["supply", "request", "consume", "discard", "key", "source"])
@pytest.mark.parametrize("how", ["cancel", "cancel twice"])
async def test_a_run_may_be_cancelled_from_within_its_own_callbacks(  # noqa: C901 - six callbacks
    inside: str, how: str
) -> None:
    """Nothing is re-entered in a half-done state."""
    world: World[str] = World()

    def act(where: str, item: int) -> None:
        if where == inside and item == 3:
            run.cancel("from within")
            if how == "cancel twice":
                run.cancel("from within")

    async def supply() -> int:
        t = world.make()
        act("supply", t)
        return t

    async def request(item: int) -> str:
        act("request", item)
        return await world.request(item)

    async def consume(t: int, q: str, item: int) -> str:
        act("consume", item)
        return await world.consume(t, q, item)

    def discard(t: int) -> None:
        act("discard", t)
        world.discarded_t[t] += 1

    def key(item: int) -> str:
        act("key", item)
        return str(item)

    async def items() -> AsyncIterator[int]:
        for number in range(10**9):
            act("source", number)
            yield number

    pipeline = world.pipeline(
        supply=supply, request=request, consume=consume, discard_t=discard, key=key
    )
    async with pipeline.run(items()) as run:
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) <= {"ok", "cancelled", "skipped"}
    world.check_over(run, outcomes)


@pytest.mark.parametrize("inside", ["supply", "request", "consume", "discard"])
async def test_a_run_may_be_stopped_from_within_its_stages(inside: str) -> None:
    """And what was pulled comes home."""
    world: World[str] = World()

    def act(where: str, item: int) -> None:
        if where == inside and item == 3:
            run.stop("from within")

    async def supply() -> int:
        t = world.make()
        act("supply", t)
        return t

    async def request(item: int) -> str:
        act("request", item)
        return await world.request(item)

    async def consume(t: int, q: str, item: int) -> str:
        act("consume", item)
        return await world.consume(t, q, item)

    def discard(t: int) -> None:
        act("discard", t)
        world.discarded_t[t] += 1

    pipeline = world.pipeline(supply=supply, request=request, consume=consume, discard_t=discard)
    async with pipeline.run(range(10**9)) as run:
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


# -- leaving the block


class Left(Exception):
    """The block is left by this."""


@pytest.mark.parametrize("how", ["early", "by an exception", "by a cancel", "by two cancels"])
@pytest.mark.parametrize("phase", PHASES)
async def test_leaving_the_block_ends_the_run(phase: Phase, how: str) -> None:
    """R1, R2: unread outcomes are still there to be read, and the reason comes out."""
    world = Slow()
    phase(world)
    begun: list[AnyRun] = []

    async def body() -> None:
        async with world.pipeline().run(range(99)) as run:
            begun.append(run)
            if how != "early":
                await asyncio.sleep(2 if how == "by an exception" else 1e6)
                raise Left

    task = asyncio.create_task(body())
    await asyncio.sleep(4.5)
    task.cancel() if "cancel" in how else None
    await asyncio.sleep(0)
    task.cancel() if "two" in how else None
    await asyncio.wait({task})
    assert task.cancelled() == ("cancel" in how)
    if how == "by an exception":
        assert isinstance(task.exception(), Left)
    (run,) = begun
    outcomes = await drained(run)
    world.check_over(run, outcomes)


async def test_a_cancel_while_the_block_is_left_forces() -> None:
    """The first cancel gives consumers their grace, the second takes it; both come out as one."""
    loop = asyncio.get_running_loop()
    world = Slow()
    world.consume_seconds = 40
    begun: list[AnyRun] = []

    async def body() -> None:
        async with world.pipeline(grace=30).run([1]) as run:
            begun.append(run)
            await asyncio.sleep(1e6)

    task = asyncio.create_task(body())
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
    assert (loop.time(), task.cancelled()) == (6, True)
    outcomes = await drained(begun[0])
    assert statuses(outcomes) == {1: "cancelled"}
    world.check_over(begun[0], outcomes)


async def test_a_cancel_while_a_block_is_left_early_comes_out() -> None:
    """The block was not left by a cancel, and yet its caller learns of the one that came then."""
    world = Slow()
    world.consume_seconds = 40

    async def body() -> None:
        async with world.pipeline(grace=30).run([1]):
            await asyncio.sleep(5)

    task = asyncio.create_task(body())
    await asyncio.sleep(6)
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert asyncio.get_running_loop().time() == 6


async def test_a_block_left_after_the_last_outcome_waits_for_nothing() -> None:
    """Everything has ended by then."""
    world: World[str] = World()
    run = world.pipeline().run(range(3))
    await run.__aenter__()
    outcomes = await drained(run)
    world.check_over(run, outcomes)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert tasks == set()
    await run.__aexit__(None, None, None)


async def test_a_timeout_around_the_block_is_still_a_timeout() -> None:
    """R29, R36: the count of cancels of the caller's task is as it was."""
    world = Slow()
    world.request_seconds = 1e6
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), world.pipeline(request_timeout=None).run([1]) as run:
            await drained(run)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    outcomes = await drained(run)
    assert statuses(outcomes) == {1: "cancelled"}
    world.check_over(run, outcomes)


# -- who does not obey


def deaf(until: asyncio.Event, ignored: list[str]) -> Callable[..., Awaitable[None]]:
    """Return a wait that swallows every cancel until the event is set."""

    async def wait(*_: object) -> None:
        while not until.is_set():
            try:
                await until.wait()
            except asyncio.CancelledError:
                ignored.append("cancel")

    return wait


@pytest.mark.parametrize("stage", ["request", "consume"])
async def test_a_stage_that_swallows_its_cancel_is_abandoned(
    stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R40: the item says so, the log names it, and the run ends; what it held comes back later."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()
    going, ignored = asyncio.Event(), list[str]()
    wait = deaf(going, ignored)

    async def request(item: int) -> str:
        if (stage, item) == ("request", 1):
            await wait()
        return await world.request(item)

    async def consume(t: int, q: str, item: int) -> str:
        if (stage, item) == ("consume", 1):
            await wait()
        return await world.consume(t, q, item)

    with caplog.at_level(logging.ERROR, "millpond.flow"):
        async with world.pipeline(request=request, consume=consume, grace=3).run([1, 2]) as run:
            await asyncio.sleep(10)
            run.cancel("enough")
            outcomes = await drained(run)
    assert ignored
    assert loop.time() <= 10 + 3 + 1
    assert statuses(outcomes)[1] == "abandoned"
    assert f"abandoned, still running: {stage} of 1" in caplog.text
    run.check_invariants()
    going.set()
    await quiet()
    assert run.statistics().live_t == 0
    assert {state.free == state.capacity for state in limiters(run).values()} == {True}
    assert world.discarded_t == Counter(world.made)
    assert world.discarded_q == Counter(world.answered)


async def test_a_disposal_that_hangs_does_not_hold_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R51: bounded, counted, loud; slots are free, outcomes stand."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()

    async def discard(t: int) -> None:
        world.discarded_t[t] += 1
        if t == 1:
            await asyncio.sleep(1e6)

    async with world.pipeline(discard_t=discard, discard_timeout=4).run(range(4)) as run:
        outcomes = await drained(run)
    assert loop.time() <= 4
    assert statuses(outcomes) == dict.fromkeys(range(4), "ok")
    assert "disposing of a T failed" in caplog.text
    world.check_over(run, outcomes)


async def test_a_disposal_that_ignores_its_cancel_does_not_hold_the_run() -> None:
    """R51: given up, and its slot is free again."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()
    going = asyncio.Event()
    wait = deaf(going, [])

    async def discard(t: int) -> None:
        world.discarded_t[t] += 1
        await wait()

    pipeline = world.pipeline(discard_t=discard, discard_timeout=2, capacity=small(t_slots=1))
    async with pipeline.run(range(3)) as run:
        outcomes = await drained(run)
    assert loop.time() <= 3 * 3
    assert statuses(outcomes) == dict.fromkeys(range(3), "ok")
    world.check_over(run, outcomes)
    going.set()
    await quiet()


@pytest.mark.parametrize("late", [True, False])
async def test_disposals_that_raise_lose_no_slot(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """D3, of T and of Q: counted and loud, and the run goes on."""
    world: World[str] = World()

    async def discard_t(t: int) -> None:
        world.discarded_t[t] += 1
        if late:
            await asyncio.sleep(0)
        raise OSError(t)

    def discard_q(q: str) -> None:
        world.discarded_q[q] += 1
        raise OSError(q)

    pipeline = world.pipeline(discard_t=discard_t, discard_q=discard_q)
    async with pipeline.run(range(5)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(5), "ok")
    assert caplog.text.count("disposing of a T failed") == 5
    assert caplog.text.count("disposing of a Q failed") == 5
    world.check_over(run, outcomes)


async def test_a_worker_cancelled_from_outside_ends_the_run() -> None:
    """As if the run had been cancelled, and it says which worker it was."""
    world = Slow()
    async with world.pipeline().run(range(99)) as run:
        await asyncio.sleep(3)
        next(task for task in asyncio.all_tasks() if task.get_name() == "millpond-P1").cancel()
        outcomes = await drained(run)
    reasons = {outcome.degraded_reason for outcome in outcomes} - {""}
    assert reasons == {"worker P1 was cancelled from outside"}
    world.check_over(run, outcomes)


# -- the loop is closed under the run


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 9.0])
@pytest.mark.parametrize("phase", PHASES)
def test_a_closing_loop_cancels_everything_and_nothing_warns(phase: Phase, seconds: float) -> None:
    """asyncio.run ends while a run is under way in some task: no lost task, no lost error."""
    world = Slow()
    phase(world)
    begun: list[AnyRun] = []

    async def body() -> None:
        async with world.pipeline().run(range(99)) as run:
            begun.append(run)
            await drained(run)

    async def main() -> "asyncio.Task[None]":
        task = asyncio.create_task(body())
        await asyncio.sleep(seconds)
        return task

    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        task = runner.run(main())
    assert task.cancelled()
    gc.collect()
    assert not loop.complaints, loop.complaints
    for limiter in (limiters(run) for run in begun):
        assert all(state.free == state.capacity for state in limiter.values()), limiter


def test_the_check_of_these_tests_is_awake() -> None:
    """A run that was left in the middle is not over, and the checks say so."""

    async def main() -> None:
        world = Slow()
        run = world.pipeline().run(range(9))
        await run.__aenter__()
        await asyncio.sleep(1.5)
        none: list[Outcome[Any, Any]] = []
        with pytest.raises(AssertionError):
            check_over(run, none)
        await run.__aexit__(None, None, None)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


class Deaf:
    """A consumer that ignores every cancel for the items it was told of."""

    def __init__(self, *items: int, until: float) -> None:
        self._items = items
        self._until = until

    async def consume(self, _t: int, _q: str, item: int) -> str:
        """Return at its time, whatever is asked of it meanwhile."""
        loop = asyncio.get_running_loop()
        while item in self._items and loop.time() < self._until:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(self._until - loop.time())
        return f"value {item}"


async def test_a_consumer_that_ignores_its_timeout_is_abandoned_and_the_run_goes_on() -> None:
    """R34, R40: the item has its outcome, the others theirs, and the run ends."""
    world: World[str] = World()
    until = asyncio.get_running_loop().time() + 100
    pipeline = world.pipeline(
        consume=Deaf(0, until=until).consume, consume_timeout=1.0, capacity=small(physical=2)
    )
    async with pipeline.run(range(6)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "abandoned"} | dict.fromkeys(range(1, 6), "ok")
    assert next(o.layer for o in outcomes if o.item == 0) == "consume"
    assert run.statistics().abandoned == ("consume of 1",)
    run.check_invariants()
    await asyncio.sleep(200)
    assert run.statistics().abandoned == ()
    assert run.statistics().live_t == 0
    run.check_invariants()


async def test_a_stage_that_ends_after_all_gives_back_what_it_held_and_changes_nothing() -> None:
    """Its late value is dropped, its worker leaves, its permit and slots come home."""
    world: World[str] = World()
    until = asyncio.get_running_loop().time() + 10
    deaf = Deaf(0, until=until)

    async def slow_items() -> AsyncIterator[int]:
        for item in range(6):
            yield item
            await asyncio.sleep(5)

    pipeline = world.pipeline(consume=deaf.consume, consume_timeout=1.0, capacity=small(physical=2))
    async with pipeline.run(slow_items()) as run:
        outcomes = await drained(run)
        assert run.statistics().abandoned == ()
    assert statuses(outcomes) == {0: "abandoned"} | dict.fromkeys(range(1, 6), "ok")
    world.check_over(run, outcomes)


async def test_a_capacity_held_by_deaf_stages_ends_the_run() -> None:
    """Nothing could go on: the rest is skipped, and the error names who holds it."""
    world: World[str] = World()
    until = asyncio.get_running_loop().time() + 100
    pipeline = world.pipeline(
        consume=Deaf(0, until=until).consume, consume_timeout=1.0, capacity=small(physical=1)
    )
    async with pipeline.run(range(3)) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, Stalled)
    assert (error.capacity, error.stages) == ("physical", ("consume of 1",))
    assert statuses(outcomes) == {0: "abandoned", 1: "skipped", 2: "skipped"}
    await asyncio.sleep(200)
    run.check_invariants()
