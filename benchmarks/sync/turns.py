"""Turns of a sequencer, per turn, with a constant number of callers waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

from benchmarks.harness import Case, Section
from benchmarks.rows import Contest, Growth
from millpond.sync import Sequencer

Line = tuple[Callable[[int], Awaitable[object]], Callable[[int], Awaitable[object] | None]]
"""Waits for the turn of a number; ends it."""


def contests() -> list[Contest]:
    """Return what is compared."""
    found: list[Contest] = []
    for waiting in (100, 1_000):
        ours = _case("Sequencer", _sequencer, waiting, 4_000)
        bare = _case("a future by number", _keyed, waiting, 4_000)
        title = f"sequencer turn, {waiting:,} waiting"
        found.append(Contest(title, ours, bare, "time"))
        condition = _case("notify_all", _condition, waiting, 20_000 // waiting)
        target = 0.01 if waiting == 1_000 else None  # noqa: PLR2004 - of which the target speaks
        found.append(Contest(title, ours, condition, "time", target))
    return found


def growth(*, full: bool) -> Growth:
    """Return how the cost of a turn grows with those who wait."""
    sizes = (100, 1_000, 10_000) if full else (100, 1_000)
    cases = {waiting: _case("Sequencer", _sequencer, waiting, 4_000) for waiting in sizes}
    return Growth("sequencer turn", cases, 0.08)


def _case(name: str, make: Callable[[], Line], waiting: int, turns: int) -> Case:
    async def run(operations: int, section: Section) -> None:
        wait, advance = make()
        over = asyncio.Event()

        async def caller(number: int) -> None:
            for turn in count(number, waiting):
                await wait(turn)
                # A turn in which nothing happens would let all go on in one step of the loop.
                await asyncio.sleep(0)
                if (ending := advance(turn)) is not None:
                    await ending
                if turn == operations:
                    over.set()

        callers = [asyncio.create_task(caller(number)) for number in range(1, waiting)]
        await asyncio.sleep(0)
        with section:
            callers.append(asyncio.create_task(caller(0)))
            await over.wait()
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    return Case(f"{name}, {waiting:,} waiting", run, (turns, 50, 250))


def _sequencer() -> Line:
    line = Sequencer()
    return line.wait_turn, line.advance


def _keyed() -> Line:
    """Return the limit: the next number finds its future in a dictionary."""
    loop = asyncio.get_running_loop()
    parked: dict[int, asyncio.Future[None]] = {}
    now = 0

    async def wait(number: int) -> None:
        if number != now:
            future = parked[number] = loop.create_future()
            await future

    def advance(number: int) -> None:
        nonlocal now
        now = number + 1
        if (future := parked.pop(now, None)) is not None:
            future.set_result(None)

    return wait, advance


def _condition() -> Line:
    """Return the usual spelling: all are woken, and all but one go back to sleep."""
    condition = asyncio.Condition()
    now = 0

    async def wait(number: int) -> None:
        async with condition:
            await condition.wait_for(lambda: number == now)

    async def advance(number: int) -> None:
        nonlocal now
        async with condition:
            now = number + 1
            condition.notify_all()

    return wait, advance
