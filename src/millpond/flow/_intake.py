"""Pulling items from the source, one at a time and only when one is wanted.

Invariants:
    K1  No item is pulled before somebody is there to take it and there is room for its
        outcome: that is the back-pressure.
    K2  The source is pulled by one task, in one context, by a plain ``await anext(...)``,
        and is closed by that task.
    K3  An item that was pulled is opened at once; whoever does not take it leaves it open.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from millpond._base import Deadline, TurnQueue
from millpond.errors import DeadlineError, Stopped
from millpond.flow._outcomes import Entry
from millpond.sync import Notify, Stop, wait_until

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]

CLOSE_SECONDS = 5.0
"""How long a source may take to close."""

logger = logging.getLogger("millpond.flow")


class Intake(Generic[I]):
    """Hands items of a source to those who ask for one.

    Args:
        items: Any iterable or async iterable.
        open_item: Opens an item in the context that was current when it was pulled.
        has_room: Whether another item may be pulled.
        on_closed: Called once, when no more items will come.
    """

    def __init__(
        self,
        items: Iterable[I] | AsyncIterable[I],
        *,
        open_item: Callable[[I, contextvars.Context], Entry[I] | None],
        has_room: Callable[[], bool],
        on_untaken: Callable[[Entry[I]], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._source = (
            aiter(items) if isinstance(items, AsyncIterable) else _async_iterator(iter(items))
        )
        self._open_item = open_item
        self._has_room = has_room
        self._on_untaken = on_untaken
        self._on_closed = on_closed
        self.closing = False
        self._wanted = Notify()
        self._line: TurnQueue[None, Entry[I]] = TurnQueue(
            take_back=_leave_open, serve=self.look_again, owner="Intake"
        )
        self.closed = Stop()
        """Stopped when no more items will come."""
        self.error: BaseException | None = None
        """What the source raised."""

    async def next(self) -> Entry[I]:
        """Return the next item.

        Raises:
            Stopped: When no more will come.

        Cancellation:
            Safe: an item that was handed over and not received stays open.

        Ordering:
            First come, first served.
        """
        if self.closed.is_stopped():
            raise Stopped(self.closed.reason)
        self._wanted.notify_one()
        # No `stop` here: it would take an item back that was handed over just before the
        # source ended. `close` sends away only those who have none.
        return await self._line.turn(None, stop=None)

    def look_again(self) -> None:
        """Say that there may be room now."""
        self._wanted.notify_one()

    async def pull(self) -> None:
        """Pull until the source ends or raises. The body of the one pulling task.

        Cancellation:
            Ends the pulling, and closes the source.
        """
        try:
            while not self.closed.is_stopped():
                await wait_until(self._wanted, lambda: len(self._line) and self._has_room())
                try:
                    item = await anext(self._source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                    self.error = error  # of its own account: a failure, not our cancel
                    return
                except Exception as error:  # noqa: BLE001 - the run reports it as SourceFailed
                    self.error = error
                    return
                entry = self._open_item(item, contextvars.copy_context())
                if entry is None:
                    continue
                if len(self._line):
                    self._line.hand(entry)
                else:
                    self._on_untaken(entry)  # the takers were sent away while it was pulled
        finally:
            self.closing = True
            self.close("the source ended")
            await self._close_source()

    def close(self, reason: str) -> None:
        """Take no more items, and send away those who wait for one."""
        if not self.closed.is_stopped():
            self.closed.stop(reason)
            self._line.dismiss(Stopped(reason))
            self._on_closed()

    async def _close_source(self) -> None:
        close: Callable[[], Any] | None = getattr(self._source, "aclose", None)
        if close is None:
            return
        try:
            with Deadline("closing the source", CLOSE_SECONDS):
                await close()
        except DeadlineError as error:
            logger.error("%s", error)  # noqa: TRY400 - the message says it all
        except Exception:
            logger.exception("closing the source raised")


def _leave_open(entry: Entry[Any]) -> None:
    """Do nothing with an item whose taker was cancelled: the end of the run ends it."""


async def _async_iterator(items: Iterator[I]) -> AsyncIterator[I]:
    for item in items:
        yield item
