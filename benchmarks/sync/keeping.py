"""What waits keep: of those that have ended nothing, of those that go on little."""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks.rows import Row
from millpond.flow import Limiter
from millpond.sync import (
    Broadcast,
    Channel,
    Latch,
    Notify,
    Oneshot,
    Sequencer,
    Stop,
    Watch,
    wait_until,
    wait_until_or_stopped,
)

AT_ONCE = 100
WAITS = 10_000
MOST_STRETCHES = 4
CALLERS = 3  # futures are made in a function of asyncio that ours calls
WEIGHED = 2_000
OUR_CODE = tracemalloc.Filter(inclusive=True, filename_pattern="*/millpond/*", all_frames=True)


class Source(NamedTuple):
    """Something to wait for."""

    wait: Callable[[], Awaitable[object]]
    wake: Callable[[], object] | None = None
    """Ends one wait, or all. None: only a cancel does."""


def left_behind() -> list[Row]:
    """Return how much is left of 10,000 waits, half of them woken and half cancelled."""
    rows: list[Row] = []
    for name, make in _SOURCES.items():
        objects, size = asyncio.run(_leave(make))
        for unit, left in (("objects", objects), ("bytes", size)):
            rows.append(
                Row(
                    name=f"left of {WAITS:,} waits: {name}",
                    against="",
                    unit="objects" if unit == "objects" else "bytes",
                    ratio=max(left, 0),
                    spread=(left, left),
                    target=0,
                    is_shape=True,
                )
            )
    return rows


def bytes_per_waiter() -> list[Row]:
    """Return what a task that waits takes, against one that waits for an `asyncio.Event`."""
    plain = asyncio.run(_weigh(_event))
    rows: list[Row] = []
    for name, make in _SOURCES.items():
        size = asyncio.run(_weigh(make)) / plain
        rows.append(
            Row(
                name=f"memory of a waiting task: {name}",
                against="asyncio.Event",
                unit="bytes",
                ratio=size,
                spread=(size, size),
                target=None,
            )
        )
    return rows


async def _leave(make: Callable[[], Source]) -> tuple[int, int]:
    """Return the least that a stretch of waits left, in objects and in bytes.

    The interpreter's free lists make an object or two come and go. A leak is there in
    every stretch, so the first one that leaves nothing settles it.
    """
    source = make()
    tracemalloc.start(CALLERS)
    try:
        await _wait_often(source, WAITS // 10)
        _kept()
        least = (sys.maxsize, sys.maxsize)
        for _ in range(MOST_STRETCHES):
            before = _kept()
            await _wait_often(source, WAITS)
            after = _kept()
            least = min(least[0], after[0] - before[0]), min(least[1], after[1] - before[1])
            if max(least) <= 0:
                break
    finally:
        tracemalloc.stop()
    return least


def _kept() -> tuple[int, int]:
    """Return all objects that there are, and the bytes that our code has allocated."""
    gc.collect()
    objects = len(gc.get_objects())
    ours = tracemalloc.take_snapshot().filter_traces([OUR_CODE])
    return objects, sum(trace.size for trace in ours.traces)


async def _wait_often(source: Source, waits: int) -> None:
    for number in range(waits // AT_ONCE):
        tasks = [asyncio.create_task(_wait(source)) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        if source.wake is not None and number % 2:
            while not all(task.done() for task in tasks):
                source.wake()
                await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait(source: Source) -> None:
    await source.wait()


async def _weigh(make: Callable[[], Source]) -> float:
    source = make()
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tasks = [asyncio.create_task(_wait(source)) for _ in range(WEIGHED)]
        await asyncio.sleep(0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return (after - before) / WEIGHED


def _event() -> Source:
    event = asyncio.Event()
    return Source(event.wait)


def _wait_until() -> Source:
    changed = Notify()
    go_on: list[int] = []

    def wake() -> None:
        go_on.append(1)
        changed.notify_waiters()
        asyncio.get_running_loop().call_soon(go_on.clear)

    return Source(lambda: wait_until(changed, lambda: bool(go_on)), wake)


def _or_stopped() -> Source:
    return _until_stop(own=False)


def _or_child_stopped() -> Source:
    return _until_stop(own=True)


def _until_stop(*, own: bool) -> Source:
    changed, stop = Notify(), Stop()
    go_on: list[int] = []

    def wait() -> Awaitable[object]:
        each = stop.child() if own else stop
        return wait_until_or_stopped(changed, each, lambda: bool(go_on))

    def wake() -> None:
        go_on.append(1)
        changed.notify_waiters()
        asyncio.get_running_loop().call_soon(go_on.clear)

    return Source(wait, wake)


def _notify_one() -> Source:
    changed = Notify()

    async def wait() -> None:
        with changed.notified() as armed:
            await armed

    return Source(wait, changed.notify_one)


def _stop() -> Source:
    return Source(Stop().wait_stopped)


def _latch() -> Source:
    return Source(Latch().wait_ready)


def _sequencer() -> Source:
    line, last = Sequencer(), 0

    def wait() -> Awaitable[object]:
        nonlocal last
        last = max(last, line.statistics().next) + 1
        return line.wait_turn(last)

    return Source(wait, lambda: line.advance(line.statistics().next))


def _recv() -> Source:
    channel: Channel[None] = Channel(1)

    def wake() -> None:
        if channel.statistics().receivers:
            channel.send_nowait(None)

    return Source(channel.recv, wake)


def _send() -> Source:
    channel: Channel[None] = Channel(1)
    channel.send_nowait(None)

    return Source(lambda: channel.send(None), channel.drain)


def _broadcast() -> Source:
    news: Broadcast[None] = Broadcast(8)
    return Source(lambda: news.subscribe().recv(), lambda: news.send(None))


def _watch() -> Source:
    value = Watch(None)
    return Source(lambda: value.subscribe().changed(), lambda: value.set(None))


def _oneshot() -> Source:
    pending: list[Oneshot[None]] = []

    async def wait() -> None:
        one: Oneshot[None] = Oneshot()
        pending.append(one)
        try:
            await one.recv()
        finally:
            pending.remove(one)

    def wake() -> None:
        for one in pending:
            one.send(None)

    return Source(wait, wake)


def _limiter() -> Source:
    limiter = Limiter(1)
    limiter.acquire_nowait().hand_over("the case")

    async def wait() -> None:
        with await limiter.acquire():
            pass

    def wake() -> None:
        limiter.resize(2)
        limiter.resize(1)

    return Source(wait, wake)


_SOURCES: dict[str, Callable[[], Source]] = {
    "wait_until": _wait_until,
    "wait_until_or_stopped": _or_stopped,
    "the same, with a child stop": _or_child_stopped,
    "Notified": _notify_one,
    "Stop.wait_stopped": _stop,
    "Latch.wait_ready": _latch,
    "Sequencer.wait_turn": _sequencer,
    "Channel.recv": _recv,
    "Channel.send": _send,
    "Subscription and its recv": _broadcast,
    "WatchSubscription and its changed": _watch,
    "Oneshot and its recv": _oneshot,
    "Limiter.acquire": _limiter,
}
