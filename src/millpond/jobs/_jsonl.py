"""Reading JSON Lines, plain or gzipped, away from the event loop.

Files from other people are imperfect, so a bad line does not stop a reader: it is
*set aside*, with its number and the reason. What makes the whole file useless
(missing, empty, broken gzip, not one good line) is an `InputError`.
"""

import gzip
import json
import threading
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from io import BufferedReader
from pathlib import Path
from typing import IO, Self, TypeAlias, cast, final

from millpond._base import offload
from millpond.errors import InputError, UsageError

BATCH_LINES = 500
BATCH_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
EXCERPT_CHARACTERS = 40


Source: TypeAlias = Path | Traversable
"""A file, or a resource of a package."""


@final
@dataclass(frozen=True, slots=True)
class SetAside:
    """A line that was not used, and why."""

    path: str
    """The file, as it was named by the caller."""
    line: int
    """Counted from 1."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@final
class JsonLines:
    r"""One pass over the JSON objects of a file, as an async iterator.

    Lines that are no JSON object, or that lack a required field, are set aside.
    Whether the file is gzipped is seen from its first bytes, not from its name.
    CRLF, a byte order mark and blank lines are tolerated. The file is read in
    batches by a thread, so the loop is never blocked and a huge file is never held
    whole; it is closed at its end, at the first error, or when the iterator is
    dropped.

    Args:
        source: The file.
        required: Fields that every object must have.

    Example:
        >>> import asyncio, pathlib, tempfile
        >>> async def main(path: pathlib.Path) -> None:
        ...     lines = JsonLines(path, required=("task_id",))
        ...     async for row in lines:
        ...         print(row)
        ...     print(lines.set_aside[0].line, lines.set_aside[0].reason)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "rows.jsonl")
        ...     _ = path.write_text('{"task_id": "a"}\n[1]\n')
        ...     asyncio.run(main(path))
        {'task_id': 'a'}
        2 expected a JSON object, got an array
    """

    def __init__(self, source: Source, *, required: Iterable[str] = ()) -> None:
        self.path = str(source)
        self.line = 0
        """The number of the line that was given out last; 0 before the first."""
        self.set_aside: list[SetAside] = []
        """The lines passed so far that were not used, in their order."""
        self._reader = _Reader(source, tuple(required))
        self._good = 0
        self._refusable = False

    def refuse(self, reason: str) -> None:
        """Set aside the object that was given out last, for a reason of the caller's.

        Raises:
            UsageError: If there is none, it was refused already, or the next one was
                asked for since.
        """
        if not self._refusable:
            msg = "`refuse` speaks of the object given out last, once, before the next is asked for"
            raise UsageError(msg)
        self._refusable = False
        self.set_aside.append(SetAside(self.path, self.line, reason))
        self._good -= 1

    async def read_all(self) -> list[dict[str, object]]:
        """Return everything that is left, as a list.

        Raises:
            InputError: As `__anext__` does.

        Cancellation:
            What was read is lost; the file is closed when the iterator is dropped.
        """
        return [row async for row in self]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, object]:
        """Return the next object.

        Raises:
            InputError: If the file cannot be read (on), is empty, or ends without
                one good line. It is raised again by every later call.

        Cancellation:
            Safe. What a thread reads meanwhile is kept for the next call.
        """
        self._refusable = False
        reader = self._reader
        while True:
            while reader.ready:
                number, row = reader.ready.popleft()
                if isinstance(row, str):
                    self.set_aside.append(SetAside(self.path, number, row))
                    continue
                self.line = number
                self._good += 1
                self._refusable = True
                return row
            if reader.failure is not None:
                raise reader.failure
            if not reader.ended:
                await offload(reader.fill)
                continue
            if not self._good:
                self._reader.failure = self._nothing_good()
                continue
            raise StopAsyncIteration

    def _nothing_good(self) -> InputError:
        if not self.set_aside:
            return InputError(
                "expected JSON Lines, got an empty file",
                where=self.path,
                hint="each line holds one JSON object",
            )
        first = self.set_aside[0]
        return InputError(
            f"no usable line among {len(self.set_aside)}; line {first.line}: {first.reason}",
            where=self.path,
            hint="each line holds one JSON object with the fields that are needed",
        )


class _Reader:
    """The blocking half. `fill` runs in threads; the rest is read by the loop."""

    def __init__(self, source: Source, required: tuple[str, ...]) -> None:
        self.ready: deque[tuple[int, dict[str, object] | str]] = deque()
        """Line numbers with an object each, or with the reason to set it aside."""
        self.ended = False
        self.failure: InputError | None = None
        self._source = source
        self._required = required
        self._raw: IO[bytes] | None = None
        self._lines: IO[bytes] | None = None
        self._number = 0
        # A call that was cancelled leaves its thread behind; the next one waits here.
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Read a batch, unless a thread left by a cancelled call did it meanwhile."""
        with self._lock:
            if self.ready or self.ended or self.failure is not None:
                return
            try:
                self._read_batch()
            except (OSError, EOFError, zlib.error) as error:
                self.failure = self._explain(error)
            if self.ended or self.failure is not None:
                self._close()

    def _read_batch(self) -> None:
        lines = self._lines or self._open()
        size = 0
        for _ in range(BATCH_LINES):
            line = lines.readline()
            if not line:
                self.ended = True
                return
            self._number += 1
            size += len(line)
            if self._number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                self.ready.append((self._number, _parse(line, self._required)))
            if size >= BATCH_BYTES:
                return

    def _open(self) -> IO[bytes]:
        self._raw = raw = self._source.open("rb")
        self._lines = lines = _unzip(raw) if _is_gzip(raw) else raw
        return lines

    def _explain(self, error: Exception) -> InputError:
        where = str(self._source)
        if isinstance(error, FileNotFoundError):
            return InputError(
                "no such file",
                where=where,
                hint="check the spelling; a relative path starts at the current directory",
            )
        if isinstance(error, IsADirectoryError):
            return InputError(
                "expected a file, got a directory", where=where, hint="name a file inside it"
            )
        if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
            return InputError(
                f"broken gzip after line {self._number}: {error}",
                where=where,
                hint="fetch or compress the file again",
            )
        reason = error.strerror if isinstance(error, OSError) else None
        return InputError(
            f"cannot be read: {reason or error}",
            where=where,
            hint="check that it is a file and that you may read it",
        )

    def _close(self) -> None:
        lines, raw = self._lines, self._raw
        self._lines = self._raw = None
        if lines is not None:
            lines.close()
        if raw is not None:
            raw.close()  # GzipFile leaves the file under it open

    def __del__(self) -> None:
        # A thread in `fill` holds a reference, so nobody reads any more.
        self._close()


def _is_gzip(raw: IO[bytes]) -> bool:
    # What is no BufferedReader is a resource inside a zipped package, and plain.
    return isinstance(raw, BufferedReader) and raw.peek(2).startswith(GZIP_MAGIC)


def _unzip(raw: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))


def _parse(line: bytes, required: tuple[str, ...]) -> dict[str, object] | str:
    """Return the object in *line*, or the reason why there is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}"
    try:
        row: object = json.loads(text.rstrip())
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at column {error.colno}, in {_excerpt(text.strip())}"
    except (ValueError, RecursionError) as error:  # a number too long, a nesting too deep
        return f"not usable JSON: {error}"
    if not isinstance(row, dict):
        return f"expected a JSON object, got {_name_kind(row)}"
    fields = cast("dict[str, object]", row)
    if missing := [name for name in required if name not in fields]:
        there = ", ".join(map(repr, fields)) or "none"
        return f"lacks {', '.join(map(repr, missing))}; its fields: {_excerpt(there, quote=False)}"
    return fields


def _name_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "an array"
    return "a string" if isinstance(value, str) else "a number"


def _excerpt(text: str, *, quote: bool = True) -> str:
    short = text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 3] + "..."
    return repr(short) if quote else short
