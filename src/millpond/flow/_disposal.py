"""Getting rid of resources: each exactly once, each bounded, none in the dark.

Invariants:
    D1  Whatever was handed to `dispose` is disposed of exactly once.
    D2  ``then`` is called exactly once, when the disposal ended or was given up.
    D3  A disposal that raises or takes too long is counted and logged, and loses no slot.

A disposal may wait, but nobody waits for it inside a clean-up: `dispose` is a plain
``def`` that starts a task owned by the `Disposer`, so no cancel can fall into it.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Generic, TypeAlias, TypeVar, final

from millpond.sync import Notify, wait_until

R = TypeVar("R")

Discard: TypeAlias = Callable[[R], Awaitable[object] | None]

GIVE_UP_AFTER_SECONDS = 1.0
"""How long a disposal may ignore its cancel before it is given up."""

logger = logging.getLogger("millpond.flow")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DisposalStatistics:
    """What a `Disposer` has done so far."""

    running: int
    holding_slots: int
    """Of the running: those whose slot goes back when they end."""
    done: int
    """Ended without an error."""
    failed: int
    """Raised, or took too long."""
    given_up: int
    """Of the failed: still running when it was given up."""

    @property
    def ended(self) -> int:
        """How many are over, however they ended."""
        return self.done + self.failed


@final
class Disposer(Generic[R]):
    """Disposes of resources in tasks of its own.

    Args:
        discard: Plain or async function that disposes of one resource. None: nothing to do.
        timeout: Seconds that one disposal may take before it is cancelled.
        name: What the log calls the resource.
    """

    def __init__(
        self, discard: Discard[R] | None, *, timeout: float = 5.0, name: str = "resource"
    ) -> None:
        self._discard = discard
        self._timeout = timeout
        self._name = name
        # Captured here: a disposal belongs to the run, not to the item that caused it.
        self._context = contextvars.copy_context()
        self._running: set[_Disposal] = set()
        self._changed = Notify()
        self._done = 0
        self._failed = 0
        self._given_up = 0

    def dispose(self, resource: R, then: Callable[[], None] | None = None) -> None:
        """Dispose of *resource*, then call *then*. Returns at once."""
        if self._discard is None:
            self._end(then, None)
            return
        try:
            ending = self._context.copy().run(self._discard, resource)
        except BaseException as error:  # noqa: BLE001 - counted and logged (D3)
            self._end(then, error)
            return
        if not isawaitable(ending):
            self._end(then, None)
            return
        disposal = _Disposal(ending, self, then)
        self._running.add(disposal)
        disposal.start(self._timeout, self._context)

    async def idle(self) -> None:
        """Return once no disposal runs. Each is bounded, so this is too.

        Cancellation:
            Safe. The disposals go on.
        """
        await wait_until(self._changed, lambda: not self._running)

    def statistics(self) -> DisposalStatistics:
        """Return a snapshot."""
        return DisposalStatistics(
            running=len(self._running),
            holding_slots=sum(disposal.then is not None for disposal in self._running),
            done=self._done,
            failed=self._failed,
            given_up=self._given_up,
        )

    def ended(self, disposal: "_Disposal", error: BaseException | None, *, given_up: bool) -> None:
        """Take note of the end of *disposal*. Called by it, once."""
        self._running.discard(disposal)
        self._given_up += given_up
        self._end(disposal.then, error)

    def _end(self, then: Callable[[], None] | None, error: BaseException | None) -> None:
        if error is None:
            self._done += 1
        else:
            self._failed += 1
            logger.error("disposing of a %s failed: %r", self._name, error, exc_info=error)
        if then is not None:
            then()
        self._changed.notify_waiters()


class _Disposal:
    """One disposal that waits: its task, and the timers that bound it."""

    __slots__ = ("_begun", "_context", "_owner", "_task", "_timeout", "_timer", "_work", "then")

    def __init__(
        self,
        work: Awaitable[object],
        owner: Disposer[Any],
        then: Callable[[], None] | None,
    ) -> None:
        self._work = work
        self._owner = owner
        self.then = then
        self._timeout = 0.0
        self._begun = False

    def start(self, timeout: float, context: contextvars.Context) -> None:
        loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._context = context
        self._timer = loop.call_later(timeout, self._too_long)
        self._start_task()

    def _start_task(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name="millpond-disposal", context=self._context.copy()
        )
        self._task.add_done_callback(self._on_done)

    async def _run(self) -> None:
        self._begun = True
        await self._work

    def _too_long(self) -> None:
        loop = asyncio.get_running_loop()
        self._task.cancel()
        self._timer = loop.call_later(GIVE_UP_AFTER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self._task.done():  # in this very turn of the loop: `_on_done` is in the queue
            return
        self._task.remove_done_callback(self._on_done)
        # Keep the task alive, and look at its late error, so that nothing is logged as lost.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        _given_up.add(self._task)
        self._task.add_done_callback(_given_up.discard)
        self._owner.ended(self, self._overdue(), given_up=True)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        if not self._begun:
            # Cancelled before its first step, as by a closing loop: nothing of it ran.
            self._start_task()
            return
        self._timer.cancel()
        error = self._overdue() if task.cancelled() else task.exception()
        self._owner.ended(self, error, given_up=False)

    def _overdue(self) -> TimeoutError:
        return TimeoutError(f"it was cancelled, or took longer than {self._timeout:g} s")


_given_up: set["asyncio.Task[None]"] = set()
"""Disposals that ignore their cancel. Held, because a loop only keeps weak references."""
