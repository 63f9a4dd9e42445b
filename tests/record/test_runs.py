"""Looking at runs: at any time, tolerant of what is broken, and without changing anything."""

import fcntl
import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from millpond._base import Status, offload
from millpond.errors import RecordError
from millpond.record import (
    Record,
    RunState,
    list_runs,
    list_runs_async,
    read_run,
    read_run_async,
)
from tests.record.support import child, contents, ended, new, rows, tamper


async def make(folder: Path, run_id: str) -> None:
    """Make a finished run."""
    async with Record.create(folder, run_id=run_id, job="demo", settings={}):
        pass


async def test_a_run_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    """It shows what is committed, that it runs, and who writes it."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
        record.answer("b", 1)
        record.finish("a", ended(value=1))
        record.finish("b", ended(Status.FAILED))
        record.finish("c", ended(Status.FAILED))
        await record.committed("c")
        info = await read_run_async(tmp_path)
    assert (info.run_id, info.job, info.settings) == ("r1", "demo", {"n": 3})
    assert (info.state, info.pid, info.problem) == (RunState.RUNNING, os.getpid(), "")
    assert info.answers == 2
    assert info.by_status == {Status.OK: 1, Status.FAILED: 2}
    info = await read_run_async(tmp_path)
    assert (info.state, info.pid) == (RunState.FINISHED, None)
    assert info.state_at > info.created_at


async def test_reading_while_writing_disturbs_nobody(tmp_path: Path) -> None:
    """A reader in a tight loop, while a thousand items are committed one by one."""
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            info = read_run(tmp_path)
            assert info.state in (RunState.RUNNING, RunState.FINISHED)
            seen.append(info.answers)

    async with new(tmp_path) as record:
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(300):
            record.answer(f"k{number}", number)
            await record.committed(f"k{number}")
    stop.set()
    await offload(reader.join)
    assert seen == sorted(seen)
    assert read_run(tmp_path).answers == 300


async def test_a_writer_that_meets_a_reader_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that asks whether the lock is held has it for a moment itself."""
    await make(tmp_path, "r1")
    with (tmp_path / "record.lock").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            fcntl.flock(reader, fcntl.LOCK_UN)

        monkeypatch.setattr("millpond.record._lock.time", SimpleNamespace(sleep=pause))
        async with Record.resume(tmp_path):
            pass
        assert len(pauses) == 1


async def test_readers_do_not_keep_a_writer_out(tmp_path: Path) -> None:
    """A reader has the lock for a moment; a writer that meets it tries again."""
    await make(tmp_path, "r1")
    tamper(tmp_path, "UPDATE meta SET state = 'running'")  # makes readers look at the lock
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            read_run(tmp_path)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(10):
            async with Record.resume(tmp_path) as record:
                record.event("x")
                await record.close(state="interrupted")
            tamper(tmp_path, "UPDATE meta SET state = 'running'")
    finally:
        stop.set()
        for reader in readers:
            await offload(reader.join)


async def test_a_run_that_nobody_writes_has_crashed(tmp_path: Path) -> None:
    """Its record says running, but no process holds it."""
    other = child("hold", tmp_path)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    assert read_run(tmp_path).state is RunState.RUNNING
    other.kill()
    other.communicate()
    info = read_run(tmp_path)
    assert (info.state, info.pid, info.problem) == (RunState.CRASHED, None, "")
    async with Record.resume(tmp_path):
        assert read_run(tmp_path).state is RunState.RUNNING
    assert read_run(tmp_path).state is RunState.FINISHED


