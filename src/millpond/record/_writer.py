"""The thread that writes a record: it takes all there is, commits it, and says how far it got."""

import asyncio
import logging
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from millpond._base import start_thread
from millpond.errors import RecordError
from millpond.record._schema import RunState
from millpond.record._store import Contents, Ending, Entry, Store

logger = logging.getLogger("millpond.record")

# Bounds the share of the loop that hearing of one batch takes, and the first wait in a flood.
_MOST_PER_BATCH: Final = 5_000


@final
@dataclass(frozen=True, slots=True)
class Opened:
    """The store is open."""

    contents: Contents


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """The store could not be opened; the thread has ended."""

    error: RecordError


@final
@dataclass(frozen=True, slots=True)
class Written:
    """These entries are on disk, and so is everything before them."""

    batch: Sequence[Entry]


@final
@dataclass(frozen=True, slots=True)
class Dropped:
    """These entries are lost, and so is everything after them."""

    batch: Sequence[Entry]
    error: RecordError


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """The file is closed, and the thread has ended."""

    error: RecordError | None
    """Why the state of the run could not be written, if it could not."""


Message: TypeAlias = Opened | Refused | Written | Dropped | Ended


@final
class Writer:
    """Runs a `Store` on a thread of its own.

    Args:
        opening: Called in the thread; returns the open store and what was in it.
    """

    def __init__(self, opening: Callable[[], tuple[Store, Contents]]) -> None:
        self._opening = opening
        self._queue: queue.SimpleQueue[Entry | Ending] = queue.SimpleQueue()

    def start(
        self, name: str, loop: asyncio.AbstractEventLoop, hear: Callable[[Message], None]
    ) -> None:
        """Start the thread.

        Args:
            name: Shown in the thread's name.
            loop: Where *hear* is called.
            hear: Called with one message after the other.
        """

        def tell(message: Message) -> None:
            try:
                loop.call_soon_threadsafe(hear, message)
            except RuntimeError:
                # The loop was closed while the thread worked: nobody is left to tell.
                return

        start_thread(f"record-{name}", lambda: self._run(tell))

    def put(self, entry: Entry | Ending) -> None:
        """Hand over an entry, or the end, after which comes nothing. Never blocks."""
        self._queue.put(entry)

    def _run(self, tell: Callable[[Message], None]) -> None:
        try:
            store, contents = self._opening()
        except Exception as error:  # noqa: BLE001 - every end of the thread must be heard of
            tell(Refused(_as_record_error(error)))
            return
        tell(Opened(contents))
        failure: RecordError | None = None
        ending: Ending | None = None
        while ending is None:
            batch, ending = self._take()
            if not batch:
                continue
            if failure is None:
                failure = self._write(store, batch)
            if failure is None:
                tell(Written(batch))
            else:
                tell(Dropped(batch, failure))
        if failure is not None:
            # Whatever the caller thinks: a run whose record has a gap is not finished.
            ending = Ending(state=RunState.FAILED, reason=str(failure))
        tell(Ended(_close(store, ending, failure)))

    def _take(self) -> tuple[list[Entry], Ending | None]:
        """Wait for something, and take what has come by then."""
        batch: list[Entry] = []
        waiting = 1
        while waiting:
            entry = self._queue.get()
            if isinstance(entry, Ending):
                return batch, entry
            batch.append(entry)
            waiting = min(self._queue.qsize(), _MOST_PER_BATCH - len(batch))
        return batch, None

    def _write(self, store: Store, batch: Sequence[Entry]) -> RecordError | None:
        try:
            store.write(batch)
        except Exception as error:  # noqa: BLE001 - the same
            failure = _as_record_error(error, store)
            logger.error("from now on nothing is recorded: %s", failure)  # noqa: TRY400 - it says all
            return failure
        return None


def _close(store: Store, ending: Ending, failure: RecordError | None) -> RecordError | None:
    """Close *store*; return what went wrong, unless it is the old *failure* over again."""
    try:
        store.close(ending)
    except Exception as error:  # noqa: BLE001 - the same
        if failure is None:
            found = _as_record_error(error, store)
            logger.error("the record was not closed as it should be: %s", found)  # noqa: TRY400 - it says all
            return found
    return None


def _as_record_error(error: Exception, store: Store | None = None) -> RecordError:
    if isinstance(error, RecordError):
        return error
    what = f"the record's thread failed with {type(error).__name__}: {error}"
    found = RecordError(what, path=store.path if store else "not open yet")
    found.__cause__ = error
    return found
