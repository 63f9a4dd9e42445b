"""Looking at runs from outside, also while they are being written. Changes nothing."""

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, final

from millpond._base import Status, offload
from millpond.errors import RecordError
from millpond.record._faults import explained
from millpond.record._lock import holder_of, is_held
from millpond.record._schema import DB_NAME, Meta, RunState, connect, read_meta, stamp
from millpond.record._store import missing

# A writer has the file to itself only while it ends a run.
_BUSY_SECONDS: Final = 5.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What the record of one run says of it."""

    folder: Path
    run_id: str
    """The folder's name where the record cannot be read."""
    state: RunState
    job: str = ""
    created_at: str = ""
    """By the wall clock, ISO-8601 in UTC: ``2026-03-01T12:00:00.000000Z``."""
    state_at: str = ""
    """When the state was last set, in the same form."""
    state_reason: str = ""
    """For people: why the run did not finish, as far as it is known."""
    millpond_version: str = ""
    """The version that created the record."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: int = 0
    """How many answers are kept."""
    by_status: Mapping[Status, int] = field(default_factory=dict[Status, int])
    """How many items have ended, by how."""
    pid: int | None = None
    """The process that writes it now. None: none does."""
    problem: str = ""
    """For people: why the record cannot be read. Empty when it can."""

    @property
    def record(self) -> Path:
        """The file."""
        return self.folder / DB_NAME

    def facts(self) -> dict[str, object]:
        """Return everything for programs, in JSON's terms."""
        return {
            "run_id": self.run_id,
            "job": self.job,
            "state": str(self.state),
            "state_at": self.state_at,
            "state_reason": self.state_reason,
            "created_at": self.created_at,
            "folder": str(self.folder),
            "record": str(self.record),
            "millpond_version": self.millpond_version,
            "settings": dict(self.settings),
            "answers": self.answers,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "pid": self.pid,
            "problem": self.problem,
        }


def read_run(folder: Path | str) -> RunInfo:
    """Return what the record in *folder* says. Blocks; see `read_run_async`.

    Raises:
        RecordError: If there is none, or it cannot be read.
    """
    folder = Path(folder)
    path = folder / DB_NAME
    with explained("read the record", path):
        if not os.path.lexists(path):
            raise missing(folder)
        meta, answers, by_status = _read(path)
        pid = None
        if meta.state is RunState.RUNNING:
            if is_held(folder):
                pid = holder_of(folder)
            else:
                # Not held, but it may have ended just before: only what says running still,
                # after nobody had it, has crashed.
                meta, answers, by_status = _read(path)
                if meta.state is RunState.RUNNING:
                    return _info(folder, meta, RunState.CRASHED, answers, by_status, None)
        return _info(folder, meta, meta.state, answers, by_status, pid)


async def read_run_async(folder: Path | str) -> RunInfo:
    """Return what `read_run` returns, without blocking the loop.

    Raises:
        RecordError: If there is no record, or it cannot be read.

    Cancellation:
        Safe. A reading that has begun comes to its end in its thread, unseen.
    """
    return await offload(read_run, folder)


def list_runs(root: Path | str) -> list[RunInfo]:
    """Return the runs in the folders of *root*, newest first. Blocks; see `list_runs_async`.

    A folder whose record cannot be read is in the list too: its state is broken, and
    ``problem`` says why. Files, and folders whose name begins with a dot, are passed over.
    Without *root* there are no runs.

    Raises:
        RecordError: If *root* cannot be read.
    """
    root = Path(root)
    with explained("list the runs", root):
        if not root.exists():
            return []
        folders = [
            child for child in root.iterdir() if child.is_dir() and not child.name.startswith(".")
        ]
    found = [_read_or_say_why(folder) for folder in folders]
    return sorted(found, key=lambda info: (info.created_at, info.run_id), reverse=True)


async def list_runs_async(root: Path | str) -> list[RunInfo]:
    """Return what `list_runs` returns, without blocking the loop.

    Raises:
        RecordError: If *root* cannot be read.

    Cancellation:
        Safe. A reading that has begun comes to its end in its thread, unseen.
    """
    return await offload(list_runs, root)


def _read(path: Path) -> tuple[Meta, int, dict[Status, int]]:
    try:
        return _read_as("ro", path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
            raise
        # Its writer was killed while it changed the kind of its log. What it had half done
        # must be undone before anybody can read, and only who may write can do that.
        return _read_as("rw", path)


def _read_as(mode: Literal["ro", "rw"], path: Path) -> tuple[Meta, int, dict[Status, int]]:
    with contextlib.closing(connect(path, mode, busy_timeout=_BUSY_SECONDS)) as connection:
        connection.execute("BEGIN")  # one moment for all three questions
        meta = read_meta(connection, path)
        answers: int = connection.execute("SELECT count(*) FROM answers").fetchone()[0]
        rows = connection.execute("SELECT status, count(*) FROM outcomes GROUP BY status")
        try:
            return meta, answers, {Status(status): count for status, count in rows}
        except ValueError as error:
            what = f"the table `outcomes` of the record is damaged: {error}"
            raise RecordError(what, path=path) from error


def _info(  # noqa: PLR0913, PLR0917 - the parts of one record
    folder: Path,
    meta: Meta,
    state: RunState,
    answers: int,
    by_status: dict[Status, int],
    pid: int | None,
) -> RunInfo:
    return RunInfo(
        folder=folder,
        run_id=meta.run_id,
        state=state,
        job=meta.job,
        created_at=meta.created_at,
        state_at=meta.state_at,
        state_reason=meta.state_reason,
        millpond_version=meta.millpond_version,
        settings=meta.settings,
        answers=answers,
        by_status=by_status,
        pid=pid,
    )


def _read_or_say_why(folder: Path) -> RunInfo:
    try:
        return read_run(folder)
    except RecordError as error:
        try:
            created_at = stamp(folder.stat().st_mtime)
        except OSError:
            created_at = ""  # deleted while we looked
        return RunInfo(
            folder=folder,
            run_id=folder.name,
            state=RunState.BROKEN,
            created_at=created_at,
            problem=str(error),
        )
