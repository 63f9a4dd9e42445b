"""Planted faults, each with its mended twin: the one is found, the other exhausted."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from millpond.testing import (
    Bounds,
    Deadlock,
    Fault,
    Livelock,
    LoopFault,
    NeverAwaited,
    TaskFailed,
    Violation,
    World,
)

Scenario = Callable[[World], None]


class Planted(NamedTuple):
    """One fault."""

    name: str
    make: Callable[[bool], Scenario]
    """Returns the scenario; True is the faulty one."""
    kind: type[Fault]
    within: int
    """Schedules until it is found, at most."""
    bounds: Bounds = Bounds(preemptions=None, cancels=1)


def slot_window(faulty: bool) -> Scenario:
    """A slot is taken, and something is awaited before anybody owns it."""

    def scenario(world: World) -> None:
        slots = asyncio.Semaphore(1)

        async def work() -> None:
            await slots.acquire()
            if faulty:
                await world.io("audit")
            try:
                await world.io("work")
            finally:
                slots.release()

        world.spawn("W", work(), cancel=True)
        world.final("the slot is back", lambda: not slots.locked())

    return scenario


def half_claims(faulty: bool) -> Scenario:
    """One of two things is taken, and the other one waited for."""

    def scenario(world: World) -> None:
        changed = asyncio.Condition()
        stock = {"t": 1, "q": 0}

        async def claim() -> None:
            async with changed:
                if faulty:
                    stock["t"] -= 1
                    await changed.wait_for(lambda: stock["q"])
                else:
                    await changed.wait_for(lambda: stock["t"] and stock["q"])
                    stock["t"] -= 1
                stock["q"] -= 1

        async def put() -> None:
            await world.io("answer")
            async with changed:
                stock["q"] += 1
                changed.notify_all()

        claimer = world.spawn("C", claim(), cancel=True)
        world.spawn("P", put())
        world.final("nothing is gone", lambda: not claimer.cancelled or stock["t"] == 1)

    return scenario


def checked_once(faulty: bool) -> Scenario:
    """A waiter takes what it was woken for without another look."""

    def scenario(world: World) -> None:
        changed = asyncio.Event()
        items: list[int] = []

        async def take() -> None:
            while not items:
                changed.clear()
                await changed.wait()
                if faulty:
                    break
            items.pop()

        def put() -> None:
            items.append(1)
            changed.set()

        for name in "AB":
            world.spawn(name, take(), daemon=True)
        world.event("put", put)

    return scenario


def lost_hand_over(faulty: bool) -> Scenario:
    """A permit is handed to a task that is cancelled before it runs."""

    def scenario(world: World) -> None:
        free = 1
        line: list[asyncio.Future[None]] = []

        def release() -> None:
            nonlocal free
            while line:
                turn = line.pop(0)
                if not turn.done():
                    turn.set_result(None)
                    return
            free += 1

        async def work() -> None:
            nonlocal free
            if free:
                free -= 1
            else:
                turn = asyncio.get_running_loop().create_future()
                line.append(turn)
                try:
                    await turn
                except asyncio.CancelledError:
                    if not faulty and not turn.cancelled():
                        release()
                    raise
            try:
                await world.io("work")
            finally:
                release()

        for name in "ABC":
            world.spawn(name, work(), cancel=True)
        world.final("the permit is back", lambda: free == 1)

    return scenario


def double_release(faulty: bool) -> Scenario:
    """A permit goes back twice when its holder is cancelled."""

    def scenario(world: World) -> None:
        free = 1

        async def work() -> None:
            nonlocal free
            free -= 1
            try:
                await world.io("work")
            except asyncio.CancelledError:
                free += faulty
                raise
            finally:
                free += 1

        world.spawn("W", work(), cancel=True)
        world.invariant("at most one", lambda: free <= 1)

    return scenario


def held_while_waiting(faulty: bool) -> Scenario:
    """A scarce permit is held while an answer is awaited."""

    def scenario(world: World) -> None:
        scarce = asyncio.Semaphore(1)
        holding = 0

        async def ask() -> None:
            nonlocal holding
            async with scarce:
                await world.io("send")
                if faulty:
                    holding += 1
                    await world.io("answer")
                    holding -= 1
            if not faulty:
                await world.io("answer")

        world.spawn("P", ask())
        world.invariant("free while it waits", lambda: not holding)

    return scenario


def grace(faulty: bool) -> Scenario:
    """Clean-up that is shielded is left behind by a second cancel."""

    def scenario(world: World) -> None:
        closed = False

        async def close() -> None:
            nonlocal closed
            await world.io("close")
            closed = True

        async def main() -> None:
            try:
                await world.io("work")
            finally:
                closing = asyncio.ensure_future(close())
                while not closing.done():
                    try:
                        await asyncio.shield(closing)
                    except asyncio.CancelledError:
                        if faulty:
                            raise

        ends: list[bool] = []

        async def watched() -> None:
            try:
                await main()
            finally:
                ends.append(closed)

        world.spawn("M", watched(), cancel=True)
        world.final("it was closed before the end", lambda: all(ends))

    return scenario


def ready_before_stop(faulty: bool) -> Scenario:
    """Of ready and stop, the one that was looked at first wins."""

    def scenario(world: World) -> None:
        ready, stop, changed = [False], [False], asyncio.Event()

        async def wait() -> None:
            while True:
                order = (ready, stop) if faulty else (stop, ready)
                for state in order:
                    if state[0]:
                        assert state is stop or not stop[0], "ready, although it was stopped"
                        return
                changed.clear()
                await changed.wait()

        def set_state(state: list[bool]) -> None:
            state[0] = True
            changed.set()

        world.spawn("W", wait(), anytime=True, daemon=True)
        world.event("ready", lambda: set_state(ready))
        world.event("stop", lambda: set_state(stop), optional=True)

    return scenario


def notify_before_publish(faulty: bool) -> Scenario:
    """The wake-up comes, and the state that it tells of later."""

    def scenario(world: World) -> None:
        changed = asyncio.Event()
        ready = False

        async def wait() -> None:
            while not ready:
                changed.clear()
                await changed.wait()

        async def publish() -> None:
            nonlocal ready
            if faulty:
                changed.set()
                await world.io("write")
                ready = True
            else:
                await world.io("write")
                ready = True
                changed.set()

        world.spawn("W", wait())
        world.spawn("P", publish())

    return scenario


def locks_in_two_orders(faulty: bool) -> Scenario:
    """Two tasks take two locks, each in its own order."""

    def scenario(world: World) -> None:
        one, two = asyncio.Lock(), asyncio.Lock()

        async def work(first: asyncio.Lock, second: asyncio.Lock) -> None:
            async with first:
                await world.io("think")
                async with second:
                    pass

        world.spawn("A", work(one, two))
        world.spawn("B", work(two, one) if faulty else work(one, two))

    return scenario


def spin(faulty: bool) -> Scenario:
    """A loop polls for something that may never come."""

    def scenario(world: World) -> None:
        done = asyncio.Event()

        async def wait() -> None:
            while faulty and not done.is_set():
                await asyncio.sleep(0)
            await done.wait()

        world.spawn("W", wait(), daemon=True)
        world.event("done", done.set, optional=True)

    return scenario


def dropped_coroutine(faulty: bool) -> Scenario:
    """A coroutine is made and not awaited."""

    def scenario(world: World) -> None:
        async def note() -> None:
            await world.io("note")

        async def work() -> None:
            if faulty:
                note()  # type: ignore[unused-coroutine] # the fault
            else:
                await note()

        world.spawn("W", work())

    return scenario


def unseen_error(faulty: bool) -> Scenario:
    """A task of the program fails, and nobody looks."""

    def scenario(world: World) -> None:
        async def child() -> None:
            await world.io("call", 1, ValueError("no"))

        async def work() -> None:
            task = asyncio.ensure_future(child())
            await asyncio.wait([task])
            if not faulty:
                task.exception()

        world.spawn("W", work())

    return scenario


def failing_callback(faulty: bool) -> Scenario:
    """A callback of the loop raises."""

    def scenario(world: World) -> None:
        async def work() -> None:
            answer = world.io("call", 1, 2)
            answer.add_done_callback(lambda done: 1 // (done.result() - (2 if faulty else 3)))
            await answer

        world.spawn("W", work())

    return scenario


_TWO: Final = Bounds(preemptions=None, cancels=2)

PLANTED: Final = (
    Planted("slot window", slot_window, Violation, 10),
    Planted("half claims", half_claims, Violation, 10),
    Planted("checked once", checked_once, TaskFailed, 10),
    Planted("lost hand-over", lost_hand_over, Violation, 20),
    Planted("double release", double_release, Violation, 10),
    Planted("held while waiting", held_while_waiting, Violation, 1),
    Planted("grace", grace, Violation, 40, _TWO),
    Planted("ready before stop", ready_before_stop, TaskFailed, 60),
    Planted("notify before publish", notify_before_publish, Deadlock, 10),
    Planted("locks in two orders", locks_in_two_orders, Deadlock, 20),
    Planted("spin", spin, Livelock, 20),
    Planted("dropped coroutine", dropped_coroutine, NeverAwaited, 1),
    Planted("unseen error", unseen_error, TaskFailed, 10),
    Planted("failing callback", failing_callback, LoopFault, 10),
)
