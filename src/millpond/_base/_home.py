"""The loop and the thread that something belongs to, once it was waited for."""

import asyncio
import threading
from typing import TypeAlias

from millpond.errors import UsageError

Parked: TypeAlias = "asyncio.Future[None]"
"""What a sleeping caller awaits; whoever wakes it completes it with None."""


class Home:
    """Binds its owner to the first loop in which somebody waits for it.

    A future belongs to one loop and must be completed in that loop's thread. Completed
    from elsewhere it would wake nobody, and the waiter would sleep on; so that is an
    error here.

    Args:
        owner: What messages call the owner.
    """

    __slots__ = ("_loop", "_owner", "_thread")

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def new_parked(self) -> Parked:
        """Return a future to park on.

        Raises:
            UsageError: In any loop but the one in which this was first called.
        """
        loop = self._loop
        # A thread runs one loop at a time, so this is the running one. Asking asyncio for
        # it would cost as much as all the rest (3.11 looks up the process id).
        if loop is not None and threading.get_ident() == self._thread and loop.is_running():
            return loop.create_future()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_in(loop)
        return loop.create_future()

    def adopt(self, parked: Parked) -> None:
        """Bind to the loop of a future that somebody else made.

        Raises:
            UsageError: If it is another one than before.
        """
        loop = parked.get_loop()
        if loop is not self._loop:
            self._move_in(loop)

    def check_thread(self) -> None:
        """Refuse a change from outside the loop's thread, or after the loop was closed.

        Raises:
            UsageError: With what to call instead.
        """
        if self._loop is None:
            return
        here = threading.get_ident()
        if here != self._thread:
            if asyncio._get_running_loop() is self._loop:  # the loop moved: run by another thread
                self._thread = here
                return
            msg = (
                f"this {self._owner} belongs to an event loop in another thread, which would"
                f" not notice; use millpond.sync.publish_threadsafe(loop, change, notify)"
            )
            raise UsageError(msg)
        if self._loop.is_closed():
            raise UsageError(self._closed())

    def _move_in(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            if self._loop.is_closed():
                raise UsageError(self._closed())
            msg = f"this {self._owner} is used in another event loop; make one for each loop"
            raise UsageError(msg)
        self._loop = loop
        self._thread = threading.get_ident()

    def _closed(self) -> str:
        return f"the event loop of this {self._owner} was closed; make a new one for each loop"
