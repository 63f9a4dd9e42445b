"""The supply of T: its failures, and supplies that are context managers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millpond.errors import SupplierFailed, UsageError
from millpond.flow import Pipeline
from tests.flow.conftest import (
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


@pytest.mark.parametrize("fails", [1, 4])
async def test_a_supplier_may_fail_a_few_times(fails: int) -> None:
    """It is asked again after a pause, one worker at a time; no item notices."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()
    calls: list[float] = []

    async def supply() -> int:
        calls.append(loop.time())
        await asyncio.sleep(0)
        if len(calls) <= fails:
            raise OSError(fails)
        return world.make()

    pipeline = world.pipeline(supply=supply, capacity=small(t_slots=1))
    async with pipeline.run(range(6)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(6), "ok")
    assert calls[: fails + 1] == [0.5 * n for n in range(fails + 1)]
    world.check_over(run, outcomes)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_supplier_that_always_fails_ends_the_run(plain: bool) -> None:
    """Every open item is skipped with the root cause; then the iteration raises it."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()

    async def supply() -> int:
        await asyncio.sleep(0)
        msg = "no docker"
        raise OSError(msg)

    def supply_at_once() -> object:
        msg = "no docker"
        raise OSError(msg)

    pipeline = world.pipeline(supply=supply_at_once if plain else supply)
    async with pipeline.run(range(100)) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, SupplierFailed)
    assert error.failures == 5
    assert "failed 5 times in a row, last with OSError('no docker')" in str(error)
    assert loop.time() == 2.0
    assert set(statuses(outcomes).values()) == {"skipped"}
    assert all(outcome.error is error for outcome in outcomes)
    with pytest.raises(SupplierFailed):
        outcomes[0].unwrap()
    world.check_over(run, outcomes)


async def test_workers_that_fail_together_count_as_one_failure() -> None:
    """A volley is one failure, not as many as there are workers."""
    world: World[str] = World()
    calls = 0

    async def supply() -> int:
        nonlocal calls
        calls += 1
        first_volley = calls <= 4
        await asyncio.sleep(1)
        if first_volley:
            raise OSError(calls)
        return world.make()

    pipeline = world.pipeline(supply=supply, supply_failures=2, capacity=small(4, 4, 4, 8))
    async with pipeline.run(range(8)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(8), "ok")
    world.check_over(run, outcomes)


async def test_failures_between_successes_do_not_add_up() -> None:
    """In a row means in a row."""
    world: World[str] = World()
    calls = 0

    async def supply() -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if calls % 2:
            raise OSError(calls)
        return world.make()

    async with world.pipeline(supply=supply, supply_failures=2).run(range(8)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(8), "ok")
    world.check_over(run, outcomes)


async def test_a_supplier_that_cancels_itself_has_failed() -> None:
    """A CancelledError of its own is a failure, not the worker's end."""
    world: World[str] = World()
    calls = 0

    async def supply() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncio.CancelledError
        return world.make()

    async with world.pipeline(supply=supply).run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(3), "ok")
    world.check_over(run, outcomes)


async def test_a_supplier_that_hangs_can_be_cancelled() -> None:
    """The run is cancellable; Physical and everything else is back."""
    world: World[str] = World()

    async def supply() -> int:
        await asyncio.sleep(1e9)
        return world.make()

    async with world.pipeline(supply=supply).run(range(6)) as run:
        await asyncio.sleep(100)
        assert (run.statistics().q_stock, run.statistics().producing) == (2, 2)
        run.cancel("too long")
        outcomes = await drained(run)
    # Two in stock, two queueing for a slot: all had begun.
    assert set(statuses(outcomes).values()) == {"cancelled"}
    world.check_over(run, outcomes)


class Fatal(BaseException):
    """Not to be caught by anybody."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Fatal()])
async def test_a_supplier_that_raises_for_the_whole_process_ends_the_run(
    error: BaseException,
) -> None:
    """Items are skipped, and the very same error comes out of the iteration."""
    world: World[str] = World()

    async def supply() -> int:
        await asyncio.sleep(0)
        raise error

    async with world.pipeline(supply=supply).run(range(6)) as run:
        outcomes, caught = await read_to_error(run)
    assert caught is error
    assert set(statuses(outcomes).values()) == {"skipped"}
    world.check_over(run, outcomes)


async def test_a_t_made_while_the_run_ends_is_disposed_of() -> None:
    """A supplier that finishes in spite of its cancel has made a T that is nobody's otherwise."""
    world: World[str] = World()

    async def supply() -> int:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return world.make()

    async with world.pipeline(supply=supply).run(range(6)) as run:
        await quiet()
        run.cancel()
        outcomes = await drained(run)
    assert len(world.made) == 1
    world.check_over(run, outcomes)


# -- supplies that are context managers


