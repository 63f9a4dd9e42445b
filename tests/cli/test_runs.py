"""`millpond runs`: what is there, newest first."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from millpond.record import Record, RunState
from tests.cli.support import InProcess, finish, start, until_said

HANGING = """\
import asyncio
from millpond.flow import Pipeline
from millpond.jobs import Job, job

async def supply(): ...
async def request(item):
    if item == "b":
        await asyncio.Event().wait()
    return item
async def consume(t, answer, item): return answer

@job
async def hanging():
    return Job(Pipeline(supply=supply, request=request, consume=consume), items="ab", key=str)
"""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process."""
    return InProcess(tmp_path, monkeypatch, capsys)


async def leave(folder: Path, state: RunState) -> None:
    """Leave a run in a state."""
    async with Record.create(folder, run_id=folder.name, job="work", settings={"n": 1}) as record:
        record.answer("a", 1)
        await record.close(state=state)


@pytest.mark.parametrize("options", [(), ("--runs-dir", "other")], ids=["default", "option"])
def test_no_runs_yet(command: InProcess, options: tuple[str, ...]) -> None:
    """No error: an empty list, or a line that says where was looked."""
    ended = command("runs", *options)
    assert (ended.code, ended.output) == (0, "")
    where = options[-1] if options else "millpond-runs"
    assert ended.errors == f"no runs in {where}; start one with `millpond run codeeval`\n"
    ended = command("runs", "--json", *options)
    assert ended.facts == {"schema": 1, "runs_dir": where, "runs": []}
    assert ended.errors == ""


def test_runs_are_listed_newest_first_with_their_states(command: InProcess) -> None:
    """Finished, interrupted, failed, and a folder that cannot be read, as table and as JSON."""
    runs = command.folder / "millpond-runs"
    for name, state in (
        ("one", RunState.FINISHED),
        ("two", RunState.INTERRUPTED),
        ("three", RunState.FAILED),
    ):
        asyncio.run(leave(runs / name, state))
    (runs / "four").mkdir()
    (runs / "four" / "record.db").write_bytes(b"no database at all")
    (runs / ".hidden").mkdir()
    ended = command("runs", "--json")
    assert (ended.code, ended.errors) == (0, "")
    rows = ended.facts["runs"]
    assert [row["run_id"] for row in rows] == ["four", "three", "two", "one"]
    assert [row["state"] for row in rows] == ["broken", "failed", "interrupted", "finished"]
    assert rows[0]["problem"]
    assert (rows[3]["job"], rows[3]["settings"], rows[3]["answers"]) == ("work", {"n": 1}, 1)
    text = command("runs").output
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["run", "state"]
    starts = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert starts == ["run", "four", "three", "two", "one"]
    assert lines[-1].split()[:3] == ["one", "finished", "1"]


def test_running_then_crashed_then_finished(command: InProcess) -> None:
    """A run that is being written is running; killed, it is crashed; it can be resumed."""
    command.write("hanging.py", HANGING)
    process = start("run", "hanging.py", cwd=command.folder)
    until_said(process, "Ctrl+C")
    (row,) = command("runs", "--json").facts["runs"]
    assert (row["state"], row["pid"]) == ("running", process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    (row,) = command("runs", "--json").facts["runs"]
    assert (row["state"], row["pid"]) == ("crashed", None)
    command.write("hanging.py", HANGING.replace('item == "b"', "False"))
    resumed = command("run", "hanging.py", "--resume", "last", "--json")
    assert (resumed.code, resumed.facts["ok"]) == (0, 2)
    (row,) = command("runs", "--json").facts["runs"]
    assert row["state"] == "finished"


def test_a_root_that_is_no_folder(command: InProcess) -> None:
    """Exit code 2, with its name."""
    command.write("file", "")
    ended = command("runs", "--runs-dir", "file")
    assert (ended.code, ended.output) == (2, "")
    assert "where: file" in ended.errors
