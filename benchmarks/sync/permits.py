"""Permits that many want, and callers who give up while they queue."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import peers
from benchmarks.harness import Case, Section
from benchmarks.rows import Contest, Growth
from millpond.flow import Limiter

Work = Callable[[], Awaitable[object]]
CANCELLED = 200
CONTENDERS = 100
PERMITS = 10


def contests(*, full: bool) -> list[Contest]:
    """Return what is compared: per cancelled caller, and per permit."""
    all_peers = _peers()
    found = [
        Contest(
            f"cancel the youngest of {waiting:,} for a permit",
            _cancel("Limiter", _limiter, waiting),
            _cancel("bare", _bare, waiting),
            "time",
            1.5,
            {
                "asyncio.Semaphore": _cancel("asyncio.Semaphore", _semaphore, waiting),
                # Some are quadratic here, too slow for a quick look.
                **{
                    name: _cancel(name, make, waiting)
                    for name, make in all_peers.items()
                    if full or waiting == 1_000  # noqa: PLR2004 - the smaller one
                },
            },
        )
        for waiting in (1_000, 10_000)
    ]
    found.append(
        Contest(
            f"permit, {CONTENDERS} for {PERMITS}",
            _contend("Limiter", _limiter),
            _contend("bare", _bare),
            "time",
            1.4,
            {
                "asyncio.Semaphore": _contend("asyncio.Semaphore", _semaphore),
                **{name: _contend(name, make) for name, make in all_peers.items()},
            },
        )
    )
    if full:
        found.append(
            Contest(
                f"permit, {CONTENDERS} for {PERMITS}",
                _contend("Limiter", _limiter),
                _contend("bare", _bare),
                "instructions",
                None,
                {"asyncio.Semaphore": _contend("asyncio.Semaphore", _semaphore)},
            )
        )
    return found


def growth(*, full: bool) -> Growth:
    """Return how the cost of a cancel grows with those who wait."""
    sizes = (1_000, 10_000) if full else (200, 2_000)
    cases = {waiting: _cancel("Limiter", _limiter, waiting) for waiting in sizes}
    return Growth("cancel the youngest for a permit", cases, 0.08)


def _cancel(name: str, make: Callable[[int], Work], waiting: int) -> Case:
    async def run(operations: int, section: Section) -> None:
        work = make(0)
        tasks = [asyncio.create_task(_forever(work)) for _ in range(waiting)]
        await asyncio.sleep(0)
        youngest = tasks[-operations:][::-1]
        with section:
            for task in youngest:
                task.cancel()
            while not youngest[-1].done():  # noqa: ASYNC110 - steps of the loop are what it costs
                await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return Case(f"{name}: cancel of {waiting:,}", run, (CANCELLED, CANCELLED // 4, CANCELLED))


async def _forever(work: Work) -> None:
    await work()


def _contend(name: str, make: Callable[[int], Work]) -> Case:
    async def run(operations: int, section: Section) -> None:
        work = make(PERMITS)

        async def worker() -> None:
            for _ in range(operations // CONTENDERS):
                await work()

        with section:
            await asyncio.gather(*(worker() for _ in range(CONTENDERS)))

    return Case(f"{name}: contended permit", run, (4_000, 2 * CONTENDERS, 8 * CONTENDERS))


def _bare(permits: int) -> Work:
    """Return the limit: a count, and a line of futures."""
    loop = asyncio.get_running_loop()
    line: deque[asyncio.Future[None]] = deque()
    free = permits

    async def work() -> None:
        nonlocal free
        if free:
            free -= 1
        else:
            future: asyncio.Future[None] = loop.create_future()
            line.append(future)
            await future
        await asyncio.sleep(0)
        if line:
            line.popleft().set_result(None)
        else:
            free += 1

    return work


def _limiter(permits: int) -> Work:
    limiter = Limiter(permits or 1)
    if not permits:
        limiter.acquire_nowait().hand_over("the case")

    async def work() -> None:
        with await limiter.acquire():
            await asyncio.sleep(0)

    return work


def _semaphore(permits: int) -> Work:
    return _within(asyncio.Semaphore(permits))


def _within(semaphore: Any) -> Work:  # noqa: ANN401 - anything with `async with`
    async def work() -> None:
        async with semaphore:
            await asyncio.sleep(0)

    return work


def _peers() -> dict[str, Callable[[int], Work]]:
    known: dict[str, Callable[[int], Work]] = {
        "anyio.CapacityLimiter": _capacity_limiter,
        "anyio.Semaphore": _fast_semaphore,
        "aiologic.Semaphore": lambda permits: _within(peers.load("aiologic").Semaphore(permits)),
    }
    return {name: make for name, make in known.items() if peers.has(name.partition(".")[0])}


def _capacity_limiter(permits: int) -> Work:
    limiter = peers.load("anyio").CapacityLimiter(permits or 1)
    if not permits:
        limiter.acquire_on_behalf_of_nowait("the case")
    return _within(limiter)


def _fast_semaphore(permits: int) -> Work:
    return _within(peers.load("anyio").Semaphore(permits, fast_acquire=True))
