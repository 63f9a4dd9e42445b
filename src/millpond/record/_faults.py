"""Failures of disk and database, in words that say what to do."""

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from millpond.errors import RecordError

_GONE: Final = "the folder was moved or deleted, or its name is misspelt"
DAMAGED: Final = "`sqlite3 record.db .recover` saves what can be read"
_FULL: Final = "the disk is full: make room, then resume the run"
_READ_ONLY: Final = "make the folder and the file writable"

# By the beginning of SQLite's own name of the error; extended names begin with the basic one.
_SQLITE_HINTS: Final = {
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_BUSY": "another program holds the database locked: close it, then resume the run",
    "SQLITE_LOCKED": "another program holds the database locked: close it, then resume the run",
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_NOTADB": "the file was overwritten, or is no record",
    "SQLITE_CANTOPEN": "check that folder and file exist and may be read and written",
    "SQLITE_PERM": "check that folder and file may be read and written",
    "SQLITE_IOERR": "the disk is full or fails, or a limit on the size of files was reached",
    "SQLITE_TOOBIG": "keep values of that size in a file, and its name in the record",
}
_OS_HINTS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota is used up: make room, then resume the run",
    errno.EROFS: _READ_ONLY,
    errno.EACCES: "check who owns the folder, and its permissions",
    errno.EPERM: "check who owns the folder, and its permissions",
    errno.ENOENT: _GONE,
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
    errno.ENOLCK: "keep records on a local disk: this file system cannot lock files",
    errno.EOPNOTSUPP: "keep records on a local disk: this file system cannot lock files",
}


@contextmanager
def explained(doing: str, path: Path) -> Generator[None]:
    """Turn what disk and database raise into a `RecordError` that says what to do.

    Args:
        doing: What was tried, to go after "cannot".
        path: The file it was tried on.

    Raises:
        RecordError: In place of `sqlite3.Error` and `OSError`.
    """
    try:
        yield
    except sqlite3.Error as error:
        name: str = getattr(error, "sqlite_errorname", "")  # the module's own errors have none
        hints = (hint for start, hint in _SQLITE_HINTS.items() if name.startswith(start))
        why = f"{error} [{name}]" if name else str(error)
        what = f"cannot {doing}: {why}"
        raise RecordError(what, path=path, hint=next(hints, "")) from error
    except OSError as error:
        hint = _OS_HINTS.get(error.errno or 0, "")
        what = f"cannot {doing}: {error.strerror or error}"
        raise RecordError(what, path=error.filename or path, hint=hint) from error


def gone(path: Path) -> RecordError:
    """Return the error for a file that is no longer where it was opened."""
    return RecordError("the record was moved, replaced or deleted", path=path, hint=_GONE)
