"""Outcomes: one per item, read in the order of the ends, lost by nobody (O1-O3)."""

import asyncio

import pytest

from millpond.errors import InputError
from millpond.flow import Status
from tests.flow.conftest import World, drained, quiet, small, statuses

pytestmark = pytest.mark.virtual_time


async def test_outcomes_come_in_the_order_of_the_ends() -> None:
    """Not in the order of the items."""
    world: World[str] = World()

    async def request(item: int) -> str:
        await asyncio.sleep(10 - item)
        return world.answer(item)

    pipeline = world.pipeline(request=request, capacity=small(2, 4, 4, 8))
    async with pipeline.run(range(4)) as run:
        outcomes = await drained(run)
    assert [outcome.item for outcome in outcomes] == [3, 2, 1, 0]
    world.check_over(run, outcomes)


async def test_cancelling_a_reader_loses_no_outcome() -> None:
    """O3 (R22): at whichever turn the reader is cancelled, its outcome goes to the next one."""
    world: World[str] = World()
    items: list[int] = []
    async with world.pipeline().run(range(12)) as run:
        for count in range(40):
            reader = asyncio.create_task(anext(run))
            for _ in range(count % 5):
                await asyncio.sleep(0)
            reader.cancel()
            await asyncio.wait({reader})
            if not reader.cancelled() and reader.exception() is None:
                items.append(reader.result().item)
        items += [outcome.item for outcome in await drained(run)]
    assert sorted(items) == list(range(12))


async def test_several_readers_share_the_outcomes() -> None:
    """Each outcome is read once, and every reader is told of the end."""
    world: World[str] = World()
    async with world.pipeline().run(range(20)) as run:
        parts = await asyncio.gather(*(drained(run) for _ in range(3)))
    assert sorted(outcome.item for part in parts for outcome in part) == list(range(20))
    assert all(parts)


async def test_what_was_not_read_can_still_be_read_after_the_block() -> None:
    """Nothing that finished is lost."""
    world: World[str] = World()
    async with world.pipeline().run(range(5)) as run:
        await asyncio.sleep(1)
        assert run.statistics().unread == 5
    outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(5), "ok")
    world.check_over(run, outcomes)
    with pytest.raises(StopAsyncIteration):
        await anext(run)


async def test_duplicate_keys_are_failures_of_the_later_item() -> None:
    """The first one goes on; the message says which key."""
    world: World[str] = World()
    async with world.pipeline(key=lambda item: str(item % 3)).run(range(5)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "ok", 2: "ok", 3: "failed", 4: "failed"}
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAILED]
    assert all(isinstance(outcome.error, InputError) for outcome in failed)
    assert all(outcome.stage == "key" for outcome in failed)
    assert "the key '0' was used by an earlier item" in failed[0].degraded_reason
    world.check_over(run, outcomes)


@pytest.mark.parametrize("bad", [None, 7, ["x"]])
async def test_a_key_that_is_no_string_is_a_failure_of_its_item(bad: object) -> None:
    """Unhashable ones too."""
    world: World[str] = World()
    async with world.pipeline(key=lambda item: bad if item == 1 else str(item)).run(
        range(3)
    ) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "failed", 2: "ok"}
    world.check_over(run, outcomes)


@pytest.mark.parametrize("broken", [{0}, {4}, {0, 1, 2, 3, 4}])
async def test_a_key_that_raises_is_a_failure_of_its_item(broken: set[int]) -> None:
    """At the first, at the last, and at every item: the run ends."""
    world: World[str] = World()

    def key(item: int) -> str:
        if item in broken:
            raise OSError(item)
        return str(item)

    async with world.pipeline(key=key).run(range(5)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {n: "failed" if n in broken else "ok" for n in range(5)}
    world.check_over(run, outcomes)


async def test_failures_of_keys_are_part_of_the_back_pressure() -> None:
    """An endless source of items without a usable key does not fill the memory."""
    world: World[str] = World()

    def key(item: int) -> str:
        raise OSError(item)

    async with world.pipeline(key=key, max_unread=4).run(range(10**9)) as run:
        await quiet()
        assert run.statistics().pulled == 4
        await anext(run)
        await quiet()
        assert run.statistics().pulled == 5
        run.stop()
        assert len(await drained(run)) == 4


async def test_the_books_are_kept_by_status() -> None:
    """Each end is counted under its status, once."""
    world: World[str] = World()

    async def request(item: int) -> str:
        if item % 3 == 1:
            raise OSError(item)
        await asyncio.sleep(1e9 if item % 3 == 2 else 0)
        return world.answer(item)

    pipeline = world.pipeline(request=request, request_timeout=5)
    async with pipeline.run(range(9)) as run:
        outcomes = await drained(run)
    by_status = run.statistics().by_status
    assert by_status == {Status.OK: 3, Status.FAILED: 3, Status.TIMED_OUT: 3}
    world.check_over(run, outcomes)
