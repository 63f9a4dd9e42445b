"""The suite of the explorer: what a schedule costs, ours and that of other deterministic loops."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks import peers
from benchmarks.rows import Row, Suite
from millpond.testing import Bounds, World, explore

ROUNDS: Final = 5
SCHEDULES: Final = 400
PEERS: Final = ("simloom", "simloop")


def suite(*, full: bool) -> Suite:
    """Return the suite; the *full* one takes more schedules."""
    count = SCHEDULES * (5 if full else 1)
    return Suite(
        name="explore",
        full=full,
        contests=(),
        others=[lambda: [_a_schedule(count)]],
        skipped=[
            f"{name}: not installed (it needs Python 3.12)" for name in PEERS if not peers.has(name)
        ],
    )


async def _worker(permits: asyncio.Semaphore, work: Callable[[], Any]) -> None:
    for _ in range(2):
        async with permits:
            await work()


def _ours(count: int) -> None:
    def scenario(world: World) -> None:
        permits = asyncio.Semaphore(1)
        for name in ("A", "B", "C"):
            world.spawn(name, _worker(permits, lambda: world.io("work")))

    explore(scenario, mode="random", schedules=count, bounds=Bounds(preemptions=None, cancels=0))


async def _program() -> None:
    permits = asyncio.Semaphore(1)
    await asyncio.gather(*(_worker(permits, lambda: asyncio.sleep(0.001)) for _ in range(3)))


def _simloom(count: int) -> None:
    peers.load("simloom").explore(_program, runs=count)


def _simloop(count: int) -> None:
    peers.load("simloop").explore(_program, range(count))


_RUNS: Final[Mapping[str, Callable[[int], None]]] = {"simloom": _simloom, "simloop": _simloop}


def _a_schedule(count: int) -> Row:
    """Compare random schedules of three tasks that take turns, round by round."""
    there = [name for name in PEERS if peers.has(name)]
    ratios: dict[str, list[float]] = {name: [] for name in ("bare", *there)}
    for number in range(ROUNDS + 1):
        ours = _seconds(_ours, count)
        found = {"bare": _seconds(_bare, count)}
        found |= {name: _seconds(_RUNS[name], count) for name in there}
        if number:  # the first round warms up
            for name, seconds in found.items():
                ratios[name].append(ours / seconds)
    bare = ratios.pop("bare")
    return Row(
        name="a random schedule: three tasks, one permit, six calls",
        against="the same calls on a bare loop, new for each",
        unit="time",
        ratio=statistics.median(bare),
        spread=(min(bare), max(bare)),
        target=None,
        peers={name: statistics.median(values) for name, values in ratios.items()},
    )


def _bare(count: int) -> None:
    async def program() -> None:
        permits = asyncio.Semaphore(1)
        await asyncio.gather(*(_worker(permits, lambda: asyncio.sleep(0)) for _ in range(3)))

    for _ in range(count):
        asyncio.run(program())


def _seconds(run: Callable[[int], None], count: int) -> float:
    began = time.process_time()
    run(count)
    return time.process_time() - began
