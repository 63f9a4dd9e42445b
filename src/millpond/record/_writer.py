"""The thread that writes a record: it takes all there is, commits it, and says how far it got."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from millpond._base import start_batch_thread
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


Opening: TypeAlias = Callable[[], tuple[Store, Contents]]


@final
class Writer:
    """Runs a `Store` on a thread of its own.

    Args:
        opening: Called in the thread; returns the open store and what was in it.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._put: Callable[[Opening | Entry | Ending], None] | None = None
        # The rest belongs to the thread.
        self._store: Store | None = None
        self._failure: RecordError | None = None

    def start(
        self, name: str, loop: asyncio.AbstractEventLoop, hear: Callable[[Message], None]
    ) -> None:
        """Start the thread. Once.

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

        def work(batch: list[Opening | Entry | Ending]) -> bool:
            return self._work(batch, tell)

        self._put = start_batch_thread(f"record-{name}", work, most=_MOST_PER_BATCH)
        self._put(self._opening)

    def put(self, entry: Entry | Ending) -> None:
        """Hand over an entry, or the end, after which comes nothing. Never blocks."""
        assert self._put is not None  # noqa: S101 - a record starts its writer before all else
        self._put(entry)

    def _work(
        self, batch: Sequence[Opening | Entry | Ending], tell: Callable[[Message], None]
    ) -> bool:
        """Do all that is in *batch*. Return whether more is to come."""
        entries: list[Entry] = []
        ending: Ending | None = None
        for asked in batch:
            if isinstance(asked, Entry):
                entries.append(asked)
            elif isinstance(asked, Ending):
                ending = asked
                break
            elif not self._open(asked, tell):  # the first of all
                return False
        if entries:
            self._write(entries, tell)
        if ending is None:
            return True
        self._close(ending, tell)
        return False

    def _open(self, opening: Opening, tell: Callable[[Message], None]) -> bool:
        try:
            self._store, contents = opening()
        except Exception as error:  # noqa: BLE001 - every end of the thread must be heard of
            tell(Refused(_as_record_error(error)))
            return False
        tell(Opened(contents))
        return True

    def _write(self, entries: Sequence[Entry], tell: Callable[[Message], None]) -> None:
        assert self._store is not None  # noqa: S101 - `_work` ends where it was not opened
        if self._failure is None:
            try:
                self._store.write(entries)
            except Exception as error:  # noqa: BLE001 - the same
                self._failure = _as_record_error(error, self._store)
                logger.error("from now on nothing is recorded: %s", self._failure)  # noqa: TRY400 - it says all
        if self._failure is None:
            tell(Written(entries))
        else:
            tell(Dropped(entries, self._failure))

    def _close(self, ending: Ending, tell: Callable[[Message], None]) -> None:
        assert self._store is not None  # noqa: S101 - the same
        store, self._store = self._store, None
        failure = self._failure
        if failure is not None:
            # Whatever the caller thinks: a run whose record has a gap is not finished.
            ending = Ending(state=RunState.FAILED, reason=str(failure))
        tell(Ended(_close(store, ending, failure)))


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