async def test_a_run_that_ends_while_one_looks_has_not_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said running, then it ended, and then nobody held it."""
    await make(tmp_path, "r1")
    tamper(tmp_path, "UPDATE meta SET state = 'running'")

    def ends_just_now(folder: Path) -> bool:
        tamper(folder, "UPDATE meta SET state = 'finished'")
        return False

    monkeypatch.setattr("millpond.record._runs.is_held", ends_just_now)
    assert read_run(tmp_path).state is RunState.FINISHED


async def test_looking_changes_nothing(tmp_path: Path) -> None:
    """Not even at a run that has crashed: its log is for whoever resumes it."""
    other = child("write", tmp_path)
    assert other.stdout is not None
    other.stdout.readline()
    other.kill()
    other.communicate()
    before = contents(tmp_path)
    assert before["record.db-wal"]
    assert read_run(tmp_path).state is RunState.CRASHED
    assert contents(tmp_path) == before


async def test_a_run_whose_writer_was_killed_at_the_wrong_moment_can_be_read(
    tmp_path: Path,
) -> None:
    """While it changed the kind of its log: what was half done is undone by who looks."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    async with new(run) as record:
        record.answer("a", 1)
    with closing(sqlite3.connect(run / "record.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that it spills into the file
        connection.execute("BEGIN")
        connection.execute("UPDATE meta SET state = 'failed'")
        for number in range(200):
            connection.execute("INSERT INTO answers VALUES (?, ?, '')", (number, "x" * 999))
        shutil.copytree(run, copy)
    assert (copy / "record.db-journal").stat().st_size > 1_000
    info = read_run(copy)
    assert (info.state, info.answers) == (RunState.FINISHED, 1)


async def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """By the time of their creation, whatever their names."""
    for run_id in ("b", "c", "a"):
        await make(tmp_path / run_id, run_id)
    assert [run.run_id for run in list_runs(tmp_path)] == ["a", "c", "b"]
    assert [run.run_id for run in await list_runs_async(tmp_path)] == ["a", "c", "b"]


async def test_a_broken_folder_is_a_row_that_says_what_is_wrong(tmp_path: Path) -> None:
    """One run that cannot be read hides none of the others."""
    await make(tmp_path / "good", "good")
    for name in ("newer", "odd", "cut"):
        await make(tmp_path / name, name)
    tamper(tmp_path / "newer", "UPDATE meta SET schema_version = 99")
    tamper(
        tmp_path / "odd",
        "INSERT INTO outcomes VALUES ('a', 'meh', NULL, '', '', NULL, NULL, '', '{}', '')",
    )
    os.truncate(tmp_path / "cut" / "record.db", 5_000)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "record.db").write_text("this is not a database, by far " * 100)
    (tmp_path / "folder" / "record.db").mkdir(parents=True)
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "record.db").symlink_to("nowhere")
    (tmp_path / "file").touch()
    (tmp_path / ".hidden").mkdir()
    found = {run.run_id: run for run in list_runs(tmp_path)}
    assert found.pop("good").problem == ""
    assert {run.state for run in found.values()} == {RunState.BROKEN}
    problems = {name: run.problem for name, run in found.items()}
    assert set(problems) == {"newer", "odd", "cut", "empty", "text", "folder", "dangling"}
    assert "schema 99" in problems["newer"]
    assert "'meh' is not a valid Status" in problems["odd"]
    assert "malformed" in problems["cut"]
    assert "the folder holds no record" in problems["empty"]
    assert "file is not a database" in problems["text"]
    assert "cannot read the record" in problems["folder"]
    assert "unable to open" in problems["dangling"]
    assert all(run.created_at for run in found.values())  # the folder's, so that it has a place


async def test_facts_are_for_programs(tmp_path: Path) -> None:
    """They fit into JSON, those of a broken run too."""
    async with new(tmp_path / "run") as record:
        record.finish("a", ended(Status.FAILED))
        await record.close(state="interrupted", reason="Ctrl+C")
    (tmp_path / "broken").mkdir()
    facts = {run.run_id: json.loads(json.dumps(run.facts())) for run in list_runs(tmp_path)}
    assert facts["r1"].pop("created_at") < facts["r1"].pop("state_at")
    assert facts["r1"].pop("millpond_version")
    assert facts["r1"] == {
        "run_id": "r1",
        "job": "demo",
        "state": "interrupted",
        "state_reason": "Ctrl+C",
        "folder": str(tmp_path / "run"),
        "record": str(tmp_path / "run" / "record.db"),
        "settings": {"n": 3},
        "answers": 0,
        "by_status": {"failed": 1},
        "pid": None,
        "problem": "",
    }
    assert facts["broken"]["state"] == "broken"


def test_without_a_root_there_are_no_runs(tmp_path: Path) -> None:
    """Nobody has run anything yet."""
    assert list_runs(tmp_path / "millpond-runs") == []


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    """A slip of the pen should not look like an empty list."""
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="cannot list the runs: Not a directory"):
        list_runs(tmp_path / "file")


async def test_a_record_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """In the words of `Record.resume`."""
    with pytest.raises(RecordError, match="there is no such folder"):
        await read_run_async(tmp_path / "nowhere")
    with pytest.raises(RecordError, match=r"the folder holds no record.*record\.db"):
        read_run(tmp_path)


async def test_an_ended_record_may_be_copied_as_one_file(tmp_path: Path) -> None:
    """And read where nothing else of the folder is."""
    async with new(tmp_path / "run") as record:
        record.answer("a", 1)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "record.db").write_bytes((tmp_path / "run" / "record.db").read_bytes())
    assert rows(tmp_path / "copy", "SELECT value FROM answers") == [("1",)]
    assert read_run(tmp_path / "copy").state is RunState.FINISHED
