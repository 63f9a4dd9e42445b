"""Every item that was pulled, until somebody has read its outcome.

Invariants:
    O1  Every entry that was opened gets exactly one outcome.
    O2  An outcome is read only after its journal has committed it, or has failed to,
        which ``recorded`` then says.
    O3  Cancelling a reader loses no outcome.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from millpond._base import Outcome, Recalled, Status, loop_time
from millpond.errors import InputError, InvariantViolated, RecordError
from millpond.flow._journal import Journal
from millpond.flow._limiter import Limiter
from millpond.sync import Notify, wait_until

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
V = TypeVar("V")

logger = logging.getLogger("millpond.flow")

QUEUED = "queued"


@dataclass(slots=True, eq=False)
class Entry(Generic[I]):
    """An item on its way."""

    number: int
    item: I
    key: str
    """Its name in the journal, and in messages."""
    context: Context
    """Current when the item was pulled; its stages run in it."""
    opened_at: float
    journaled: bool = False
    stage: str = QUEUED
    worker: "asyncio.Task[Any] | None" = None
    """Whose stage it is in, for naming those who do not obey."""
    paired: bool = False
    ended: bool = False
    timings: dict[str, float] = field(default_factory=dict[str, float])


class Outcomes(Generic[I, V]):
    """Opens entries, ends them, and hands their outcomes out in the order of their ends.

    Args:
        journal: Where ends are recorded. None: nowhere.
        key: Names an item in the journal; needed with one.
        max_unread: Outcomes that may lie unread before no more items are pulled.
        on_change: Called after every opening and every end.
        on_read: Called when an outcome was read.
    """

    def __init__(
        self,
        *,
        journal: Journal | None,
        key: Callable[[I], object] | None,
        max_unread: int,
        on_change: Callable[[], None],
        on_read: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._key = key
        self._max_unread = max_unread
        self._on_change = on_change
        self._on_read = on_read
        self._open: dict[int, Entry[I]] = {}
        self._keys: set[str] = set()
        self._unread: deque[tuple[Entry[I], Outcome[I, V]]] = deque()
        self._readable = Notify()
        self._reader = Limiter(1, name="reader of outcomes")
        self._closed = False
        self.pulled = 0
        self.unpaired = 0
        self.unrecorded = 0
        self.by_status: Counter[Status] = Counter()

    def open(self, item: I, context: Context) -> Entry[I] | None:
        """Begin with *item*. None when it ended at once, for want of a usable key."""
        self.pulled += 1
        entry = Entry(self.pulled, item, str(self.pulled), context, loop_time())
        self._open[entry.number] = entry
        self.unpaired += 1
        try:
            self._name(entry)
        except Exception as error:  # noqa: BLE001 - a failure of the item, as any other
            self.finish(entry, Status.FAILED, stage="key", error=error)
            return None
        self._on_change()
        return entry

    def _name(self, entry: Entry[I]) -> None:
        if self._key is None:
            return
        key = self._key(entry.item)  # promised to be a str; checked, because it is the user's
        if not isinstance(key, str):
            msg = f"`key` must return a str, got {key!r}"
            raise InputError(msg, where=f"item {entry.number}")
        if key in self._keys:
            msg = f"the key {key!r} was used by an earlier item"
            raise InputError(msg, where=f"item {entry.number}", hint="make keys unique")
        self._keys.add(key)
        entry.key = key
        entry.journaled = self._journal is not None

    def recall(self, entry: Entry[I]) -> Recalled[Any]:
        """Return what the journal left of an earlier run."""
        if self._journal is not None and entry.journaled:
            return self._journal.recall(entry.key) or Recalled()
        return Recalled()

    def keep_answer(self, entry: Entry[I], answer: object) -> None:
        """Record an answer in the moment it returns."""
        if self._journal is not None and entry.journaled:
            try:
                self._journal.answer(entry.key, answer)
            except RecordError as error:
                logger.error("the answer of %s was not recorded: %s", entry.key, error)  # noqa: TRY400 - the message says it all

    def pair(self, entry: Entry[I]) -> None:
        """Note that *entry* has got its T."""
        entry.paired = True
        self.unpaired -= 1

    def finish_again(self, entry: Entry[I], finished: Outcome[Any, Any]) -> None:
        """End *entry* as the journal says it ended in an earlier run."""
        self._end(entry, replace(finished, item=entry.item, recorded=True))

    def finish(  # noqa: PLR0913 - the facts of an outcome
        self,
        entry: Entry[I],
        status: Status,
        *,
        stage: str,
        value: V | None = None,
        layer: str = "",
        error: BaseException | None = None,
        reason: str = "",
    ) -> None:
        """End *entry*: the one time this happens."""
        self._refuse_second_end(entry)
        if not reason and error is not None:
            reason = f"{type(error).__name__}: {error}"
        entry.timings["total"] = loop_time() - entry.opened_at
        outcome: Outcome[I, V] = Outcome(
            item=entry.item,
            status=status,
            value=value,
            stage=stage,
            layer=layer,
            error=error,
            degraded_reason=reason,
            timings=dict(entry.timings),
        )
        if self._journal is not None and entry.journaled:
            try:
                self._journal.finish(entry.key, outcome)
            except Exception as failure:  # noqa: BLE001 - the item ends all the same
                entry.journaled = False
                self._say_unrecorded(entry, failure)
        self._end(entry, outcome)

    def _end(self, entry: Entry[I], outcome: Outcome[I, V]) -> None:
        self._refuse_second_end(entry)
        entry.ended = True
        if not entry.paired:
            self.unpaired -= 1
        del self._open[entry.number]
        self.by_status[outcome.status] += 1
        self._unread.append((entry, outcome))
        self._readable.notify_one()
        self._on_change()

    def _refuse_second_end(self, entry: Entry[I]) -> None:
        if entry.ended:
            raise InvariantViolated("O1 one outcome per item", {"key": entry.key})

    @property
    def open_entries(self) -> tuple[Entry[I], ...]:
        """What has no outcome yet, the oldest first."""
        return tuple(self._open.values())

    @property
    def open_count(self) -> int:
        """How many have no outcome yet."""
        return len(self._open)

    @property
    def unread_count(self) -> int:
        """How many outcomes nobody has read."""
        return len(self._unread)

    def has_room(self) -> bool:
        """Whether another item may be pulled."""
        return len(self._unread) < self._max_unread

    def close(self) -> None:
        """Say that no more outcomes come."""
        self._closed = True
        self._readable.notify_waiters()

    async def read(self) -> Outcome[I, V] | None:
        """Return the next outcome, or None when all were read and no more come.

        Cancellation:
            Safe: the outcome stays for the next reader (O3).

        Ordering:
            In the order of the ends; readers take turns, first come first served.
        """
        async with self._reader:
            await wait_until(self._readable, lambda: self._unread or self._closed)
            if not self._unread:
                return None
            entry, outcome = self._unread[0]
            if self._journal is not None and entry.journaled and not outcome.recorded:
                try:
                    await self._journal.committed(entry.key)
                    outcome = replace(outcome, recorded=True)
                except RecordError as error:
                    self._say_unrecorded(entry, error)
            self._unread.popleft()
            self._on_read()
            return outcome

    def _say_unrecorded(self, entry: Entry[I], error: Exception) -> None:
        self.unrecorded += 1
        logger.error("the outcome of %s was not recorded: %s", entry.key, error)
