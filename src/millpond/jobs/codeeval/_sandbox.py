"""Sandboxes: interpreters that run one foreign program each, and are thrown away.

A `Zygote` is a warm process beside this one; `Zygote.fork` has it fork a `Sandbox`.
What happens over there is described in ``_zygote.py``; here is the waiting.

**This is not a security boundary.** It keeps mistakes from doing harm: a program that
loops, floods, eats memory or leaves processes behind. Who runs the code of somebody
who means harm needs a virtual machine.

Invariants:
    S1  A sandbox runs at most one program.
    S2  Whoever leaves early (cancel, time limit) has told the zygote to close the
        sandbox before he goes; nobody has to be awaited for that to happen.
    S3  When the zygote's block is left, its processes are gone, and its directory.
    S4  Every wait for the zygote ends: with an answer, with its death, or in bounded time.
"""

import asyncio
import itertools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast, final

from millpond._base import offload
from millpond.errors import Closed, DeadlineError, MillpondError, Transient, UsageError
from millpond.jobs.codeeval import _zygote
from millpond.jobs.codeeval._limits import Limits
from millpond.jobs.codeeval._verdict import Facts, Verdict, judge, signal_name

__all__ = ["PRELOAD", "Protections", "Sandbox", "SandboxError", "Zygote", "ZygoteStatistics"]

T = TypeVar("T")

# How long the zygote may take for what is a matter of milliseconds. Reached only when
# it is stopped, or the machine is.
START_SECONDS: Final = 30.0
FORK_SECONDS: Final = 30.0
VERDICT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 10.0
EXIT_SECONDS: Final = 10.0

PRELOAD: Final = (
    "abc",
    "array",
    "ast",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "cmath",
    "collections.abc",
    "concurrent.futures",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "_strptime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "inspect",
    "io",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "os.path",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "re",
    "secrets",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "traceback",
    "typing",
    "unicodedata",
    "unittest",
    "uuid",
    "warnings",
    "zlib",
)
"""What a zygote imports before it forks, unless told otherwise."""


class SandboxError(MillpondError, RuntimeError):
    """The machinery failed. It says nothing about the program."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """Which protections are really active: each was tried, not assumed."""

    network: bool
    """No network: a network namespace without interfaces, loopback included."""
    user: bool
    """Each sandbox is an unprivileged user of its own; the limit on processes holds."""
    privileges: bool
    """No program that is started in it can gain privileges (setuid and the like)."""
    memory: bool
    """The limit on memory holds."""
    parent_death: bool
    """A sandbox dies with the zygote, even when that is killed."""
    strays: bool
    """Processes that left the sandbox's process group are found and killed."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of those that this system does not give."""
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteStatistics:
    """What a `Zygote` has done, at one moment."""

    forked: int
    """How many sandboxes it was asked for."""
    alive: int
    """How many of them are not gone yet: process, strays, and directory."""
    peak: int
    """The most that were alive at once."""


