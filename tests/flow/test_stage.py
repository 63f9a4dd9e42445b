"""Stages of an item: their failures are data, and they run in the item's own context."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from millpond.errors import Stopped, UsageError
from millpond.flow import Status
from tests.flow.conftest import World, drained, quiet, read_to_error, small, statuses

pytestmark = pytest.mark.virtual_time

STAGES = ["send", "request", "consume"]


class Troubled(World[str]):
    """One stage does something else for one item."""

    def __init__(self, stage: str, item: int, trouble: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._where = (stage, item)
        self._trouble = trouble

    async def _maybe(self, stage: str, item: int) -> None:
        if (stage, item) == self._where:
            await self._trouble()

    async def send(self, item: int) -> int:
        """Send."""
        await self._maybe("send", item)
        return item

    async def request(self, item: int) -> str:
        """Answer."""
        await self._maybe("request", item)
        return await super().request(item)

    async def consume(self, t: int, q: str, item: int) -> str:
        """Consume."""
        await self._maybe("consume", item)
        return await super().consume(t, q, item)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_failure_is_data(stage: str, late: bool) -> None:
    """W6: one outcome, with the error and its stage; the others are ok."""
    error = OSError("broken")

    async def trouble() -> None:
        if late:
            await asyncio.sleep(1)
        raise error

    world = Troubled(stage, 3, trouble)
    async with world.pipeline(send=world.send).run(range(7)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "failed" if n == 3 else "ok" for n in range(7)}
    failed = next(outcome for outcome in outcomes if outcome.item == 3)
    assert failed.error is error
    assert failed.stage == ("consume" if stage == "consume" else "request")
    assert failed.degraded_reason == "OSError: broken"
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_that_takes_too_long_names_its_layer(stage: str) -> None:
    """The layer's time ends the item, and nothing else."""

    async def trouble() -> None:
        await asyncio.sleep(1e9)

    world = Troubled(stage, 3, trouble)
    pipeline = world.pipeline(
        send=world.send, request_timeout=7, consume_timeout=8, capacity=small(physical=2)
    )
    async with pipeline.run(range(7)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "timed_out" if n == 3 else "ok" for n in range(7)}
    late = next(outcome for outcome in outcomes if outcome.item == 3)
    assert late.layer == late.stage == ("consume" if stage == "consume" else "request")
    assert isinstance(late.error, TimeoutError)
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_timeout_that_the_stage_raised_itself_is_a_failure(stage: str) -> None:
    """The layer is named only when it was the layer's own time that ran out."""

    async def trouble() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(1e9)

    world = Troubled(stage, 3, trouble)
    async with world.pipeline(send=world.send).run(range(7)) as run:
        outcomes = await drained(run)
    failed = next(outcome for outcome in outcomes if outcome.item == 3)
    assert (failed.status, failed.layer) == (Status.FAILED, "")
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_that_cancels_itself_ends_its_item_only(stage: str) -> None:
    """That item is *cancelled*; the worker and the others go on."""

    async def trouble() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    world = Troubled(stage, 3, trouble)
    async with world.pipeline(send=world.send).run(range(7)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "cancelled" if n == 3 else "ok" for n in range(7)}
    world.check_over(run, outcomes)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_that_awaits_a_cancelled_task_ends_its_item_only(stage: str) -> None:
    """R30: the CancelledError of somebody else's task is not a cancel of ours."""

    async def trouble() -> None:
        task = asyncio.create_task(asyncio.sleep(1e9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    world = Troubled(stage, 3, trouble)
    async with world.pipeline(send=world.send).run(range(7)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "cancelled" if n == 3 else "ok" for n in range(7)}
    world.check_over(run, outcomes)


class Fatal(BaseException):
    """Not to be caught by anybody."""


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Fatal()])
async def test_an_error_for_the_whole_process_ends_the_run(
    error: BaseException, stage: str
) -> None:
    """Its item failed with it, every other pulled item has an outcome, and it comes out."""

    async def trouble() -> None:
        await asyncio.sleep(0)
        raise error

    world = Troubled(stage, 3, trouble)
    async with world.pipeline(send=world.send).run(range(99)) as run:
        outcomes, caught = await read_to_error(run)
    assert caught is error
    found = statuses(outcomes)
    assert found[3] == "failed"
    assert set(found.values()) <= {"ok", "failed", "skipped"}
    assert len(found) < 99
    world.check_over(run, outcomes)


async def test_an_error_of_the_library_raised_by_a_stage_is_data_too() -> None:
    """A `Stopped` of the user's own doing does not end the worker in silence."""

    async def trouble() -> None:
        msg = "my own stop"
        raise Stopped(msg)

    for stage in STAGES:
        world = Troubled(stage, 3, trouble)
        async with world.pipeline(send=world.send).run(range(7)) as run:
            outcomes = await drained(run)
        assert statuses(outcomes) == {n: "failed" if n == 3 else "ok" for n in range(7)}
        world.check_over(run, outcomes)


