"""The source of items: pulled with back-pressure, in one task, and closed by it (K1-K3)."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from millpond.errors import SourceFailed
from millpond.sync import Stop
from tests.flow.conftest import World, drained, quiet, read_to_error, small, statuses

pytestmark = pytest.mark.virtual_time


async def test_items_are_pulled_only_as_fast_as_they_are_taken() -> None:
    """K1: with nobody answering, as many are pulled as may be in flight, and no more."""
    world: World[str] = World()
    pulled: list[int] = []

    def endless() -> Iterator[int]:
        for number in range(10**9):
            pulled.append(number)
            yield number

    async def request(_: int) -> str:
        await asyncio.sleep(1e6)
        return "never"

    async with world.pipeline(request=request, request_timeout=None).run(endless()) as run:
        await quiet()
        assert pulled == [0, 1]
        run.cancel()
        outcomes = await drained(run)
    world.check_over(run, outcomes)


@pytest.mark.parametrize("max_unread", [1, 3, 10])
async def test_outcomes_nobody_reads_hold_back_the_source(max_unread: int) -> None:
    """K1: unread outcomes are part of the back-pressure; each one that is read lets one more in."""
    world: World[str] = World()
    pulled: list[int] = []

    async def endless() -> AsyncIterator[int]:
        for number in range(10**9):
            pulled.append(number)
            yield number

    async with world.pipeline(max_unread=max_unread).run(endless()) as run:
        await asyncio.sleep(1)
        at_first = len(pulled)
        assert run.statistics().unread == at_first
        # the room is looked at before each pull; what is under way by then still ends
        assert max_unread <= at_first <= max_unread + 2
        for _ in range(20):
            await anext(run)
            await asyncio.sleep(1)
            assert run.statistics().unread <= max_unread + 2
        assert at_first < len(pulled) <= at_first + 20
        run.stop()
        outcomes = await drained(run)
    assert len(outcomes) + 20 == len(pulled)
    run.check_invariants()


async def test_an_endless_input_ends_by_stop() -> None:
    """Sync generator without an end: stop, and what was pulled comes home."""
    world: World[str] = World()

    def endless() -> Iterator[int]:
        yield from range(10**9)

    async with world.pipeline().run(endless()) as run:
        outcomes = [await anext(run) for _ in range(10)]
        run.stop("enough")
        outcomes += await drained(run)
    assert set(statuses(outcomes).values()) == {"ok"}
    world.check_over(run, outcomes)


async def test_a_source_that_waits_for_ever_ends_by_stop() -> None:
    """The pull is cancelled; the generator's clean-up runs, in the task that pulled it (R53)."""
    world: World[str] = World()
    tasks: list[object] = []

    async def blocks() -> AsyncIterator[int]:
        tasks.append(asyncio.current_task())
        try:
            yield 1
            await asyncio.get_running_loop().create_future()
        finally:
            tasks.append(asyncio.current_task())

    async with world.pipeline().run(blocks()) as run:
        outcomes = [await anext(run)]
        run.stop("enough")
        outcomes += await drained(run)
        assert len(tasks) == 2
        assert tasks[0] is tasks[1]
    assert statuses(outcomes) == {1: "ok"}
    world.check_over(run, outcomes)


async def test_a_stop_ends_the_pull_at_once() -> None:
    """Not only when the last item in flight has come home."""
    loop = asyncio.get_running_loop()
    world: World[str] = World()
    closed: list[float] = []

    async def blocks() -> AsyncIterator[int]:
        try:
            yield 1
            await loop.create_future()
        finally:
            closed.append(loop.time())

    async def request(item: int) -> str:
        await asyncio.sleep(50)
        return world.answer(item)

    async with world.pipeline(request=request).run(blocks()) as run:
        await asyncio.sleep(5)
        run.stop("enough")
        outcomes = await drained(run)
    assert (closed, loop.time()) == ([5], 50)
    assert statuses(outcomes) == {1: "ok"}
    world.check_over(run, outcomes)


async def test_a_source_is_closed_when_the_run_ends_early() -> None:
    """K2 (R53): suspended at its yield, it is closed before the block is left, in its own task."""
    world: World[str] = World()
    tasks: list[object] = []

    async def endless() -> AsyncIterator[int]:
        tasks.append(asyncio.current_task())
        try:
            for number in range(10**9):
                yield number
        finally:
            tasks.append(asyncio.current_task())

    async with world.pipeline().run(endless()) as run:
        await anext(run)
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]
    run.check_invariants()


