"""One writer per run: a lock that dies with the process that holds it.

It is an `flock` on a file of its own beside the database. Not on the database itself:
SQLite keeps POSIX locks there, and a process loses all of those as soon as it closes any
descriptor of that file. For the same reason nothing here ever opens ``record.db`` other
than through SQLite.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final, final

LOCK_NAME: Final = "record.lock"

# A reader that asks `is_held` has the lock itself for some microseconds. A writer that
# meets it there tries again, this often at most, before it believes in another writer.
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.01

_descriptors: set[int] = set()


def _let_go_in_child() -> None:
    # A forked child shares the lock and would keep it alive after its parent was killed.
    # Closing is harmless to the parent: only an unlock, or the last close, releases it.
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


class Held(Exception):
    """Somebody else writes the run."""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        super().__init__(pid)


@final
class RunLock:
    """The right to write one run. Blocking calls; not for the event loop's thread."""

    __slots__ = ("_descriptor",)

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            Held: If another `RunLock`, of this process or another, has it.
            OSError: If the file cannot be made or locked.
        """
        self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
        _descriptors.add(self._descriptor)
        try:
            self._take(folder)
        except BaseException:
            self._close()
            raise

    def _take(self, folder: Path) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == _TRIES:
                    raise Held(holder_of(folder)) from None
                time.sleep(_PAUSE_SECONDS)
        # Only for messages: who holds the lock is decided by the lock.
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Give the lock back. The file stays: deleting it could part two writers."""
        with contextlib.suppress(OSError):  # a full or failing disk; the close is what counts
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        _descriptors.discard(self._descriptor)
        os.close(self._descriptor)


def is_held(folder: Path) -> bool:
    """Whether anybody writes the run in *folder* at this moment.

    Raises:
        OSError: If the file cannot be looked at.
    """
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder_of(folder: Path) -> int | None:
    """Return the process that wrote its name into the lock last. None: not known."""
    try:
        return int((folder / LOCK_NAME).read_text("ascii"))
    except (OSError, ValueError):
        return None