async def test_a_mistake_in_the_code_of_a_stage_ends_the_run() -> None:
    """Every other item would meet it too."""

    async def trouble() -> None:
        msg = "wrong use"
        raise UsageError(msg)

    world = Troubled("request", 3, trouble)
    async with world.pipeline().run(range(99)) as run:
        with pytest.raises(UsageError, match="wrong use"):
            await drained(run)
    assert run.statistics().ended == run.statistics().pulled < 99


@pytest.mark.parametrize("late", ["returns", "raises"])
async def test_a_result_in_spite_of_the_cancel_of_its_timeout_is_kept(late: str) -> None:
    """Nothing that finished is lost: the stage answered in its clean-up."""
    world: World[str] = World()

    async def request(item: int) -> str:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            if late == "raises":
                raise OSError(item) from None
        return world.answer(item)

    async with world.pipeline(request=request, request_timeout=5).run([1]) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "ok" if late == "returns" else "failed"}
    world.check_over(run, outcomes)


# -- context


trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="outside")


async def test_context_of_the_source_rides_with_the_item() -> None:
    """R54: what the source sets for an item is seen by its three stages, across every wait."""
    world: World[str] = World()
    seen: dict[str, list[tuple[int, str]]] = {stage: [] for stage in STAGES}

    async def items() -> AsyncIterator[int]:
        for number in range(9):
            trace.set(f"trace {number}")
            yield number

    async def send(item: int) -> int:
        await asyncio.sleep(0)
        seen["send"].append((item, trace.get()))
        return item

    async def request(item: int) -> str:
        await asyncio.sleep(9 - item)
        seen["request"].append((item, trace.get()))
        return world.answer(item)

    async def consume(t: int, q: str, item: int) -> str:
        before = trace.get()
        await asyncio.sleep(item)
        seen["consume"].append((item, before))
        assert trace.get() == before
        return await world.consume(t, q, item)

    pipeline = world.pipeline(send=send, request=request, consume=consume)
    async with pipeline.run(items()) as run:
        outcomes = await drained(run)
    for stage in STAGES:
        assert sorted(seen[stage]) == [(n, f"trace {n}") for n in range(9)], stage
    world.check_over(run, outcomes)


async def test_what_a_stage_sets_is_seen_by_the_later_stages_of_its_item_alone() -> None:
    """R54: all stages of an item run in one context; supply, disposal and reader see nothing."""
    world: World[str] = World()
    seen: list[str] = []
    outside: set[str] = set()

    async def supply() -> int:
        outside.add(trace.get())
        return world.make()

    def discard_t(t: int) -> None:
        outside.add(trace.get())
        world.discarded_t[t] += 1

    async def discard_q(q: str) -> None:
        outside.add(trace.get())
        world.discarded_q[q] += 1

    async def request(item: int) -> str:
        assert trace.get() == "run"
        trace.set(f"request {item}")
        await asyncio.sleep(0)
        return world.answer(item)

    async def consume(t: int, q: str, item: int) -> str:
        seen.append(trace.get())
        assert trace.get() == f"request {item}"
        return await world.consume(t, q, item)

    token = trace.set("run")
    pipeline = world.pipeline(
        supply=supply, request=request, consume=consume, discard_t=discard_t, discard_q=discard_q
    )
    async with pipeline.run(range(6)) as run:
        outcomes = await drained(run)
        assert trace.get() == "run"
    trace.reset(token)
    assert len(seen) == 6
    assert outside == {"run"}
    world.check_over(run, outcomes)


async def test_retries_and_tasks_of_a_stage_keep_its_context() -> None:
    """R54: also what the stage starts itself."""
    world: World[str] = World()
    seen: list[str] = []

    async def items() -> AsyncIterator[int]:
        for number in range(3):
            trace.set(f"trace {number}")
            yield number

    async def look() -> None:
        seen.append(trace.get())

    async def request(item: int) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(look())
        return world.answer(item)

    async with world.pipeline(request=request).run(items()) as run:
        await drained(run)
    assert seen == ["trace 0", "trace 1", "trace 2"]


async def test_a_stage_that_starts_nothing_leaves_nothing() -> None:
    """The worker's own task runs the stage: no helper task per stage exists."""
    world: World[str] = World()
    names: set[str] = set()

    async def request(item: int) -> str:
        task = asyncio.current_task()
        assert task is not None
        names.add(task.get_name())
        return world.answer(item)

    async with world.pipeline(request=request).run(range(9)) as run:
        await quiet()
        await drained(run)
    assert names <= {f"millpond-P{n}" for n in range(1, 5)}
