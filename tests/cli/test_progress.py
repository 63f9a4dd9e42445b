"""What is shown while a job runs: a live line on a terminal, a line now and then elsewhere."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest

from millpond.cli import _exit, _progress
from millpond.cli._progress import line_of
from millpond.flow import Pipeline
from tests.cli.support import Ended, InProcess, finish, start

SLOW = '''\
import asyncio
from pathlib import Path
from millpond.flow import Pipeline
from millpond.jobs import Job, job

async def supply(): ...
async def request(item):
    while not Path("shown").exists():
        await asyncio.sleep(0.01)
    return item
async def consume(t, answer, item): return answer

@job
async def slow():
    """Wait until somebody has seen the progress."""
    work = Pipeline(supply=supply, request=request, consume=consume)
    return Job(work, items="abc", key=str, total=3)
'''


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process, beside a job that waits."""
    command = InProcess(tmp_path, monkeypatch, capsys)
    command.write("slow_job.py", SLOW)
    return command


async def test_a_line_says_how_far_it_is_and_what_waits() -> None:
    """Before, and after: what is 0 and no news is left out."""

    async def supply() -> None:
        return

    async def request(item: int) -> int:
        if item == 2:
            raise OSError
        return item

    async def consume(_: None, answer: int, __: int) -> int:
        return answer

    async with Pipeline(supply=supply, request=request, consume=consume).run([1, 2, 3]) as run:
        assert line_of(run, 3, 0.2) == "0 s | 0/3 | 0 ok | 0 in flight | 0 ready"
        async for _ in run:
            pass
    assert line_of(run, 3, 61.4) == "61 s | 3/3 | 2 ok | 1 not ok | 0 in flight | 0 ready"
    assert line_of(run, None, 61.4).startswith("61 s | 3 of 3 | 2 ok")


def test_without_a_terminal_a_line_comes_now_and_then(
    command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error; the other output holds the result and nothing else."""

    def say(text: str) -> None:
        _exit.say(text)
        (command.folder / "shown").touch()

    monkeypatch.setattr(_progress, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(_progress, "say", say)
    ended = command("run", "slow_job.py", "--json")
    assert (ended.code, ended.facts["ok"]) == (0, 3)
    assert " s | 0/3 | 0 ok | 3 in flight | " in ended.errors
    assert "\x1b" not in ended.errors


class Terminal:
    """A terminal of 100 columns, with somebody who reads what is written there."""

    def __init__(self, seen: str, then: Path) -> None:
        self.screen = b""
        self._seen, self._then = seen.encode(), then
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._ours, 65536)
            except OSError:  # everybody on the other side has left
                return
            self.screen += read
            if self._seen in self.screen:
                self._then.touch()

    def close(self) -> str:
        """Return all that was written to it."""
        os.close(self.theirs)
        self._reader.join(10)
        os.close(self._ours)
        return self.screen.decode()


def run_on_terminal(folder: Path, *options: str, result_too: bool = False) -> tuple[Ended, str]:
    """Run the slow job with standard error on a terminal; it ends once the line was seen.

    Args:
        folder: Where it runs.
        options: Of the command.
        result_too: Whether standard output is on that terminal as well.

    Returns:
        How it ended, and all that was written to the terminal.
    """
    (folder / "slow_job.py").write_text(SLOW)
    terminal = Terminal("3 in flight", folder / "shown")
    process = start(
        "run",
        "slow_job.py",
        *options,
        cwd=folder,
        stdout=terminal.theirs if result_too else subprocess.PIPE,
        stderr=terminal.theirs,
        environ={"TERM": "xterm"},
    )
    ended = finish(process)
    return ended, terminal.close()


def test_on_a_terminal_a_line_is_kept_up_to_date(tmp_path: Path) -> None:
    """It is written over itself on standard error, and taken away at the end."""
    ended, screen = run_on_terminal(tmp_path)
    assert ended.code == 0
    assert "0/3 | 0 ok | 3 in flight" in screen
    assert "\r\x1b[2K" in screen
    assert screen.rstrip().endswith("\x1b[2K")


def test_the_result_goes_where_standard_output_goes(tmp_path: Path) -> None:
    """`millpond run ... > file` typed at a terminal: the file holds the table, whole and alone."""
    ended, screen = run_on_terminal(tmp_path)
    assert ended.code == 0
    lines = ended.output.splitlines()
    assert lines[0] == "     3  ok"
    assert lines[-2].startswith("3 items: 3 ok. ")
    assert lines[-1].endswith("record.db")
    assert "record.db" not in screen
    assert "\x1b" not in ended.output


def test_the_json_goes_where_standard_output_goes(tmp_path: Path) -> None:
    """The file holds one object, although a line is kept up to date on the terminal."""
    ended, screen = run_on_terminal(tmp_path, "--json")
    assert (ended.code, ended.facts["ok"]) == (0, 3)
    assert ended.output.count("\n") == 1
    assert "record.db" not in screen


def test_the_line_is_taken_away_before_the_result_is_printed(tmp_path: Path) -> None:
    """With both outputs on one terminal, nothing of the result is written over."""
    ended, screen = run_on_terminal(tmp_path, result_too=True)
    assert ended.code == 0
    _, first, rest = screen.partition("     3  ok")
    assert first
    assert "record.db" in rest
    assert "\x1b" not in rest
    assert "in flight |" not in rest
