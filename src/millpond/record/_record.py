"""The record of one run.

Invariants:
    R1  Every entry is counted once: ``appended = queued + committed + lost``, whenever the
        loop can switch tasks.
    R2  When `committed` returns for a key, all that was said of the key survives SIGKILL,
        and a power loss where the disk keeps its promises.
    R3  What is on disk is a prefix of what was said, in the order in which it was said.
        Nothing is written after a gap.
    R4  At most one process writes a run.
    R5  The loop's thread touches neither file nor database.
    R6  An outcome that is ok or degraded is never replaced, nor its answer.

One thread owns the database. `answer`, `finish` and `event` encode what they are given and
put it on that thread's queue, in one synchronous step: a cancel cannot fall between a
result and its record. The thread takes all that has come, commits it in one transaction
(so the cost of a sync to disk is shared by all that waited), and tells the loop how far it
got.

After the first failed write nothing more is written (R3): the entry that failed may be
what a later one builds on. The program goes on; see `Record.failed`.
"""

import asyncio
import copy
import enum
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

from millpond._base import Outcome, Recalled, seconds, wall_time
from millpond.errors import RecordError, UsageError
from millpond.record._codec import JSON, Codec, is_encodable, lenient_json, storable
from millpond.record._schema import DB_NAME, Meta, RunState, stamp
from millpond.record._store import Contents, Ending, Entry, Store, Table, installed_version
from millpond.record._writer import Dropped, Ended, Message, Opened, Refused, Writer, Written
from millpond.sync import Notify, wait_until

# SQLite refuses a text of a billion bytes; a character takes up to four.
_MOST_CHARACTERS: Final = 240_000_000
_CLOSE_SECONDS: Final = 60.0
_STORED_STATES: Final = (RunState.FINISHED, RunState.INTERRUPTED, RunState.FAILED)


class _Phase(enum.Enum):
    NEW = "not open yet; use `async with`"
    OPENING = "not open yet; it is being opened"
    OPEN = "open"
    CLOSING = "closed; its last entries are being written"
    CLOSED = "closed"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStatistics:
    """What a `Record` looks like at one moment. It counts this session's entries."""

    queued: int
    """How many entries wait for their commit."""
    committed: int
    """How many are on disk."""
    lost: int
    """How many never will be, because the store failed."""
    batches: int
    """In how many transactions they were committed."""


