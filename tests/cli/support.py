"""Running the command: in this process where that is enough, and in one of its own."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self, cast

import pytest

import millpond
from millpond.cli._app import run_command_line
from millpond.jobs.codeeval._answers import AnswerBook
from millpond.jobs.codeeval._problems import load_problems
from millpond.jobs.codeeval._provider import EmbeddedProvider

DEADLINE_SECONDS = 30.0
SOURCE = Path(millpond.__file__).resolve().parents[1]
KEY = "sk-of-the-tests"

QUICK = ("--latency", "0.02", "--time-limit", "1")
"""Options with which the job takes no longer than it must."""
FOREIGN = ("--allow-code-execution", "--allow-missing-isolation")
"""What foreign code needs; the second matters only to an ordinary user."""


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    output: str
    errors: str

    @property
    def facts(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        return cast("dict[str, Any]", json.loads(self.output))

    @property
    def table(self) -> str:
        """Standard output up to the line that tells the time."""
        table, marker, _ = self.output.partition(" items: ")
        assert marker, self.output
        return table.rpartition("\n")[0]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, without what would change a run."""
    strange = ("MILLPOND_", "OPENAI_", "PHYSICAL_CAP", "CAPACITY_PROFILE", "COLUMNS", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    found = kept.get("PYTHONPATH")
    # Absolute: the commands run in other folders.
    kept["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *([found] if found else [])])
    return {**kept, **more}


def start(
    *arguments: str,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start the command as the leader of a process group, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "millpond", *arguments],
        cwd=cwd,
        env=environment(**(environ or {})),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for its end; one that has none is killed, and the test fails."""
    with process:
        try:
            output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Ended(process.returncode, output or "", errors or "")


def run(*arguments: str, cwd: Path, **environ: str) -> Ended:
    """Run the command in a process of its own, to its end."""
    return finish(start(*arguments, cwd=cwd, environ=environ))


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def until_said(process: subprocess.Popen[str], text: str) -> str:
    """Read what the process says until a line holds *text*; return all that was read."""
    assert process.stderr is not None
    read: list[str] = []
    # Its end ends the reading, so a program that never says it does not hold the test.
    deadline = threading.Timer(DEADLINE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    deadline.start()
    try:
        for line in process.stderr:
            read.append(line)
            if text in line:
                return "".join(read)
    finally:
        deadline.cancel()
    msg = f"{text!r} was never said, but {read}"
    raise AssertionError(msg)


def processes(marker: object) -> list[int]:
    """Return the pids of those that have *marker* in their command line."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and str(marker).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def sandbox_place() -> Generator[Path]:
    """Give a TMPDIR in which the sandboxes of a command live, and leave it empty.

    Its name is in the command line of a zygote and of whatever was forked from it. (Not a
    folder of pytest's: other users, as sandboxes are, cannot enter that.)
    """
    place = Path(tempfile.mkdtemp(prefix="sandboxes-"))
    place.chmod(0o755)
    try:
        yield place
        until(lambda: not processes(place))
        until(lambda: not list(place.iterdir()))
    finally:
        shutil.rmtree(place)


def query(record: Path, question: str) -> list[tuple[Any, ...]]:
    """Ask a record something, also while it is being written."""
    with contextlib.closing(
        sqlite3.connect(f"{record.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    ) as connection:
        return connection.execute(question).fetchall()


def only_run(runs: Path) -> Path:
    """Return the folder of the one run there is."""
    (folder,) = runs.iterdir()
    return folder


class Serving:
    """An embedded provider in a thread of its own: it outlives the commands that ask it."""

    def __init__(self, *, mean_seconds: float, n: int = 1, completions_key: str = KEY) -> None:
        self._settings = (mean_seconds, n, completions_key)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self.book: AnswerBook
        self.provider: EmbeddedProvider

    async def _serve(self) -> None:
        mean_seconds, n, key = self._settings
        self.book = AnswerBook((await load_problems()).problems, n=n)
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with EmbeddedProvider(
            self.book, mean_seconds=mean_seconds, fault_rate=0.0, key=key
        ) as self.provider:
            self._ready.set()
            await self._end.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(DEADLINE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(DEADLINE_SECONDS)

    @property
    def options(self) -> tuple[str, ...]:
        """What the command needs to ask it."""
        model = ("--model", self.provider.model, "--base-url", self.provider.base_url)
        return (*model, "--time-limit", "1", *FOREIGN)

    @property
    def delivered(self) -> dict[tuple[str, int], int]:
        """How often each answer was delivered."""
        return dict(self.provider.statistics().delivered)


class InProcess:
    """The command, run in this process."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in os.environ.keys() - environment().keys():
            monkeypatch.delenv(name)
        monkeypatch.chdir(folder)
        # A job's file is put on the path, and among the modules, as in a process of its own.
        monkeypatch.setattr(sys, "path", [*sys.path])
        self._known = set(sys.modules)
        self._capsys = capsys
        self.folder = folder

    def __call__(self, *arguments: str) -> Ended:
        """Run the command to its end, within the deadline."""
        self._capsys.readouterr()
        with bounded():
            code = run_command_line(arguments)
        for name in [name for name in sys.modules if name not in self._known]:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if origin.startswith(str(self.folder)):
                del sys.modules[name]
        captured = self._capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    def write(self, name: str, text: str) -> str:
        """Write a file next to the runs; return its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


@contextlib.contextmanager
def bounded() -> Generator[None]:
    """Fail if the block takes longer than the deadline."""

    def on_alarm(_: int, __: FrameType | None) -> None:
        msg = f"not over after {DEADLINE_SECONDS} s"
        raise AssertionError(msg)

    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