async def test_the_end_of_the_source_is_not_waited_for_once_it_is_known() -> None:
    """A last item that takes long does not ask the source again and again."""
    world: World[str] = World()
    asked = 0

    class Source:
        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            nonlocal asked
            asked += 1
            if asked > 3:
                raise StopAsyncIteration
            return asked

    async with world.pipeline().run(Source()) as run:
        outcomes = await drained(run)
    assert (asked, len(outcomes)) == (4, 3)
    world.check_over(run, outcomes)


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("good", [0, 1, 5])
async def test_a_source_that_raises_ends_the_run_with_its_error(
    good: int, asynchronous: bool
) -> None:
    """What was pulled comes home; then the iteration raises, from the source's own error."""
    world: World[str] = World()

    def broken() -> Iterator[int]:
        yield from range(good)
        msg = "line 6 is no JSON"
        raise OSError(msg)

    async def broken_too() -> AsyncIterator[int]:
        for number in range(good):
            await asyncio.sleep(0)
            yield number
        msg = "line 6 is no JSON"
        raise OSError(msg)

    async with world.pipeline().run(broken_too() if asynchronous else broken()) as run:
        outcomes, error = await read_to_error(run)
        with pytest.raises(SourceFailed, match="line 6 is no JSON"):  # again, when asked again
            await anext(run)
    assert isinstance(error, SourceFailed)
    assert isinstance(error.__cause__, OSError)
    assert error.pulled == good
    assert statuses(outcomes) == dict.fromkeys(range(good), "ok")
    world.check_over(run, outcomes)


async def test_a_source_that_fails_to_close_is_loud_and_harmless(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The outcomes count; the error of the clean-up is logged."""
    world: World[str] = World()

    async def endless() -> AsyncIterator[int]:
        try:
            for number in range(10**9):
                yield number
        finally:
            msg = "cannot close"
            raise OSError(msg)

    with caplog.at_level(logging.ERROR, "millpond.flow"):
        async with world.pipeline(max_unread=1).run(endless()) as run:
            await quiet()  # the source is suspended at its yield
            run.stop()
            outcomes = await drained(run)
    assert "closing the source raised" in caplog.text
    world.check_over(run, outcomes)


async def test_a_source_sees_one_context_from_its_first_item_to_its_last() -> None:
    """K2: a variable that it sets is still set when it is asked again."""
    world: World[str] = World()
    depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)
    seen: list[int] = []

    async def items() -> AsyncIterator[int]:
        for number in range(5):
            depth.set(depth.get() + 1)
            seen.append(depth.get())
            yield number

    async with world.pipeline().run(items()) as run:
        await drained(run)
    assert seen == [1, 2, 3, 4, 5]
    assert depth.get() == 0


@pytest.mark.parametrize("items", [3, None, object()])
async def test_something_that_cannot_be_iterated_is_refused_on_entering(items: object) -> None:
    """With Python's own error, and nothing is left running."""
    world: World[str] = World()
    with pytest.raises(TypeError):
        async with world.pipeline().run(items):  # type: ignore[arg-type] # on purpose
            pytest.fail("it began")


async def test_a_stop_before_the_start_pulls_nothing() -> None:
    """The run ends with no item."""
    world: World[str] = World()
    stop = Stop()
    stop.stop("never mind")
    async with world.pipeline().run(range(5), stop=stop) as run:
        outcomes = await drained(run)
    assert (outcomes, run.statistics().pulled) == ([], 0)
    world.check_over(run, outcomes)


async def test_pulling_waits_for_a_taker_not_the_other_way_round() -> None:
    """K1: with one permit for requests, one item is open at a time."""
    world: World[str] = World()
    most = 0

    def items() -> Iterator[int]:
        nonlocal most
        for number in range(8):
            most = max(most, run.statistics().open)
            yield number

    async def consume(t: int, q: str, item: int) -> str:
        return await world.consume(t, q, item)

    pipeline = world.pipeline(consume=consume, capacity=small(1, 1, 1, 1))
    async with pipeline.run(items()) as run:
        outcomes = await drained(run)
    assert most <= 3  # one asked, one in stock, one in use
    world.check_over(run, outcomes)