@final
class Zygote:
    """A warm process that forks sandboxes. Belongs to one event loop.

    An async context manager. Entering starts the process and waits until its imports
    are done; leaving kills and reaps everything it forked, running or not.

    Args:
        limits: What each program may use.
        preload: Modules to import before the first fork. One that is missing is an
            error. None that starts threads: they do not survive a fork.
        directory: Where the sandboxes' directories are made, inside one of the
            zygote's own. Other users must be able to enter it where root starts the
            zygote. None: the system's place for temporary files.

    Example:
        >>> async def main() -> None:
        ...     async with Zygote() as zygote:
        ...         sandbox = await zygote.fork()
        ...         verdict = await sandbox.run("assert 1 + 1 == 3")
        ...         await sandbox.close()
        ...         print(verdict.kind, "-", verdict.detail)
        >>> asyncio.run(main())
        wrong - AssertionError (line 1: assert 1 + 1 == 3)
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        preload: Sequence[str] = PRELOAD,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._preload = tuple(preload)
        self._parent = directory
        self._directory: Path | None = None
        self._protections: Protections | None = None
        self._entered = False
        self._process: asyncio.SubprocessTransport | None = None
        self._control: asyncio.Transport | None = None
        self._ready: asyncio.Future[None]
        self._exited: asyncio.Future[None]
        self._silent = False  # nothing more comes from the control channel
        self._lines: dict[int, _Line] = {}  # those that are not gone
        self._numbers = itertools.count(1)
        self._forked = 0
        self._peak = 0
        self._leaving = False
        self._fatal = ""

    @property
    def protections(self) -> Protections:
        """Which protections are really active.

        Raises:
            UsageError: Before the zygote's block was entered.
        """
        if self._protections is None:
            raise UsageError(self._not_started())
        return self._protections

    @property
    def pid(self) -> int:
        """The warm process.

        Raises:
            UsageError: Before the zygote's block was entered.
        """
        if self._process is None:
            raise UsageError(self._not_started())
        return self._process.get_pid()

    def statistics(self) -> ZygoteStatistics:
        """Return a snapshot."""
        return ZygoteStatistics(forked=self._forked, alive=len(self._lines), peak=self._peak)

    async def __aenter__(self) -> Self:
        """Start the process and wait until it can fork.

        Raises:
            SandboxError: It cannot be started.
            UsageError: It was entered before.

        Cancellation:
            Safe: what was started is ended first, as on leaving.
        """
        if self._entered:
            msg = f"{self!r} was entered before; make a new one"
            raise UsageError(msg)
        self._entered = True
        loop = asyncio.get_running_loop()
        self._ready, self._exited = loop.create_future(), loop.create_future()
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Kill and reap all that is left, and wait until it is gone (S3).

        Sandboxes that still run raise `Closed`.

        Raises:
            SandboxError: Something could not be removed.

        Cancellation:
            The kill was ordered before the first await. A first cancel is raised
            only when all is gone, after 10 s at the latest.
        """
        await self._end()

    async def fork(self) -> "Sandbox":
        """Return a new sandbox, ready for its program.

        Raises:
            Transient: The system has no room for another process just now.
            SandboxError: The zygote has died.
            Closed: The zygote's block was left.
            UsageError: It was not entered yet.

        Cancellation:
            Safe: a sandbox that was made already is closed by the zygote (S2).

        Ordering:
            In the order of the calls.
        """
        if self._protections is None:
            raise UsageError(self._not_started())
        if self._leaving or self._exited.done():
            raise self._death()
        line = _Line(next(self._numbers), self._send)
        self._lines[line.number] = line
        self._forked += 1
        self._peak = max(self._peak, len(self._lines))
        self._send(do="fork", id=line.number)
        error = await line.hear(line.forked, FORK_SECONDS)
        if error is None:
            raise self._death()
        if error:
            msg = f"cannot fork a sandbox: {error}"
            raise Transient(msg)
        return Sandbox(line, self.limits, self._death)

    def __repr__(self) -> str:
        if self._leaving:
            state = "closed"
        elif self._protections is None:
            state = "not started"
        elif self._exited.done():
            state = "dead"
        else:
            state = f"{len(self._lines)} alive"
        return f"<Zygote {state}>"

    # Starting and ending.

    async def _start(self) -> None:
        # The name is known here before anything is made, so that nothing is lost.
        self._directory = await offload(_new_directory, self._parent)
        settings = {
            "directory": str(self._directory),
            "preload": self._preload,
            "limits": asdict(self.limits),
        }
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)  # noqa: FBT003 - the method's name says it
            self._control, _ = await loop.create_unix_connection(
                lambda: _Control(self._heard, self._fell_silent), sock=ours
            )
            self._process, _ = await loop.subprocess_exec(
                lambda: _Process(self._process_exited),
                sys.executable,
                *("-I", "-X", "utf8", _zygote.__file__),
                str(theirs.fileno()),
                json.dumps(settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=_loader_environment(),
                cwd="/",
                start_new_session=True,  # Ctrl+C is for this process, not for that one
            )
        except OSError as error:
            msg = f"cannot start the warm process {sys.executable}: {error}"
            raise SandboxError(msg) from error
        finally:
            theirs.close()
            if self._control is None:
                ours.close()
        if not await _settled(self._ready, START_SECONDS):
            msg = f"the warm process did not get ready within {START_SECONDS:g} s"
            raise SandboxError(msg)
        if self._protections is None:
            raise self._death()

    async def _end(self) -> None:
        self._leaving = True
        if self._control is not None:
            self._control.abort()  # the zygote sees its channel end, and cleans up (Z4)
        cancelled: asyncio.CancelledError | None = None
        late = left = ""
        if self._process is not None:
            try:
                gone = await _settled(self._exited, EXIT_SECONDS)
            except asyncio.CancelledError as error:
                cancelled = error  # raised below; a second one is raised at once
                gone = await _settled(self._exited, EXIT_SECONDS)
            if not gone:
                late = f"the warm process did not end within {EXIT_SECONDS:g} s; it was killed"
                self._process.kill()
                await _settled(self._exited, EXIT_SECONDS)
            self._process.close()
        self._settle_all()
        if self._directory is not None and (
            self._process is None or self._process.get_returncode() != 0
        ):
            left = await offload(_remove, self._directory)
        if cancelled is not None:
            raise cancelled
        if late or left:
            raise SandboxError("; ".join(filter(None, (late, left))))

    def _not_started(self) -> str:
        return f"{self!r} has to be entered first: `async with zygote:`"

    def _death(self) -> MillpondError:
        """Return the error for those who still want something of it."""
        if self._leaving and self._protections is not None:
            return Closed("the zygote")
        status = None if self._process is None else self._process.get_returncode()
        how = f"ended with status {status}" if status is not None else "has not started"
        if status is not None and status < 0:
            how = f"was killed ({signal_name(-status)})"
        why = f": {self._fatal.strip().splitlines()[-1]}" if self._fatal else ""
        error = SandboxError(f"the warm process {how}{why}; start a new `Zygote`")
        if self._fatal:
            error.add_note(self._fatal)
        return error

    # What comes from the other side.

    def _send(self, **command: object) -> None:
        if self._control is not None and not self._control.is_closing():
            self._control.write(_zygote.frame(json.dumps(command).encode()))

    def _heard(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "ready", "protections": protections}:
                self._protections = Protections(**protections)
                _settle(self._ready, None)
            case {"event": "fatal", "error": error}:
                self._fatal = error
            case {"event": "failed", "id": number, "error": error}:
                _settle(self._lines[number].forked, error)
            case {"event": "forked", "id": number}:
                _settle(self._lines[number].forked, "")
            case {"event": "ended", "id": number}:
                _settle(self._lines[number].ended, cast("Facts", event))
            case {"event": "closed", "id": number, "error": error}:
                _settle(self._lines.pop(number).closed, error)
            case _:
                # Ends the connection, and so the zygote.
                msg = f"the warm process said {event!r}, which is not in its protocol"
                raise SandboxError(msg)

    def _fell_silent(self) -> None:
        self._silent = True
        if self._exited.done():
            self._settle_all()

    def _process_exited(self) -> None:
        _settle(self._exited, None)
        if self._silent:  # else its last words are still to be read
            self._settle_all()

    def _settle_all(self) -> None:
        """Let everybody go: nothing will be answered any more."""
        _settle(self._ready, None)
        for line in self._lines.values():
            _settle(line.forked, None)
            _settle(line.ended, None)
            _settle(line.closed, "")
        self._lines.clear()


@final
class Sandbox:
    """An interpreter that runs one program. Made by `Zygote.fork` only.

    Call `close` when it is not wanted any more, whether it ran something or not.
    """

    __slots__ = ("_death", "_limits", "_line", "_used")

    def __init__(self, line: "_Line", limits: Limits, death: Callable[[], MillpondError]) -> None:
        self._line = line
        self._limits = limits
        self._death = death
        self._used = False

    async def run(self, program: str) -> Verdict:
        """Run a program from its first line to its last, and say how it ended.

        Its process is dead when this returns, and its process group killed; strays and
        the directory are gone when `close` has returned.

        Raises:
            UsageError: The sandbox was used before (S1).
            Closed: The sandbox or its zygote is closed, also while the program runs.
            SandboxError: The zygote has died.
            Transient: The sandbox died before the program began.

        Cancellation:
            The sandbox is closed (S2). The verdict is lost.
        """
        if self._used:
            msg = f"{self!r} has run its program; fork another sandbox"
            raise UsageError(msg)
        self._used = True
        line = self._line
        if line.closing:
            raise Closed(line.name)
        line.send(do="run", id=line.number, program=program)
        facts = await line.hear(line.ended, self._limits.wall_seconds + VERDICT_SECONDS)
        if facts is None:
            raise self._death()
        if facts["killed"] == "closed" and facts["report"] is None:
            raise Closed(line.name)
        if not facts["begun"]:
            msg = f"{line.name} died before its program began"
            raise Transient(msg)
        return judge(facts, self._limits)

    async def close(self) -> None:
        """Kill what runs, and wait until processes and directory are gone.

        May be called at any time, by several at once, and again. Returns at once when
        the zygote is dead: what was left is removed where its block ends.

        Raises:
            DeadlineError: It was not gone within 10 s.
            SandboxError: Its directory could not be removed.

        Cancellation:
            Safe: the zygote goes on with it.
        """
        self._line.discard()
        if not await _settled(self._line.closed, CLOSE_SECONDS):
            raise DeadlineError(
                layer="closing a sandbox", timeout=CLOSE_SECONDS, elapsed=CLOSE_SECONDS
            )
        if left := self._line.closed.result():
            raise SandboxError(left)

    def __repr__(self) -> str:
        return f"<Sandbox {self._line.number} {self._state()}>"

    def _state(self) -> str:
        line = self._line
        if line.closed.done():
            return "closed"
        if line.closing:
            return "closing"
        if line.ended.done():
            return "ended" if self._used else "dead"
        return "running" if self._used else "ready"


class _Line:
    """What the zygote says of one sandbox, as it comes in."""

    __slots__ = ("closed", "closing", "ended", "forked", "number", "send")

    def __init__(self, number: int, send: Callable[..., None]) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.send = send
        self.closing = False
        # None stands for "the zygote has died". No exception is ever set: a future
        # that nobody awaits any more must not complain of one.
        self.forked: asyncio.Future[str | None] = loop.create_future()
        self.ended: asyncio.Future[Facts | None] = loop.create_future()
        self.closed: asyncio.Future[str] = loop.create_future()

    @property
    def name(self) -> str:
        """What people call it."""
        return f"sandbox {self.number}"

    async def hear(self, answer: asyncio.Future[T], seconds: float) -> T:
        """Return the zygote's answer.

        Raises:
            SandboxError: It has not come within *seconds*; the sandbox is discarded.

        Cancellation:
            The sandbox is discarded (S2).
        """
        try:
            answered = await _settled(answer, seconds)
        except asyncio.CancelledError:
            self.discard()
            raise
        if not answered:
            self.discard()
            msg = f"the warm process has not answered for {seconds:g} s"
            raise SandboxError(msg)
        return answer.result()

    def discard(self) -> None:
        """Have the zygote close it, whatever its state (S2)."""
        if not self.closing:
            self.closing = True
            self.send(do="close", id=self.number)


class _Control(asyncio.Protocol):
    """The control channel."""

    def __init__(self, heard: Callable[[dict[str, Any]], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._inbox = bytearray()

    def data_received(self, data: bytes) -> None:
        self._inbox += data
        for payload in _zygote.take_frames(self._inbox):
            self._heard(json.loads(payload))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        self._lost()


class _Process(asyncio.SubprocessProtocol):
    """The zygote's process."""

    def __init__(self, exited: Callable[[], None]) -> None:
        self._exited = exited

    def process_exited(self) -> None:
        self._exited()


async def _settled(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for *future* without owning it: several may, and each may be cancelled."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done()


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _loader_environment() -> dict[str, str]:
    """Return what the interpreter may need to start, and nothing else.

    The zygote forgets even that, but ``/proc/self/environ`` shows it for ever.
    """
    names = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in names if name in os.environ}


def _new_directory(parent: str | os.PathLike[str] | None) -> Path:
    """Choose a name. The zygote makes the directory."""
    where = Path(tempfile.gettempdir() if parent is None else parent)
    return where.absolute() / f"millpond-{secrets.token_hex(8)}"


def _remove(directory: Path) -> str:
    """Remove what a zygote left that was killed. Return what is wrong, or nothing."""
    try:
        _zygote.remove_tree(directory)
    except OSError as error:
        if os.path.lexists(directory):
            return f"{directory} could not be removed: {error}"
    return ""
