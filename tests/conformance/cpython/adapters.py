"""Stand-ins for classes of asyncio, made of ours, so that CPython's own tests can judge them.

They are thin on purpose: what decides who is served, and what a cancel leaves behind, is a
`Limiter`, a `Notify` or a `Channel`. The private names are those that the tests look at.
"""

import asyncio
import contextlib
import math
from collections.abc import Iterator
from types import GenericAlias, TracebackType
from typing import Generic, TypeVar

from millpond.errors import Closed, WouldBlock
from millpond.flow import Limiter, Permit
from millpond.sync import Channel, Notify, wait_until

V = TypeVar("V")


class QueueShutDown(Exception):
    """What asyncio has from 3.13 on."""


class Waiter:
    """A caller that waits, with as much of a future as the tests ask for."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()

    def cancelled(self) -> bool:
        """Whether its cancel was asked for."""
        return self._task is not None and self._task.cancelling() > 0

    def done(self) -> bool:
        """Whether it will wait no longer."""
        return self.cancelled()


class Waiting:
    """A list of those who wait, as asyncio's own classes keep one."""

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    @contextlib.contextmanager
    def _listed(self) -> Iterator[None]:
        waiter = Waiter()
        self._waiters.append(waiter)
        try:
            yield
        finally:
            self._waiters.remove(waiter)

    def _state(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        count = f", waiters:{len(self._waiters)}" if self._waiters else ""
        return f"<{type(self).__name__} object at {id(self):#x} [{self._state()}{count}]>"


class OnLimiter(Waiting):
    """What semaphores and locks share: a limiter whose permits belong to no task."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self._limiter = Limiter(max(value, 1))
        self._out: list[Permit] = []
        # A limiter of no permits there is not, and one is taken only in a running loop.
        self._is_unopened = value == 0

    async def acquire(self) -> bool:
        """Take a permit, and return True."""
        self._open()
        with self._listed():
            permit = await self._limiter.acquire()
        permit.hand_over("nobody")
        self._out.append(permit)
        return True

    def locked(self) -> bool:
        """Whether a caller would have to wait."""
        now = self._limiter.statistics()
        return self._value == 0 or now.queued > 0 or now.granted > 0

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give a permit back, or add one if none is out."""
        self._open()
        if self._out:
            self._out.pop().release()
        else:
            self._limiter.resize(self._limiter.capacity + 1)

    @property
    def _value(self) -> int:
        return 0 if self._is_unopened else self._limiter.statistics().free

    def _open(self) -> None:
        if self._is_unopened:
            permit = self._limiter.acquire_nowait(label="the value 0")
            permit.hand_over("nobody")
            self._out.append(permit)
            self._is_unopened = False


class Semaphore(OnLimiter):
    """`asyncio.Semaphore` on a `Limiter`."""

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            msg = "Semaphore initial value must be >= 0"
            raise ValueError(msg)
        super().__init__(value)

    def _state(self) -> str:
        return "locked" if self.locked() else f"unlocked, value:{self._value}"


class BoundedSemaphore(Semaphore):
    """`asyncio.BoundedSemaphore` on a `Limiter`, which is always bounded."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)

    def release(self) -> None:
        """Give a permit back; with none out that is a mistake."""
        if not self._out:
            msg = "BoundedSemaphore released too many times"
            raise ValueError(msg)
        super().release()


class Lock(OnLimiter):
    """`asyncio.Lock` on a `Limiter` of one permit."""

    def __init__(self) -> None:
        super().__init__(1)

    def locked(self) -> bool:
        """Whether somebody has it."""
        return bool(self._out)

    def release(self) -> None:
        """Give it back; if nobody has it, that is a mistake."""
        if not self._out:
            msg = "Lock is not acquired."
            raise RuntimeError(msg)
        super().release()

    def _state(self) -> str:
        return "locked" if self.locked() else "unlocked"


class Event(Waiting):
    """`asyncio.Event`: a flag and a `Notify`. It wakes for a flag that has gone again."""

    def __init__(self) -> None:
        super().__init__()
        self._flag = False
        self._changed = Notify()

    def is_set(self) -> bool:
        """Whether the flag is up."""
        return self._flag

    def set(self) -> None:
        """Put the flag up, and wake all who wait."""
        self._flag = True
        self._changed.notify_waiters()

    def clear(self) -> None:
        """Take the flag down."""
        self._flag = False

    async def wait(self) -> bool:
        """Return True once the flag was put up."""
        if not self._flag:
            with self._listed(), self._changed.notified() as armed:
                await armed
        return True

    def _state(self) -> str:
        return "set" if self._flag else "unset"


class Queue(Generic[V]):
    """`asyncio.Queue` on a `Channel`, with a `Notify` for those who join."""

    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[var-annotated] # as asyncio's

    def __init__(self, maxsize: float = 0) -> None:
        self.maxsize = maxsize
        self._channel: Channel[V] = Channel(math.ceil(maxsize) if maxsize > 0 else None)
        self._unfinished_tasks = 0
        self._changed = Notify()

    def qsize(self) -> int:
        """How many items are in it."""
        return self._channel.statistics().buffered

    def empty(self) -> bool:
        """Whether nothing is in it."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether no more goes in."""
        return 0 < self.maxsize <= self.qsize()

    async def put(self, item: V) -> None:
        """Put an item in, waiting for room."""
        try:
            await self._channel.send(item)
        except Closed:
            raise QueueShutDown from None
        self._unfinished_tasks += 1

    def put_nowait(self, item: V) -> None:
        """Put an item in, or refuse."""
        try:
            self._channel.send_nowait(item)
        except WouldBlock:
            raise asyncio.QueueFull from None
        except Closed:
            raise QueueShutDown from None
        self._unfinished_tasks += 1

    async def get(self) -> V:
        """Take an item, waiting for one."""
        try:
            return await self._channel.recv()
        except Closed:
            raise QueueShutDown from None

    def get_nowait(self) -> V:
        """Take an item, or refuse."""
        try:
            return self._channel.recv_nowait()
        except WouldBlock:
            raise asyncio.QueueEmpty from None
        except Closed:
            raise QueueShutDown from None

    def task_done(self) -> None:
        """Say that an item that was taken is dealt with."""
        self._finish(1)

    async def join(self) -> None:
        """Return once all items are dealt with."""
        await wait_until(self._changed, lambda: self._unfinished_tasks == 0)

    def shutdown(self, immediate: bool = False) -> None:  # noqa: FBT002 - as asyncio's
        """Take no more; with *immediate*, drop what is in it."""
        self._channel.close()
        if immediate:
            self._finish(len(self._channel.drain()))

    @property
    def _getters(self) -> list[None]:
        return [None] * self._channel.statistics().receivers

    @property
    def _putters(self) -> list[None]:
        return [None] * self._channel.statistics().senders

    def _finish(self, count: int) -> None:
        if count > self._unfinished_tasks:
            msg = "task_done() called too many times"
            raise ValueError(msg)
        self._unfinished_tasks -= count
        self._changed.notify_waiters()

    def _format(self) -> str:
        tasks = f" tasks={self._unfinished_tasks}" if self._unfinished_tasks else ""
        shut = " shutdown" if self._channel.statistics().closed else ""
        return f"maxsize={self.maxsize}{tasks}{shut}"
