"""Waiting for a state that changes: everybody looks again, whoever is ready goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.harness import Case, Run, Section
from benchmarks.rows import Contest
from millpond.sync import Notify, Stop, wait_until, wait_until_or_stopped

Predicate = Callable[[], bool]
Wait = Callable[[Predicate], Awaitable[object]]
Publish = Callable[[], None]


def contests(*, full: bool) -> list[Contest]:
    """Return what is compared: per waiter that is woken."""
    found: list[Contest] = []
    for waiting in (1, 100, 10_000) if full else (100,):
        bare = _case("bare wake-up", waiting, _bare(waiting))
        until = _case("wait_until", waiting, _states(waiting, _wait_until))
        stopped = _case("wait_until_or_stopped", waiting, _states(waiting, _or_stopped))
        event = _case("asyncio.Event", waiting, _states(waiting, _event))
        condition = _case("asyncio.Condition", waiting, _states(waiting, _condition))
        tasks = _case("two helper tasks", waiting, _states(waiting, _helpers))
        judged = waiting == 100  # noqa: PLR2004 - the size of which the targets speak
        for unit in ("instructions", "time") if judged else ("time",):
            counted = unit == "instructions"
            found += [
                Contest(
                    f"wait_until, {waiting:,} waiting",
                    until,
                    bare,
                    unit,
                    1.5 if counted else None,
                    {"asyncio.Event": event, "asyncio.Condition": condition},
                ),
                Contest(
                    f"wait_until_or_stopped, {waiting:,} waiting",
                    stopped,
                    until,
                    unit,
                    1.15 if counted else None,
                ),
                Contest(
                    f"wait_until_or_stopped, {waiting:,} waiting",
                    stopped,
                    tasks,
                    unit,
                    1 / 5 if counted else None,
                ),
            ]
    return found


def _case(name: str, waiting: int, run: Run) -> Case:
    rounds = max(4, 4_000 // waiting)
    operations = (rounds * waiting, 2 * waiting, 6 * waiting)
    return Case(f"{name}, {waiting:,} waiting", run, operations)


def _bare(waiting: int) -> Run:
    """Return the limit: a future for each waiter and wake-up."""

    async def run(operations: int, section: Section) -> None:
        loop = asyncio.get_running_loop()
        rounds = operations // waiting
        parked: list[asyncio.Future[None]] = []

        async def waiter() -> None:
            for _ in range(rounds):
                future: asyncio.Future[None] = loop.create_future()
                parked.append(future)
                await future

        async with asyncio.TaskGroup() as group:
            for _ in range(waiting):
                group.create_task(waiter())
            await asyncio.sleep(0)
            with section:
                for _ in range(rounds):
                    woken = parked.copy()
                    parked.clear()
                    for future in woken:
                        future.set_result(None)
                    await asyncio.sleep(0)

    return run


def _states(waiting: int, make: Callable[[], tuple[Wait, Publish]]) -> Run:
    """Return the same, through a wait for a number that rises."""

    async def run(operations: int, section: Section) -> None:
        rounds = operations // waiting
        wait, publish = make()
        number = asleep = 0

        async def waiter() -> None:
            nonlocal asleep
            for seen in range(rounds):
                asleep += 1
                await wait(lambda: number > seen)  # noqa: B023 - it ends before the next begins

        async def all_asleep(turns: int) -> int:
            while asleep < waiting:
                await asyncio.sleep(0)
                turns += 1
            return turns

        async with asyncio.TaskGroup() as group:
            for _ in range(waiting):
                group.create_task(waiter())
            await all_asleep(0)
            for _ in range(3):  # helper tasks begin later
                await asyncio.sleep(0)
            with section:
                for _ in range(rounds):
                    asleep = 0
                    number += 1
                    publish()
                    await asyncio.sleep(0)
                    if number < rounds:
                        await all_asleep(0)

    return run


def _wait_until() -> tuple[Wait, Publish]:
    changed = Notify()
    return partial(wait_until, changed), changed.notify_waiters


def _or_stopped() -> tuple[Wait, Publish]:
    changed = Notify()
    return partial(wait_until_or_stopped, changed, Stop()), changed.notify_waiters


def _event() -> tuple[Wait, Publish]:
    """Return the usual spelling without a stop: an event, set and replaced."""
    changed = asyncio.Event()

    async def wait(predicate: Predicate) -> None:
        while not predicate():
            await changed.wait()

    def publish() -> None:
        nonlocal changed
        old, changed = changed, asyncio.Event()
        old.set()

    return wait, publish


def _condition() -> tuple[Wait, Publish]:
    condition = asyncio.Condition()
    helpers: set[asyncio.Task[None]] = set()

    async def wait(predicate: Predicate) -> None:
        async with condition:
            await condition.wait_for(predicate)

    async def notify() -> None:
        async with condition:
            condition.notify_all()

    def publish() -> None:
        helper = asyncio.create_task(notify())
        helpers.add(helper)
        helper.add_done_callback(helpers.discard)

    return wait, publish


def _helpers() -> tuple[Wait, Publish]:
    """Return the usual spelling with a stop: a task for each event that may end the wait."""
    changed, stop = asyncio.Event(), asyncio.Event()

    async def wait(predicate: Predicate) -> None:
        while not predicate():
            helpers = [asyncio.create_task(changed.wait()), asyncio.create_task(stop.wait())]
            try:
                await asyncio.wait(helpers, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for helper in helpers:
                    helper.cancel()
                await asyncio.gather(*helpers, return_exceptions=True)

    def publish() -> None:
        nonlocal changed
        old, changed = changed, asyncio.Event()
        old.set()

    return wait, publish
