"""A number of permits, handed out in the order in which they were asked for.

Invariants:
    F1  ``free + held + granted == capacity`` whenever the loop can switch tasks, where
        *granted* permits were handed to a task that has not run yet. (After `resize` to
        less than is out, *free* is negative until enough came back.)
    F2  A permit goes back exactly once; a second release is an error.
    F3  Nobody overtakes: while anyone queues, or was granted a permit and has not run
        yet, a newcomer queues too. A weighted request waits whole and is granted whole.
    F4  A granted permit whose task was cancelled or stopped before it ran goes to the
        next in line.

Every state change is a plain ``def``, so no task can run in the middle of one and no
lock is needed. A `Limiter` belongs to one event loop.
"""

import asyncio
import sys
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, final

from millpond._base import StopSignal, TurnQueue, at_least, at_least_one, loop_time, reason_of
from millpond.errors import (
    AlreadyReleased,
    Closed,
    LeakWarning,
    NestedAcquire,
    Stopped,
    UsageError,
    WouldBlock,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterStatistics:
    """What a `Limiter` looks like at one moment."""

    capacity: int
    free: int
    """Permits that nobody has. Negative while more are out than `resize` allows."""
    held: int
    """Permits in the hands of somebody."""
    granted: int
    """Permits handed to tasks that have not run yet."""
    queued: int
    """Callers in line."""
    closed: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Somebody who holds permits."""

    label: str
    permits: int
    age: float
    """Seconds since the permits were taken."""


class QueueWatcher(Protocol):
    """Something that can free permits, told when callers want them."""

    def about_to_queue(self) -> None:
        """A caller is about to queue; what can be freed now should be."""

    def nobody_queues(self) -> None:
        """The line is empty."""


# Weak: a task kept alive by its own permit would hide the leak. A task has one such
# reference however often it is asked for, so two of them are compared by identity.
_TaskRef: TypeAlias = weakref.ReferenceType[asyncio.Task[Any]]


class _Want:
    """What a caller in line asks for, and who it is."""

    __slots__ = ("permits", "task")

    def __init__(self, permits: int) -> None:
        self.permits = permits
        self.task = _this_task()


class _Hold:
    """The books' side of a permit: what statistics show of it.

    Made for every permit, so it notes facts and leaves the sentences for later.
    """

    __slots__ = ("_code", "_label", "_line", "permits", "since", "task")

    def __init__(self, permits: int, label: str) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        self.permits = permits
        self.task = None if task is None else weakref.ref(task)
        self.since = loop_time() if task is None else task.get_loop().time()
        self._label = label or ("no task" if task is None else task.get_name())
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals is _THIS_MODULE:
            frame = frame.f_back
        self._code, self._line = frame.f_code, frame.f_lineno

    @property
    def label(self) -> str:
        """Who holds it: as said, else the name of the task."""
        return self._label

    @property
    def where(self) -> str:
        """File and line of the first caller outside this module."""
        return f"{self._code.co_filename}:{self._line}"

    def hand_over(self, label: str) -> None:
        """Belong to something else than the task from now on."""
        self._label = label
        self.task = None


_THIS_MODULE = globals()


@final
class Permit:
    """Proof that permits of a limiter are yours. Made by `Limiter.acquire` only.

    Use it as a context manager, or call `release` once. Dropped unreleased, it warns
    with the place where it was taken, and stays out: the work that it stood for may
    still be going on.
    """

    __slots__ = ("_give_back", "_hold", "_name")

    def __init__(self, name: str, hold: _Hold, give_back: Callable[[_Hold], None]) -> None:
        self._name = name
        self._hold = hold
        self._give_back: Callable[[_Hold], None] | None = give_back

    @property
    def permits(self) -> int:
        """How many permits this one stands for."""
        return self._hold.permits

    @property
    def label(self) -> str:
        """What the books call the holder."""
        return self._hold.label

    @property
    def age(self) -> float:
        """Seconds since it was taken."""
        return loop_time() - self._hold.since

    def hand_over(self, label: str) -> None:
        """Pass the permit from the task that took it to something that outlives it."""
        self._hold.hand_over(label)

    def release(self) -> None:
        """Give the permit back and serve the line.

        Raises:
            AlreadyReleased: On the second call.
        """
        if self._give_back is None:
            raise AlreadyReleased(self)
        self._give_back(self._hold)
        self._give_back = None  # afterwards: what was refused can still be released

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if self._give_back is not None:
            warnings.warn(
                f"{self!r} was dropped without being released; use it in a `with`",
                LeakWarning,
                stacklevel=1,
                source=self,
            )

    def __repr__(self) -> str:
        state = "released" if self._give_back is None else "held"
        count = "" if self.permits == 1 else f"{self.permits} x "
        return f"<Permit {count}{self._name!r} of {self.label}, {state}, from {self._hold.where}>"


@final
class Limiter:
    """Lets at most *capacity* permits be out at once, first come first served.

    Args:
        capacity: Permits, at least 1.
        name: Shown in errors, statistics and diagnosis.
        max_queued: Callers that may queue; one more is refused with `WouldBlock`.
            None lets any number queue.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     limiter = Limiter(2, name="llm")
        ...     async with limiter:
        ...         with await limiter.acquire(label="summary"):
        ...             print(limiter)
        >>> asyncio.run(main())
        <Limiter 'llm' 2/2 out, 0 queued>
    """

    __slots__ = (
        "_capacity",
        "_closed",
        "_entered",
        "_free",
        "_holds",
        "_max_queued",
        "_queue",
        "_watcher",
        "name",
    )

    def __init__(
        self, capacity: int, *, name: str | None = None, max_queued: int | None = None
    ) -> None:
        at_least_one("capacity", capacity)
        if max_queued is not None:
            at_least(0, "max_queued", max_queued)
        self.name = name or "limiter"
        self._capacity = capacity
        self._free = capacity
        self._closed = False
        self._max_queued = max_queued
        self._holds: dict[_Hold, None] = {}
        self._queue: TurnQueue[_Want, int] = TurnQueue(
            take_back=self._put_back, serve=self._serve, owner=f"Limiter {self.name!r}"
        )
        # Permits taken by `async with limiter`, latest last, by the task that took them.
        self._entered: dict[_TaskRef | None, list[Permit]] = {}
        self._watcher: QueueWatcher | None = None

    @property
    def capacity(self) -> int:
        """How many permits exist."""
        return self._capacity

    def acquire_nowait(self, n: int = 1, *, label: str = "") -> Permit:
        """Take *n* permits, or refuse at once.

        Raises:
            WouldBlock: If not enough are free, or somebody's turn comes first (F3).
            Closed: After `close`.
            UsageError: If *n* exceeds the capacity.
        """
        self._check(n)
        if n > self._free or self._queue.busy:
            raise WouldBlock
        # The hold first: without a running loop it raises, and nothing may be out then.
        hold = _Hold(n, label)
        self._free -= n
        return self._permit(hold)

    async def acquire(
        self, n: int = 1, *, label: str = "", stop: StopSignal | None = None
    ) -> Permit:
        """Take *n* permits, queueing for them if need be.

        Does not yield to the loop when they are free.

        Args:
            n: Permits, granted all together or not at all.
            label: What the books call the holder; the task's name unless said.
            stop: Ends the wait.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: After `close`, also for those who queue already.
            WouldBlock: If `max_queued` callers queue already.
            NestedAcquire: If this task holds permits without which *n* can never be free.
            UsageError: If *n* exceeds the capacity, or what it shrinks to.

        Cancellation:
            Safe. A queued caller loses its place; a caller cancelled after its turn
            came gives the permits to the next in line.

        Ordering:
            Permits go out in the order of the calls. Stop beats grant. A caller whose
            *stop* is foreign (not a `Stop`) resumes a turn of the loop later.
        """
        self._check(n)
        if stop is not None and stop.is_stopped():
            raise Stopped(reason_of(stop))
        if n <= self._free and not self._queue.busy:
            self._free -= n
        else:
            await self._line_up(n, stop)
        return self._permit(_Hold(n, label))

    def hold(self, n: int = 1, *, label: str = "", stop: StopSignal | None = None) -> "_Held":
        """Return an async context manager that holds *n* permits for its block.

        Entering waits as `acquire` does; leaving does not wait.
        """
        return _Held(self, n, label, stop)

    def close(self) -> None:
        """Take no more callers and send away those who queue. Permits out come home."""
        self._queue.check_thread()
        self._closed = True
        self._queue.dismiss(Closed(repr(self.name)))

    def resize(self, capacity: int) -> None:
        """Change how many permits exist. Nobody loses one that is out.

        Callers in line who want more than the new capacity get a `UsageError`.
        """
        at_least_one("capacity", capacity)
        self._queue.check_thread()
        self._free += capacity - self._capacity
        self._capacity = capacity
        self._queue.dismiss(
            UsageError(
                f"{self.name!r} shrank to {capacity} permits, too few for what was asked for"
                f" (and what the same task holds)"
            ),
            hopeless=lambda want: want.permits + self._held_by(want.task) > capacity,
        )
        self._serve()

    def statistics(self) -> LimiterStatistics:
        """Return a snapshot. It never changes afterwards."""
        out = self._capacity - self._free
        held = sum(hold.permits for hold in self._holds)
        return LimiterStatistics(
            capacity=self._capacity,
            free=self._free,
            held=held,
            granted=out - held,
            queued=len(self._queue),
            closed=self._closed,
        )

    def holders(self) -> tuple[Holder, ...]:
        """Return who holds permits, the oldest first."""
        now = loop_time()
        return tuple(
            Holder(label=hold.label, permits=hold.permits, age=now - hold.since)
            for hold in self._holds
        )

    def watch_queue(self, watcher: QueueWatcher) -> None:
        """Tell *watcher* when callers want to queue, and when nobody does. There may be one.

        Raises:
            UsageError: If there is one already.
        """
        if self._watcher is not None:
            msg = f"{self.name!r} serves another inventory already; give each its own limiter"
            raise UsageError(msg)
        self._watcher = watcher

    async def __aenter__(self) -> Permit:
        permit = await self.acquire()
        self._entered.setdefault(permit._hold.task, []).append(permit)
        return permit

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        task = _this_task()
        stack = self._entered.get(task)
        if not stack:
            msg = (
                f"`async with` of {self.name!r} is left by a task that did not enter it;"
                f" use `limiter.hold()` for blocks that change hands"
            )
            raise UsageError(msg)
        permit = stack.pop()
        if not stack:
            del self._entered[task]
        permit.release()

    def __repr__(self) -> str:
        out = self._capacity - self._free
        return f"<Limiter {self.name!r} {out}/{self._capacity} out, {len(self._queue)} queued>"

    async def _line_up(self, n: int, stop: StopSignal | None) -> None:
        if self._max_queued is not None and len(self._queue) >= self._max_queued:
            raise WouldBlock
        want = _Want(n)
        self._refuse_nested(want)
        if self._watcher is None:
            await self._queue.turn(want, stop=stop)
            return
        self._watcher.about_to_queue()
        try:
            if n <= self._free and not self._queue.busy:
                self._free -= n
            else:
                await self._queue.turn(want, stop=stop)
        finally:
            if not len(self._queue):
                self._watcher.nobody_queues()

    def _permit(self, hold: _Hold) -> Permit:
        self._holds[hold] = None
        return Permit(self.name, hold, self._take_back)

    def _take_back(self, hold: _Hold) -> None:
        self._queue.check_thread()
        del self._holds[hold]
        self._put_back(hold.permits)
        self._serve()

    def _put_back(self, n: int) -> None:
        self._free += n

    def _serve(self) -> None:
        while len(self._queue) and (n := self._queue.head().permits) <= self._free:
            self._free -= n
            self._queue.hand(n)

    def _check(self, n: int) -> None:
        if n.__class__ is not int or n < 1:
            at_least_one("n", n)
        if self._closed:
            raise Closed(repr(self.name))
        if n > self._capacity:
            msg = f"{n} permits of {self.name!r} were asked for, but only {self._capacity} exist"
            raise UsageError(msg)

    def _refuse_nested(self, want: "_Want") -> None:
        own = self._held_by(want.task)
        if not own:
            return
        # Who stands before us is served before us: what blocks them for ever blocks us.
        most = max([want.permits, *(other.permits for other in self._queue.wants())])
        if own + most > self._capacity:
            raise NestedAcquire(limiter=self.name, asked=most, held=own, capacity=self._capacity)

    def _held_by(self, task: _TaskRef | None) -> int:
        if task is None:
            return 0
        return sum(hold.permits for hold in self._holds if hold.task is task)


class _Held:
    """The block of `Limiter.hold`."""

    __slots__ = ("_entered", "_label", "_limiter", "_n", "_permit", "_stop")

    def __init__(self, limiter: Limiter, n: int, label: str, stop: StopSignal | None) -> None:
        self._limiter = limiter
        self._n = n
        self._label = label
        self._stop = stop
        self._permit: Permit | None = None
        self._entered = False

    async def __aenter__(self) -> Permit:
        if self._entered:
            msg = "this `hold` was entered already; call `limiter.hold()` for each block"
            raise UsageError(msg)
        self._entered = True  # before the wait: two tasks might come at once
        self._permit = await self._limiter.acquire(self._n, label=self._label, stop=self._stop)
        return self._permit

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._permit is not None:
            self._permit.release()


def _this_task() -> "weakref.ref[asyncio.Task[Any]] | None":
    # Weak: a task kept alive by its own permit would hide the leak.
    task: asyncio.Task[Any] | None = asyncio.current_task()
    return None if task is None else weakref.ref(task)
