"""The file of one run, open for writing. Everything here blocks, and runs on one thread."""

import contextlib
import enum
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, final

from millpond._base import Outcome, Recalled, Status, wall_time
from millpond.errors import RecordError
from millpond.record._codec import JSON, Codec, storable
from millpond.record._faults import DAMAGED, explained, gone
from millpond.record._lock import Held, RunLock
from millpond.record._schema import (
    DB_NAME,
    DRAFT_NAME,
    SCHEMA_VERSION,
    TABLES,
    Meta,
    RunState,
    connect,
    read_meta,
    stamp,
)

# Long enough for a reader to come to its end, short enough not to be felt at the end of a run.
_TIDY_MILLISECONDS: Final = 200


class Table(enum.Enum):
    """Where an entry goes. The value is the statement that puts it there."""

    ANSWERS = "INSERT OR REPLACE INTO answers (key, value, at) VALUES (?, ?, ?)"
    OUTCOMES = (
        "INSERT OR REPLACE INTO outcomes (key, status, value, stage, layer, error_type, error,"
        " degraded_reason, timings, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    EVENTS = "INSERT INTO events (kind, version, key, data, at) VALUES (?, ?, ?, ?, ?)"


class Entry(NamedTuple):
    """One thing said of the run, on its way to the file."""

    number: int
    """Counts the entries of this session, from 1."""
    key: str | None
    table: Table
    columns: tuple[str | int | None, ...]
    """All columns but the last, which is the time."""
    at: float
    """Seconds since the epoch, by the wall clock."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is known of a run when it has been opened."""

    meta: Meta
    recalled: dict[str, Recalled[object]]
    """What to run again with its answer, and what not to run again, by key."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a session wants to end."""

    state: RunState
    reason: str = ""
    only_if_used: bool = False
    """Leave the state as it was found, if nothing was written."""


@final
class Store:
    """One record, opened and locked for writing. Made by `create` and `resume`."""

    def __init__(
        self, path: Path, lock: RunLock, connection: sqlite3.Connection, found: Meta | None
    ) -> None:
        self.path = path
        self._lock = lock
        self._connection = connection
        self._found = found
        """What the run was before this session; None for a new one."""
        self._used = found is None
        self._file = _identity(path)

    @classmethod
    def create(cls, folder: Path, meta: Meta, *, busy_timeout: float) -> "Store":
        """Make a new record in *folder*, which is made too where it is missing.

        Raises:
            RecordError: If *folder* holds a record already, or cannot be written.
        """
        path = folder / DB_NAME
        with contextlib.ExitStack() as undo, explained("create a record", path):
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder)
            undo.callback(lock.release)
            if os.path.lexists(path):
                with contextlib.closing(connect(path, "ro", busy_timeout=busy_timeout)) as found:
                    run_id = read_meta(found, path).run_id
                what = f"the folder holds the record of run {run_id!r} already"
                hint = "resume that run, or choose another folder"
                raise RecordError(what, path=path, hint=hint)
            _make_file(path, meta)
            connection = connect(path, "rw", busy_timeout=busy_timeout)
            undo.callback(connection.close)
            _prepare(connection)
            store = cls(path, lock, connection, None)
            undo.pop_all()
        return store

    @classmethod
    def resume(cls, folder: Path, codec: Codec, *, busy_timeout: float) -> tuple["Store", Contents]:
        """Open the record in *folder* again, and read what is worth knowing in it.

        Raises:
            RecordError: If there is none, or it is being written, or it cannot be read.
        """
        path = folder / DB_NAME
        with contextlib.ExitStack() as undo, explained("open the record", path):
            if not os.path.lexists(path):  # before the lock, which would leave its file there
                raise missing(folder)
            lock = _locked(folder)
            undo.callback(lock.release)
            connection = connect(path, "rw", busy_timeout=busy_timeout)
            undo.callback(connection.close)
            meta = read_meta(connection, path)
            damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                what = f"the record is damaged: {damage}"
                raise RecordError(what, path=path, hint=DAMAGED)
            recalled = dict(_read_finished(connection, codec, path))
            recalled.update(_read_answers(connection, codec, path))
            _prepare(connection)
            _set_state(connection, RunState.RUNNING, "", stamp(wall_time()))
            store = cls(path, lock, connection, meta)
            undo.pop_all()
        return store, Contents(meta=meta, recalled=recalled)

    def write(self, batch: Sequence[Entry]) -> None:
        """Put *batch* into the file: all of it, or nothing. On return it is safe.

        Raises:
            RecordError: If it is not.
        """
        connection = self._connection
        with explained("write to the record", self.path):
            try:
                connection.execute("BEGIN IMMEDIATE")
                for table in Table:
                    rows = [
                        (*entry.columns, stamp(entry.at)) for entry in batch if entry.table is table
                    ]
                    if rows:
                        connection.executemany(table.value, rows)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    connection.execute("ROLLBACK")
                self._check_place()  # the likelier story, where it is one
                raise
            self._check_place()  # SQLite goes on writing into a deleted file without a word
        self._used = True

    def close(self, ending: Ending) -> None:
        """Note how the run stands, and let go of the file.

        Raises:
            RecordError: If the state could not be written. The file is let go all the same.
        """
        state, reason, at = ending.state, ending.reason, stamp(wall_time())
        if ending.only_if_used and not self._used and self._found is not None:
            state, reason, at = self._found.state, self._found.state_reason, self._found.state_at
        try:
            with explained("close the record", self.path):
                self._check_place()
                _set_state(self._connection, state, reason, at)
                self._leave_one_file()
        finally:
            self._connection.close()
            self._lock.release()

    def _check_place(self) -> None:
        if _identity(self.path) != self._file:
            raise gone(self.path)

    def _leave_one_file(self) -> None:
        """Fold the log into the file, so that copying the one file copies the run.

        Not while somebody reads; the log stays beside the file then, which is as safe.
        """
        with contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute(f"PRAGMA busy_timeout = {_TIDY_MILLISECONDS}")
            self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()


