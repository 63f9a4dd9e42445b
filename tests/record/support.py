"""What the tests of the record share: items, outcomes, SQL, and children that write."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from millpond._base import Outcome, Status, offload
from millpond.record import JSON, Codec, Record

SOURCE = Path(__file__).parents[2] / "src"
CHILD = Path(__file__).with_name("writing_child.py")


def new(folder: Path, *, codec: Codec = JSON, busy_timeout: float = 30.0) -> Record:
    """Return the record of a new run called r1."""
    return Record.create(
        folder,
        run_id="r1",
        job="demo",
        settings={"n": 3},
        codec=codec,
        busy_timeout=busy_timeout,
    )


def ended(  # noqa: PLR0913 - the fields of an outcome
    status: Status = Status.OK,
    value: object = None,
    *,
    stage: str = "",
    layer: str = "",
    error: BaseException | None = None,
    degraded_reason: str = "",
    timings: Mapping[str, float] | None = None,
) -> Outcome[str, object]:
    """Return an outcome."""
    return Outcome(
        item="the item",
        status=status,
        value=value,
        stage=stage,
        layer=layer,
        error=error,
        degraded_reason=degraded_reason,
        timings=timings or {},
    )


def rows(folder: Path, question: str, *arguments: object) -> list[tuple[Any, ...]]:
    """Ask the record in *folder* with SQL, as a user would."""
    uri = f"{(folder / 'record.db').as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        return connection.execute(question, arguments).fetchall()


def tamper(folder: Path, statement: str) -> None:
    """Change the record in *folder* behind millpond's back."""
    with closing(sqlite3.connect(folder / "record.db")) as connection, connection:
        connection.execute(statement)


@contextmanager
def locked_by_another(folder: Path) -> Iterator[None]:
    """Hold SQLite's write lock, as a database browser with unsaved changes does."""
    with closing(sqlite3.connect(folder / "record.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in *folder*, but for SQLite's index of its log, which readers use too."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if "shm" not in path.name}


async def thread_ended(folder: Path) -> None:
    """Wait until the thread that writes in *folder* has ended."""
    for thread in threading.enumerate():
        if thread.name == f"millpond-record-{folder.name}":
            await offload(thread.join)


def child(*arguments: str | Path, wrapped: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """Start `writing_child.py`, by way of another program where *wrapped* names one."""
    return subprocess.Popen(
        [*wrapped, sys.executable, str(CHILD), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
