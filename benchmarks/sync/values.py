"""Values that go to every reader, per reader and value."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks.harness import Case, Section
from benchmarks.rows import Contest
from millpond.sync import Broadcast, Watch


class News(NamedTuple):
    """How a value is sent, and how a new reader reads."""

    send: Callable[[int], object]
    read: Callable[[], Callable[[], Awaitable[object]]]


def contests(*, full: bool) -> list[Contest]:
    """Return what is compared: readers that wait for each value, and values in bursts."""
    found: list[Contest] = []
    for readers in (1, 100):
        bare = _case("bare value", _bare, readers, burst=1)
        queues = {"a queue for each": _case("queues", _queues, readers, burst=1)}
        broadcast = _case("Broadcast", _broadcast, readers, burst=1)
        watch = _case("Watch", _watch, readers, burst=1)
        found += [
            Contest(f"broadcast, 1:{readers}", broadcast, bare, "time", None, queues),
            Contest(f"watch, 1:{readers}", watch, bare, "time", None, queues),
        ]
        if not full:
            continue
        found += [
            Contest(f"broadcast, 1:{readers}", broadcast, bare, "instructions", None, queues),
            Contest(f"watch, 1:{readers}", watch, bare, "instructions", None, queues),
        ]
    broadcast = _case("Broadcast", _broadcast, 10, burst=64)
    queue = _case("queues", _queues, 10, burst=64)
    found.append(Contest("broadcast, 1:10 in bursts of 64", broadcast, queue, "time"))
    return found


def _case(name: str, make: Callable[[], News], readers: int, *, burst: int) -> Case:
    async def run(operations: int, section: Section) -> None:
        count = operations // readers
        news = make()

        async def reader() -> None:
            read = news.read()
            for _ in range(count):
                await read()

        tasks = [asyncio.create_task(reader()) for _ in range(readers)]
        await asyncio.sleep(0)
        with section:
            for number in range(1, count + 1):
                news.send(number)
                if number % burst == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks)

    title = f"{name}, {readers:,} readers, bursts of {burst}"
    return Case(title, run, (6_400, 2 * max(readers, 64), 6 * max(readers, 64)))


def _bare() -> News:
    """Return the limit: a future for each reader and value."""
    loop = asyncio.get_running_loop()
    parked: list[asyncio.Future[int]] = []

    def send(value: int) -> None:
        woken = parked.copy()
        parked.clear()
        for future in woken:
            future.set_result(value)

    async def read() -> int:
        future: asyncio.Future[int] = loop.create_future()
        parked.append(future)
        return await future

    return News(send, lambda: read)


def _queues() -> News:
    queues: list[asyncio.Queue[int]] = []

    def send(value: int) -> None:
        for queue in queues:
            queue.put_nowait(value)

    def read() -> Callable[[], Awaitable[int]]:
        queue: asyncio.Queue[int] = asyncio.Queue(256)
        queues.append(queue)
        return queue.get

    return News(send, read)


def _broadcast() -> News:
    news: Broadcast[int] = Broadcast(256)
    return News(news.send, lambda: news.subscribe().recv)


def _watch() -> News:
    value = Watch(0)
    return News(value.set, lambda: value.subscribe().changed)
