"""What the tests of waiting share: quiet instead of sleeping, and time that is not real."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

R = TypeVar("R")

MOST_TURNS = 1000
"""A test that goes round more often, with nothing to wait for, spins."""


async def turns(count: int) -> None:
    """Let the loop go round *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def quiet() -> int:
    """Let the loop run until nothing but timers and files is left to wait for.

    Returns the turns that it took, at least 1. Whatever spins fails the test.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined] # public API has no such look
    for turn in range(1, MOST_TURNS):
        await asyncio.sleep(0)
        if not ready:
            return turn
    msg = f"not quiet after {MOST_TURNS} turns: something spins"
    raise AssertionError(msg)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel *tasks* and wait until they have ended, whatever their end is."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self._turns_since_a_jump = 0

    def time(self) -> float:
        """Return the virtual time."""
        return self.now

    def _run_once(self) -> None:
        self._turns_since_a_jump += 1
        if self._turns_since_a_jump > MOST_TURNS:
            msg = f"{MOST_TURNS} turns and no time passed: something spins"
            raise AssertionError(msg)
        if not self._ready:  # type: ignore[attr-defined] # as in `quiet`
            timers = self._scheduled  # type: ignore[attr-defined] # the same
            due = [timer.when() for timer in timers if not timer.cancelled()]
            if not due:
                msg = "everything sleeps, and nothing will wake it"
                raise AssertionError(msg)
            self.now = max(self.now, min(due))
            self._turns_since_a_jump = 0
        super()._run_once()  # type: ignore[misc] # the same


def run_virtual(main: Coroutine[Any, Any, R]) -> R:
    """Run *main* in virtual time. No threads, no files: a sleep of all is an error."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def timers() -> int:
    """Return how many timers of the running loop are set and not cancelled."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined] # as in `quiet`
    return sum(not timer.cancelled() for timer in scheduled)


@contextlib.contextmanager
def loop_errors() -> Iterator[list[dict[str, Any]]]:
    """Collect what the running loop would log as an unhandled error."""
    loop = asyncio.get_running_loop()
    seen: list[dict[str, Any]] = []
    previous = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: seen.append(context))
    try:
        yield seen
    finally:
        loop.set_exception_handler(previous)


class ForeignStop:
    """A stop signal that has the two methods of the protocol and nothing else."""

    def __init__(self) -> None:
        self.stopped = False
        self.waits = 0
        self.waiting = 0
        self._changed: list[asyncio.Future[None]] = []

    def stop(self) -> None:
        """Ask for the stop."""
        self.stopped = True
        for changed in self._changed:
            if not changed.done():
                changed.set_result(None)

    def is_stopped(self) -> bool:
        """Whether the stop was asked for."""
        return self.stopped

    async def wait_stopped(self) -> None:
        """Return once the stop was asked for."""
        self.waits += 1
        self.waiting += 1
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.append(changed)
        try:
            if not self.stopped:
                await changed
        finally:
            self._changed.remove(changed)
            self.waiting -= 1


class RaisingStop(ForeignStop):
    """A foreign signal whose wait ends with an error."""

    async def wait_stopped(self) -> None:
        """Fail."""
        self.waits += 1
        msg = "the line is dead"
        raise OSError(msg)


class HastyStop(ForeignStop):
    """A foreign signal whose wait returns at once although nothing is stopped."""

    async def wait_stopped(self) -> None:
        """Return too early."""
        self.waits += 1
