"""Known faults of asyncio: found on the Pythons that have them, exhausted on the others."""

import asyncio
import contextlib
from typing import Final

from millpond.testing import Bounds, World
from proofs.catalogue import Proof


def condition_notify(world: World) -> None:
    """A notification that reached a waiter which was then cancelled is passed on (gh-112202)."""
    condition = asyncio.Condition()
    items = 0

    async def consume() -> None:
        nonlocal items
        async with condition:
            while not items:
                await condition.wait()
            items -= 1

    async def produce() -> None:
        nonlocal items
        await world.io("made")
        async with condition:
            items += 1
            condition.notify(1)

    world.spawn("C1", consume(), cancel=True, daemon=True)
    other = world.spawn("C2", consume(), daemon=True)
    world.spawn("P", produce())
    world.final("nobody sleeps beside an item", lambda: not items or other.finished)


def wait_for_cancel(world: World) -> None:
    """`wait_for` passes on a cancel that comes together with the result (gh-86296)."""
    ready = asyncio.Event()
    cancels_kept = 0

    async def wait() -> None:
        nonlocal cancels_kept
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ready.wait(), 5)
        cancels_kept += _requests()

    world.spawn("W", wait(), cancel=True)
    world.event("ready", ready.set, optional=True)
    world.final("no cancel is swallowed", lambda: not cancels_kept)


def group_leaves_no_cancel(world: World) -> None:
    """A group that failed leaves no cancel request on its parent."""
    left = 0

    async def fail() -> None:
        await world.io("work", ValueError("no"))

    async def parent() -> None:
        nonlocal left
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await world.io("body", may_hang=True)
        except* ValueError:
            pass
        left = _requests()

    world.spawn("M", parent(), may_raise=(ExceptionGroup,))
    world.final("no cancel request is left", lambda: not left)


def group_under_timeout(world: World) -> None:
    """After a failed group, an await under a timeout is not cancelled by nobody (gh-133747)."""
    stray = 0

    async def fail() -> None:
        await world.io("work", ValueError("no"))

    async def parent() -> None:
        nonlocal stray
        try:
            async with asyncio.timeout(10):
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(fail())
                        await world.io("body", may_hang=True)
                except* ValueError:
                    pass
                await world.io("after", may_hang=True)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            stray += 1

    world.spawn("M", parent())
    world.final("nobody was cancelled by nobody", lambda: not stray)


def semaphore(world: World) -> None:
    """A semaphore loses no permit, whoever is cancelled."""
    permits = asyncio.Semaphore(1)

    async def work() -> None:
        async with permits:
            await world.io("work")

    for name in ("A", "B", "C"):
        world.spawn(name, work(), cancel=True)
    world.final("the permit is back", lambda: not permits.locked())


def queue_get(world: World) -> None:
    """A cancelled `Queue.get` loses no item."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    got = 0

    async def get() -> None:
        nonlocal got
        await queue.get()
        got += 1

    world.spawn("G", get(), cancel=True, daemon=True)
    world.event("put", lambda: queue.put_nowait(1))
    world.final("the item is somewhere", lambda: got + queue.qsize() == 1)


def _requests() -> int:
    """Return how many cancels were asked of the running task and not answered."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


_ANY: Final = Bounds(preemptions=None, cancels=1)

PROOFS: Final = (
    Proof(name="asyncio.Condition.notify", scenario=condition_notify, faulty=("3.11", "3.12")),
    Proof(name="asyncio.wait_for", scenario=wait_for_cancel, faulty=("3.11",)),
    Proof(
        name="asyncio.TaskGroup: cancel request",
        scenario=group_leaves_no_cancel,
        faulty=("3.11", "3.12"),
    ),
    Proof(name="asyncio.TaskGroup: timeout", scenario=group_under_timeout, faulty=("3.11", "3.12")),
    Proof(
        name="asyncio.Semaphore",
        scenario=semaphore,
        bounds=Bounds(preemptions=None, cancels=2),
        quick=Bounds(preemptions=None, cancels=2),
    ),
    Proof(name="asyncio.Queue.get", scenario=queue_get, quick=_ANY),
)