@final
class Record:
    """Keeps the answers, ends and events of one run in one SQLite file.

    It is a journal for `millpond.flow.Pipeline`. Made by `create` for a new run and by
    `resume` for one that is to go on; opened and closed by ``async with``. Leaving the
    block writes what is queued, and how the run ended: finished; interrupted, when a
    cancel or an exit leaves it; failed, when an error does. A resumed run that is left by
    an error or a cancel before anything was written stays as it was found, so that a
    resume may be refused after a look at `settings`.

    It belongs to the event loop in which it was opened, and to that loop's thread.

    A **key** names an item, and is unique among the items of a run. In one session (from
    opening to closing) a key has at most one answer and one outcome; a second one is a
    `UsageError`. An answer may come after the outcome: one that was paid for and came too
    late is kept for the next session. In a later session a key whose outcome was neither
    ok nor degraded may be answered and finished again, and the last one counts. One that
    was ok or degraded may not (R6).

    Args:
        folder: The run's folder.
        codec: Turns answers and results into text.
        opening: Opens the store; called in the record's thread.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> async def main(folder: Path) -> None:
        ...     async with Record.create(folder, run_id="r1", job="demo", settings={}) as record:
        ...         record.answer("q7", {"text": "42"})
        ...         await record.committed("q7")
        ...         print(record)
        ...     async with Record.resume(folder) as record:
        ...         print(record.recall("q7").answer)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder)))
        <Record 'r1' open, 1 committed, 0 queued, 0 lost>
        {'text': '42'}
    """

    def __init__(
        self, folder: Path, codec: Codec, opening: Callable[[], tuple[Store, Contents]]
    ) -> None:
        self._folder = folder
        self._path = folder / DB_NAME
        self._codec = codec
        self._writer = Writer(opening)
        self._phase = _Phase.NEW
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._changed = Notify()
        self._contents: Contents | None = None
        self._failed: RecordError | None = None
        self._failure_was_raised = False
        self._appended = 0
        self._committed = 0
        self._lost = 0
        self._batches = 0
        # The number of the last entry of each key that is not committed (R2).
        self._open_keys: dict[str, int] = {}
        self._answered: set[str] = set()  # in this session, as `_finished`
        self._finished: set[str] = set()

    @classmethod
    def create(  # noqa: PLR0913 - the facts of a run
        cls,
        folder: Path | str,
        *,
        run_id: str,
        job: str,
        settings: Mapping[str, object],
        codec: Codec = JSON,
        busy_timeout: float = 30.0,
    ) -> "Record":
        """Return the record of a new run; ``async with`` makes its file.

        Args:
            folder: Where the file goes; made where it is missing. It should be on a local
                disk: file systems of networks tend to lack what SQLite needs.
            run_id: Names the run.
            job: Names what is run.
            settings: Whatever decides the results, in JSON's terms. It is kept, and given
                back by `settings` when the run is resumed.
            codec: Turns answers and results into text.
            busy_timeout: Seconds that a write waits while another program has the database
                locked, before the store counts as failed.

        Raises:
            UsageError: If *run_id* or *job* is not a str with something in it.
            RecordError: If *settings* does not fit into JSON. From ``async with``: if the
                folder holds a record already, or cannot be written.
        """
        folder = Path(folder).absolute()
        path = folder / DB_NAME
        seconds("busy_timeout", busy_timeout, optional=False)
        _check_text("run_id", run_id)
        _check_text("job", job)
        kept = _encoded(JSON, dict(settings), "the settings", path)
        created_at = stamp(wall_time())

        def opening() -> tuple[Store, Contents]:
            meta = Meta(
                run_id=run_id,
                job=job,
                millpond_version=installed_version(),
                created_at=created_at,
                settings=json.loads(kept),
                state=RunState.RUNNING,
                state_reason="",
                state_at=created_at,
            )
            store = Store.create(folder, meta, busy_timeout=busy_timeout)
            return store, Contents(meta=meta, recalled={})

        return cls(folder, codec, opening)

    @classmethod
    def resume(
        cls, folder: Path | str, *, codec: Codec = JSON, busy_timeout: float = 30.0
    ) -> "Record":
        """Return the record of a run that is to go on; ``async with`` opens its file.

        Opening reads all that `recall` will be asked for, so a file that is damaged, or
        was written with another codec, is refused before anything is run.

        Args:
            folder: The run's folder.
            codec: The one that the run was created with.
            busy_timeout: As in `create`.

        Raises:
            RecordError: From ``async with``: if there is no record, another process writes
                it, it is damaged, or a newer millpond made it.
        """
        folder = Path(folder).absolute()
        seconds("busy_timeout", busy_timeout, optional=False)

        def opening() -> tuple[Store, Contents]:
            return Store.resume(folder, codec, busy_timeout=busy_timeout)

        return cls(folder, codec, opening)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self._folder

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self._meta.run_id

    @property
    def job(self) -> str:
        """The name of what is run."""
        return self._meta.job

    @property
    def settings(self) -> dict[str, Any]:
        """What was given to `create`, as it came back from JSON. A fresh copy."""
        return copy.deepcopy(self._meta.settings)

    @property
    def failed(self) -> RecordError | None:
        """Why nothing is recorded any more. None: the store works, as far as is known."""
        return self._failed

    def statistics(self) -> RecordStatistics:
        """Return a snapshot. It never changes afterwards."""
        return RecordStatistics(
            queued=self._appended - self._committed - self._lost,
            committed=self._committed,
            lost=self._lost,
            batches=self._batches,
        )

    def recall(self, key: str) -> Recalled[object] | None:
        """Return what *earlier* sessions left under *key*. From memory.

        An outcome that was ok or degraded comes back as ``finished``, with its value, and
        with None for its item and error, which are not kept. Otherwise an answer comes
        back, if there is one: the item is to be run again with it.

        Returns:
            None if nothing is known that would save work.

        Raises:
            UsageError: If the record is not open.
        """
        return self._check_open().recalled.get(key)

    def answer(self, key: str, value: object) -> None:
        """Record an answer. Call it in the moment in which the answer comes back.

        Raises:
            UsageError: If *key* has an answer of this session, or was finished in an
                earlier one, or the record is not open.
            RecordError: If the codec cannot hold *value*. Nothing else is lost by it.
        """
        self._check_key(key)
        if key in self._answered:
            msg = f"{key!r} was answered already; a key names one item of the run"
            raise UsageError(msg)
        text = _encoded(self._codec, value, f"the answer of {key!r}", self._path)
        self._answered.add(key)
        self._append(Table.ANSWERS, key, (key, text))

    def finish(self, key: str, outcome: Outcome[object, object]) -> None:
        """Record the end of an item.

        Of an error its type and text are kept, of the item nothing, and of the value only
        that of an outcome that is ok or degraded.

        Raises:
            UsageError: If *key* was finished in this session, or with a value in an
                earlier one, or the record is not open.
            RecordError: If the codec cannot hold the value. Nothing else is lost by it: the
                same key can be finished as failed.
        """
        self._check_key(key)
        if key in self._finished:
            msg = f"{key!r} was finished already; a key names one item of the run"
            raise UsageError(msg)
        value: str | None = None
        if outcome.status.has_value:
            value = _encoded(self._codec, outcome.value, f"the result of {key!r}", self._path)
        timings = _encoded(JSON, dict(outcome.timings), f"the timings of {key!r}", self._path)
        error_type, error = (None, None) if outcome.error is None else _describe(outcome.error)
        self._finished.add(key)
        self._append(
            Table.OUTCOMES,
            key,
            (
                key,
                outcome.status.value,
                value,
                storable(outcome.stage),
                storable(outcome.layer),
                error_type,
                error,
                storable(outcome.degraded_reason),
                timings,
            ),
        )

    def event(
        self, kind: str, /, key: str | None = None, *, version: int = 1, **data: object
    ) -> None:
        """Record that something happened.

        Args:
            kind: What, in dotted words: ``request.retried``.
            key: The item it happened to. None: none in particular.
            version: Of the form of *data*; raise it when its names or meanings change.
            data: In JSON's terms. It is kept for reading with SQL and never given back, so
                a tuple may become a list.

        Raises:
            UsageError: If *kind* is empty, or the record is not open.
            RecordError: If *data* does not fit into JSON.
        """
        self._check_open()
        _check_text("kind", kind)
        if key is not None:
            _check_text("key", key)
        try:
            text = lenient_json(data)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"the data of event {kind!r} cannot be recorded: {error}"
            raise RecordError(what, path=self._path, hint="give it in JSON's terms") from error
        self._append(Table.EVENTS, key, (kind, version, key, text))

    async def committed(self, key: str) -> None:
        """Return once all that was said of *key* so far is on disk.

        At once when it is, also after the record failed or was closed.

        Raises:
            RecordError: If it never will be, because the store failed. `failed` is the
                first such error.
            UsageError: In another event loop than the record's.

        Cancellation:
            Safe. What was said is written all the same.

        Ordering:
            Entries are committed in the order in which they were said; whoever waits for
            entries of one transaction is resumed in the order of the calls.
        """
        self._check_loop()
        number = self._open_keys.get(key, 0)
        await wait_until(
            self._changed, lambda: self._committed >= number or self._failed is not None
        )
        if self._failed is not None and self._committed < number:
            raise self._told(self._failed)

    async def close(
        self,
        *,
        state: RunState | str = RunState.FINISHED,
        reason: str = "",
        timeout: float = _CLOSE_SECONDS,  # noqa: ASYNC109 - it bounds the wait, not the writing
    ) -> None:
        """Write what is queued and how the run stands, and let go of the file.

        Nothing can be recorded once this was called. Calling it again waits for the same
        end, and changes nothing. A run whose store failed is marked as failed, whatever
        *state* says.

        Args:
            state: finished, interrupted or failed.
            reason: For people: why it did not finish.
            timeout: Seconds to wait for a disk that does not answer.

        Raises:
            RecordError: If something was lost, or the state could not be written, or the
                *timeout* passed; unless `committed` has raised for it before.
            UsageError: For another *state*, or if the record was never opened.

        Cancellation:
            The wait ends; the thread writes on, and closes the file by itself.
        """
        if state not in _STORED_STATES:
            msg = f"`state` must be finished, interrupted or failed, got {state!r}"
            raise UsageError(msg)
        seconds("timeout", timeout, optional=False)
        await self._close(Ending(state=RunState(state), reason=reason), timeout)

    async def __aenter__(self) -> "Record":
        """Open the file. This side waits.

        Raises:
            RecordError: As `create` and `resume` say.
            UsageError: On a second entry.

        Cancellation:
            Safe: the thread lets go of the file as soon as it has it. A record that was
            being created is marked as interrupted.
        """
        if self._phase is not _Phase.NEW:
            msg = "a Record is entered once; make a new one with `Record.resume`"
            raise UsageError(msg)
        self._phase = _Phase.OPENING
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._writer.start(self._folder.name, self._loop, self._hear)
        try:
            await wait_until(self._changed, lambda: self._phase is not _Phase.OPENING)
        except BaseException:
            self._end(_left_by("cancelled while it was opened"))
            raise
        if self._failed is not None:
            raise self._failed
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close, if that was not done yet. This side waits, for 60 s at most."""
        if self._phase is _Phase.CLOSED:
            return
        if exc is None:
            await self.close()
            return
        kind, text = _describe(exc)
        reason = "cancelled" if isinstance(exc, asyncio.CancelledError) else f"{kind}: {text}"
        ending = _left_by(reason, error=isinstance(exc, Exception))
        if isinstance(exc, GeneratorExit):
            self._end(ending)  # a coroutine that is thrown away must not wait
            return
        try:
            await self._close(ending, _CLOSE_SECONDS)
        except RecordError as error:
            exc.add_note(f"besides, {error}")

    def __repr__(self) -> str:
        name = repr(self._contents.meta.run_id) if self._contents else f"in {str(self._folder)!r}"
        state = "failed" if self._failed else self._phase.value.split(";", maxsplit=1)[0]
        now = self.statistics()
        return (
            f"<Record {name} {state}, {now.committed} committed, {now.queued} queued,"
            f" {now.lost} lost>"
        )

    @property
    def _meta(self) -> Meta:
        if self._contents is None:
            msg = f"the record is {self._phase.value}"
            raise UsageError(msg)
        return self._contents.meta

    def _check_open(self) -> Contents:
        if self._contents is None or self._phase is not _Phase.OPEN:
            msg = f"the record is {self._phase.value}"
            raise UsageError(msg)
        if threading.get_ident() != self._thread:
            msg = (
                "a Record belongs to the thread of its event loop; from another thread use"
                " `loop.call_soon_threadsafe(record.answer, key, value)`"
            )
            raise UsageError(msg)
        return self._contents

    def _check_loop(self) -> None:
        if self._loop is None:
            msg = f"the record is {self._phase.value}"
            raise UsageError(msg)
        if asyncio.get_running_loop() is not self._loop:
            msg = "a Record belongs to the event loop in which it was opened; await it there"
            raise UsageError(msg)

    def _check_key(self, key: str) -> None:
        recalled = self._check_open().recalled.get(key)
        _check_text("key", key)
        if recalled is not None and recalled.finished is not None:
            msg = f"{key!r} was finished in an earlier session; `recall` has its outcome"
            raise UsageError(msg)

    def _append(self, table: Table, key: str | None, columns: tuple[str | int | None, ...]) -> None:
        self._appended += 1
        if key is not None:
            self._open_keys[key] = self._appended
        if self._failed is not None:
            self._lost += 1
            return
        self._writer.put(Entry(self._appended, key, table, columns, wall_time()))

    def _hear(self, message: Message) -> None:
        """Take in what the thread says. Runs in the loop."""
        match message:
            case Opened(contents):
                self._contents = contents
                if self._phase is _Phase.OPENING:
                    self._phase = _Phase.OPEN
            case Refused(error):
                self._failed = error
                self._phase = _Phase.CLOSED
            case Written(batch):
                self._committed = batch[-1].number
                self._batches += 1
                for entry in batch:
                    if entry.key is not None and self._open_keys.get(entry.key) == entry.number:
                        del self._open_keys[entry.key]
            case Dropped(batch, error):
                self._lost += len(batch)
                self._failed = self._failed or error
            case Ended(error):
                self._failed = self._failed or error
                self._phase = _Phase.CLOSED
        self._changed.notify_waiters()

    def _end(self, ending: Ending) -> None:
        """Let the thread end. Only the first call counts."""
        if self._phase in (_Phase.OPENING, _Phase.OPEN):
            self._phase = _Phase.CLOSING
            self._writer.put(ending)

    async def _close(self, ending: Ending, timeout: float) -> None:  # noqa: ASYNC109 - as `close`
        self._check_loop()
        self._end(ending)
        try:
            async with asyncio.timeout(timeout):
                await wait_until(self._changed, lambda: self._phase is _Phase.CLOSED)
        except TimeoutError:
            # The end may have been heard in the very tick of the timeout.
            if self._phase is not _Phase.CLOSED:
                self._give_up(timeout)
        if self._failed is not None and not self._failure_was_raised:
            raise self._told(self._failed)

    def _give_up(self, timeout: float) -> None:
        queued = self.statistics().queued
        self._failed = self._failed or RecordError(
            f"the disk did not take the last {queued} entries within {timeout:g} s",
            path=self._path,
            hint="the run can be resumed once the disk works",
        )
        self._phase = _Phase.CLOSED  # nobody waits for it again
        self._changed.notify_waiters()

    def _told(self, failure: RecordError) -> RecordError:
        """Return *failure*, to be raised now: a fresh one for each who is told."""
        self._failure_was_raised = True
        fresh = copy.copy(failure)
        fresh.__cause__ = failure
        if self._lost:
            fresh.add_note(f"entries lost by now: {self._lost}")
        return fresh


def _left_by(reason: str, *, error: bool = False) -> Ending:
    """Return the ending of a session that something other than its own end has left."""
    state = RunState.FAILED if error else RunState.INTERRUPTED
    return Ending(state=state, reason=reason, only_if_used=True)


def _check_text(name: str, text: str) -> None:
    if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance] # callers without a type checker
        msg = f"`{name}` must be a str with something in it, got {text!r}"
        raise UsageError(msg)
    if not is_encodable(text):
        msg = f"`{name}` must be storable as UTF-8, got {text!r} with a lone surrogate"
        raise UsageError(msg)


def _encoded(codec: Codec, value: object, what: str, path: Path) -> str:
    """Return *value* as text that can be stored, or raise a `RecordError` about *what*."""
    what = f"{what} cannot be recorded"
    try:
        text = codec.encode(value)
    except Exception as error:
        msg = f"{what} by {codec!r}: {error}"
        hint = "convert it first, or give the record a codec that can hold it"
        raise RecordError(msg, path=path, hint=hint) from error
    if not isinstance(text, str) or not is_encodable(text):  # pyright: ignore[reportUnnecessaryIsInstance] # the codec is the user's
        msg = f"{what}: {codec!r} made a {type(text).__name__} of it that cannot be stored"
        hint = "`encode` must return a str without lone surrogates"
        raise RecordError(msg, path=path, hint=hint)
    if len(text) > _MOST_CHARACTERS:
        msg = f"{what}: it takes {len(text):,} characters"
        hint = "keep it in a file, and the file's name in the record"
        raise RecordError(msg, path=path, hint=hint)
    return text


def _describe(error: BaseException) -> tuple[str, str]:
    """Return type and text of *error*, even where its own text cannot be made."""
    kind = type(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error about an error helps nobody
        text = "(its text cannot be made)"
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{place}{kind.__qualname__}", storable(text)
