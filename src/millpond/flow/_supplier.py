"""Making T, whether `supply` is an async function or an async context manager."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from typing import Generic, TypeAlias, TypeVar

from millpond.errors import UsageError
from millpond.flow._disposal import Discard

T = TypeVar("T")

logger = logging.getLogger("millpond.flow")

Supply: TypeAlias = Callable[[], Awaitable[T] | AbstractAsyncContextManager[T]]


class Made(Generic[T]):
    """A T, and how to dispose of it."""

    __slots__ = ("_discard", "resource")

    def __init__(self, resource: T, discard: Discard[T] | None) -> None:
        self.resource = resource
        self._discard = discard

    def dispose(self) -> Awaitable[object] | None:
        """Begin the disposal; the result is awaited where there is one."""
        return None if self._discard is None else self._discard(self.resource)

    def __repr__(self) -> str:
        return repr(self.resource)


class Supplier(Generic[T]):
    """Calls `supply`, and counts what comes of it."""

    def __init__(self, supply: Supply[T], discard: Discard[T] | None) -> None:
        self._supply = supply
        self._discard = discard
        self._keepers: set[asyncio.Task[None]] = set()
        self.made = 0

    async def make(self) -> Made[T]:
        """Return a new T.

        Cancellation:
            Passed on to `supply`. A context manager that had just been entered is left.
        """
        work = self._supply()
        if isinstance(work, AbstractAsyncContextManager):
            if self._discard is not None:
                msg = (
                    "`supply` is a context manager, whose exit disposes of T; leave out `discard_t`"
                )
                raise UsageError(msg)
            made = await self._enter(work)
        elif isawaitable(work):
            made = Made(await work, self._discard)
        else:
            msg = (
                f"`supply` must be an async function or return an async context manager,"
                f" but {self._supply!r} returned {work!r}"
            )
            raise UsageError(msg)
        self.made += 1
        return made

    @property
    def keepers(self) -> frozenset["asyncio.Task[None]"]:
        """The tasks that keep context managers entered."""
        return frozenset(self._keepers)

    async def _enter(self, manager: AbstractAsyncContextManager[T]) -> Made[T]:
        """Enter *manager* in a task that lives as long as the T, and leaves it too.

        One task for both, because what a manager holds inside (a timeout, a task group)
        must be left by the task that entered it.
        """
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[T] = loop.create_future()
        leave: asyncio.Future[None] = loop.create_future()
        keeper = asyncio.create_task(_keep(manager, entered, leave), name="millpond-keeper")
        keeper.add_done_callback(_look_at_error)
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)

        async def discard(_: T) -> None:
            if not leave.done():
                leave.set_result(None)
            await keeper

        try:
            resource = await entered
        except BaseException:
            # Not entered yet: the cancel reaches `__aenter__`. Entered in this very tick:
            # it reaches the body, and the manager is left.
            if not leave.done():  # else it is on its way out, which nothing may interrupt
                keeper.cancel()
            raise
        return Made(resource, discard)


def _look_at_error(keeper: "asyncio.Task[None]") -> None:
    """Log what nobody else can be told: leaving failed after the cancel of the entering."""
    if not keeper.cancelled() and (error := keeper.exception()) is not None:
        logger.error("leaving the context manager of a T raised %r", error)


async def _keep(
    manager: AbstractAsyncContextManager[T],
    entered: "asyncio.Future[T]",
    leave: "asyncio.Future[None]",
) -> None:
    try:
        async with manager as resource:
            if entered.cancelled():
                leave.set_result(None)
                return
            entered.set_result(resource)
            await leave
    except BaseException as error:
        if entered.done():
            raise  # on leaving: the disposal that waits for this task reports it
        entered.set_exception(error)
        if not isinstance(error, Exception):
            raise