def missing(folder: Path) -> RecordError:
    """Return the error for a folder that holds no record."""
    if not folder.is_dir():
        return RecordError("there is no such folder", path=folder, hint="check its name")
    return RecordError(
        "the folder holds no record", path=folder, hint=f"a run's folder has a file {DB_NAME}"
    )


def installed_version() -> str:
    """Return millpond's version, as far as it was installed."""
    try:
        return metadata.version("millpond")
    except metadata.PackageNotFoundError:
        return "unknown"


def _locked(folder: Path) -> RunLock:
    try:
        return RunLock(folder)
    except Held as held:
        by = "this process" if held.pid == os.getpid() else "another process"
        what = f"run {_run_id(folder)!r} is being written by {by} (pid {held.pid or 'unknown'})"
        hint = "wait until it ends, or stop it first"
        raise RecordError(what, path=folder / DB_NAME, hint=hint) from None


def _run_id(folder: Path) -> str:
    """Return the run's id, or the folder's name where that cannot be read."""
    path = folder / DB_NAME
    try:
        with contextlib.closing(connect(path, "ro", busy_timeout=1.0)) as connection:
            return read_meta(connection, path).run_id
    except (sqlite3.Error, RecordError):
        return folder.name


def _make_file(path: Path, meta: Meta) -> None:
    """Make a record that holds nothing but *meta*. It appears whole or not at all."""
    draft = path.with_name(DRAFT_NAME)
    for leftover in (draft, draft.with_name(f"{draft.name}-journal")):
        leftover.unlink(missing_ok=True)  # of a creation that was killed
    with contextlib.closing(connect(draft, "rwc", busy_timeout=0.0)) as connection:
        connection.execute("BEGIN")
        for table in TABLES:
            connection.execute(table)
        connection.execute(
            "INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                SCHEMA_VERSION,
                meta.run_id,
                meta.job,
                meta.millpond_version,
                meta.created_at,
                json.dumps(meta.settings, allow_nan=False),
                meta.state.value,
                meta.state_reason,
                meta.state_at,
            ),
        )
        connection.execute("COMMIT")
    draft.rename(path)
    for folder in (path.parent, path.parent.parent):  # names outlive a power loss only so
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _prepare(connection: sqlite3.Connection) -> None:
    # Where the file system has no shared memory, SQLite keeps its rollback journal: as
    # safe, only slower. With FULL a commit outlives a power loss too, not only the process.
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")


def _set_state(connection: sqlite3.Connection, state: RunState, reason: str, at: str) -> None:
    connection.execute(
        "UPDATE meta SET state = ?, state_reason = ?, state_at = ?",
        (state.value, storable(reason), at),
    )


def _read_finished(
    connection: sqlite3.Connection, codec: Codec, path: Path
) -> Iterable[tuple[str, Recalled[object]]]:
    rows = connection.execute(
        "SELECT key, status, value, stage, layer, degraded_reason, timings FROM outcomes"
        " WHERE status IN ('ok', 'degraded')"
    )
    for key, status, value, stage, layer, degraded_reason, timings in rows:
        outcome: Outcome[object, object] = Outcome(
            item=None,
            status=Status(status),
            value=_decoded(codec, value, f"the result of {key!r}", path),
            stage=stage,
            layer=layer,
            degraded_reason=degraded_reason,
            timings=cast(
                "dict[str, float]", _decoded(JSON, timings, f"the timings of {key!r}", path)
            ),
            recorded=True,
        )
        yield key, Recalled(finished=outcome)


def _read_answers(
    connection: sqlite3.Connection, codec: Codec, path: Path
) -> Iterable[tuple[str, Recalled[object]]]:
    rows = connection.execute(
        "SELECT key, value FROM answers WHERE key NOT IN"
        " (SELECT key FROM outcomes WHERE status IN ('ok', 'degraded'))"
    )
    for key, value in rows:
        answer = _decoded(codec, value, f"the answer of {key!r}", path)
        yield key, Recalled(answer=answer, has_answer=True)


def _decoded(codec: Codec, text: Any, what: str, path: Path) -> object:  # noqa: ANN401 - SQLite's
    try:
        return codec.decode(text)
    except Exception as error:
        what = f"{what} cannot be read back by {codec!r}: {type(error).__name__}: {error}"
        hint = "resume a run with the codec that it was made with"
        raise RecordError(what, path=path, hint=hint) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file stands at *path*. None: none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