class Boxes:
    """A supply whose T is entered and left; keeps the tasks that did it."""

    def __init__(self) -> None:
        self.entered: dict[int, Any] = {}
        self.left: dict[int, Any] = {}
        self.enter_seconds = 0.0
        self.leave_seconds: float | None = None
        self.number = 0

    @asynccontextmanager
    async def box(self) -> AsyncIterator[int]:
        """Make T; leaving disposes of it."""
        self.number += 1
        number = self.number
        await asyncio.sleep(self.enter_seconds)
        # A scope inside, which must be left by the task that entered it.
        async with asyncio.timeout(None):
            self.entered[number] = asyncio.current_task()
            try:
                yield number
            finally:
                if self.leave_seconds is not None:
                    await asyncio.sleep(self.leave_seconds)
                assert number not in self.left
                self.left[number] = asyncio.current_task()

    def pipeline(self, world: World[str], **settings: object) -> Pipeline[Any, Any, Any, Any]:
        """Return a pipeline that gets its T from here."""
        return world.pipeline(supply=self.box, discard_t=None, **settings)

    def check_over(self) -> None:
        """Each was left exactly once, by the task that entered it."""
        assert self.left == self.entered


async def test_a_context_manager_is_entered_and_left_once_by_one_task() -> None:
    """Entering makes the T, leaving disposes of it."""
    world: World[str] = World()
    boxes = Boxes()

    async def consume(t: int, q: str, item: int) -> str:
        value = await world.consume(t, q, item)
        assert t in boxes.entered
        assert t not in boxes.left, "it is left only after its use"
        return value

    async with boxes.pipeline(world, consume=consume).run(range(6)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(6), "ok")
    assert len(boxes.entered) == 6
    boxes.check_over()
    check_over(run, outcomes)


async def test_a_slow_exit_keeps_the_slot() -> None:
    """The T lives until its manager is left, and its slot is out as long."""
    world: World[str] = World()
    boxes = Boxes()
    boxes.leave_seconds = 3
    async with boxes.pipeline(world, capacity=small(1, 1, 2, 2)).run(range(3)) as run:
        outcomes = [await anext(run)]
        assert limiters(run)["t_slot"].held == 1
        outcomes += await drained(run)
    boxes.check_over()
    check_over(run, outcomes)


async def test_a_manager_that_fails_to_enter_is_a_failed_supply() -> None:
    """It is asked again, and then the run ends with the cause."""
    world: World[str] = World()

    @asynccontextmanager
    async def box() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        msg = "no image"
        raise OSError(msg)
        yield 1  # makes it a generator

    async with world.pipeline(supply=box, discard_t=None).run(range(3)) as run:
        outcomes, error = await read_to_error(run)
    assert isinstance(error, SupplierFailed)
    assert "no image" in str(error)
    assert set(statuses(outcomes).values()) == {"skipped"}
    check_over(run, outcomes)


async def test_a_manager_that_fails_to_leave_is_counted_and_loses_no_slot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is loud, and the outcomes stand."""
    world: World[str] = World()

    @asynccontextmanager
    async def box() -> AsyncIterator[int]:
        yield 1
        msg = "cannot stop the box"
        raise OSError(msg)

    async with world.pipeline(supply=box, discard_t=None).run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(3), "ok")
    assert caplog.text.count("disposing of a T failed: OSError('cannot stop the box')") == 3
    check_over(run, outcomes)


@pytest.mark.parametrize("turns_before", range(12))
async def test_cancelled_while_entering_leaves_what_was_entered(turns_before: int) -> None:
    """At whichever turn the cancel falls, also in the very tick in which it was entered."""
    world: World[str] = World()
    boxes = Boxes()
    async with boxes.pipeline(world).run(range(6)) as run:
        for _ in range(turns_before):
            await asyncio.sleep(0)
        run.cancel()
        outcomes = await drained(run)
    boxes.check_over()
    check_over(run, outcomes)


async def test_cancelled_while_entering_takes_long() -> None:
    """The cancel reaches the entering itself."""
    world: World[str] = World()
    boxes = Boxes()
    boxes.enter_seconds = 100
    async with boxes.pipeline(world).run(range(6)) as run:
        await quiet()
        run.cancel()
        outcomes = await drained(run)
    assert boxes.entered == {}
    check_over(run, outcomes)


async def test_a_hanging_exit_is_cut_off() -> None:
    """R51: bounded by the time of a disposal; the slot is free again, the failure counted."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()
    boxes = Boxes()
    boxes.leave_seconds = 1e6
    async with boxes.pipeline(world, discard_timeout=2).run([1]) as run:
        outcomes = await drained(run)
    assert loop.time() == 2
    assert statuses(outcomes) == {1: "ok"}
    check_over(run, outcomes)


async def test_a_context_manager_and_discard_t_contradict_each_other() -> None:
    """The run ends and says what to leave out."""
    world: World[str] = World()
    boxes = Boxes()
    async with world.pipeline(supply=boxes.box).run([1]) as run:
        with pytest.raises((UsageError, SupplierFailed), match="leave out `discard_t`"):
            await drained(run)
    run.check_invariants()


async def test_a_supply_that_is_neither_is_refused() -> None:
    """And the message says what it may be."""
    world: World[str] = World()
    async with world.pipeline(supply=lambda: "T").run([1]) as run:
        with pytest.raises((UsageError, SupplierFailed), match="async context manager"):
            await drained(run)
    run.check_invariants()
