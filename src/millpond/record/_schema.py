"""The tables of a record, and how they are opened."""

import enum
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, final

from millpond.errors import RecordError

DB_NAME: Final = "record.db"
DRAFT_NAME: Final = "record.db.new"
"""What it is called while it is being created."""
SCHEMA_VERSION: Final = 1

TABLES: Final = (
    """
    CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),  -- there is one row
        schema_version INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        job TEXT NOT NULL,
        millpond_version TEXT NOT NULL,
        created_at TEXT NOT NULL,
        settings TEXT NOT NULL,
        state TEXT NOT NULL,
        state_reason TEXT NOT NULL,
        state_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE answers (
        key TEXT PRIMARY KEY NOT NULL,
        value TEXT NOT NULL,
        at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE outcomes (
        key TEXT PRIMARY KEY NOT NULL,
        status TEXT NOT NULL,
        value TEXT,
        stage TEXT NOT NULL,
        layer TEXT NOT NULL,
        error_type TEXT,
        error TEXT,
        degraded_reason TEXT NOT NULL,
        timings TEXT NOT NULL,
        at TEXT NOT NULL
    )
    """,
    # Counting by status must not read the values: `list_runs` does it for every run.
    "CREATE INDEX outcomes_by_status ON outcomes (status)",
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        version INTEGER NOT NULL,
        key TEXT,
        data TEXT NOT NULL
    )
    """,
)


class RunState(enum.StrEnum):
    """How a run stands."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    """It was told to end before it was done."""
    FAILED = "failed"
    """An error ended it, or its record could not be written to the end."""
    CRASHED = "crashed"
    """Its record says running, but no process writes it. Never stored: found by looking."""
    BROKEN = "broken"
    """Its record cannot be read. Never stored: found by looking."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The one row of ``meta``."""

    run_id: str
    job: str
    millpond_version: str
    created_at: str
    settings: dict[str, Any]
    state: RunState
    state_reason: str
    state_at: str


def connect(
    path: Path, mode: Literal["ro", "rw", "rwc"], *, busy_timeout: float
) -> sqlite3.Connection:
    """Open *path* without any implicit transaction.

    Args:
        path: The database file.
        mode: Read only; read and write; or these and create.
        busy_timeout: Seconds to wait while somebody else has it locked.
    """
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=busy_timeout,
    )


def read_meta(connection: sqlite3.Connection, path: Path) -> Meta:
    """Return what the record says of itself.

    Raises:
        RecordError: If it is no record, or one of a newer millpond.
        sqlite3.Error: If the file cannot be read.
    """
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = sqlite3.Row
        known = cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
        row = cursor.execute("SELECT * FROM meta").fetchone() if known else None
    fields: dict[str, Any] = dict(row) if row is not None else {}
    version = fields.get("schema_version")
    if not isinstance(version, int):
        raise RecordError("this is a database, but no record of millpond", path=path)
    if version > SCHEMA_VERSION:
        what = f"the record has schema {version}, this millpond knows up to {SCHEMA_VERSION}"
        hint = f"use millpond {fields.get('millpond_version')} or newer"
        raise RecordError(what, path=path, hint=hint)
    try:
        return Meta(
            run_id=fields["run_id"],
            job=fields["job"],
            millpond_version=fields["millpond_version"],
            created_at=fields["created_at"],
            settings=json.loads(fields["settings"]),
            state=RunState(fields["state"]),
            state_reason=fields["state_reason"],
            state_at=fields["state_at"],
        )
    except (KeyError, TypeError, ValueError) as error:
        what = f"the table `meta` of the record is damaged: {type(error).__name__}: {error}"
        raise RecordError(what, path=path) from error


def stamp(seconds: float) -> str:
    """Return wall-clock *seconds* since the epoch as ISO-8601 in UTC, always of one length."""
    whole = int(seconds)
    return f"{_to_the_second(whole)}.{int((seconds - whole) * 1_000_000):06d}Z"


@lru_cache(maxsize=8)  # thousands of entries share a second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
