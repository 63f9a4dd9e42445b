"""The disk fails: what was committed stays, the program goes on, and the error says what to do."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from millpond._base import offload
from millpond.errors import RecordError
from millpond.record import Record, RunState, read_run
from tests.record.support import child, ended, locked_by_another, new, rows, tamper


def mounted(script: str) -> tuple[str, ...]:
    """Return a prefix that runs a command after *script*, with mounts of its own."""
    return ("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")


def can_mount() -> bool:
    """Whether this user may mount."""
    if shutil.which("unshare") is None:
        return False
    command = mounted("mount -t tmpfs -o size=64k tmpfs /mnt")
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="this user may not mount file systems")


def fill(*arguments: str | Path, wrapped: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run `writing_child.py fill` to its end; return what it says."""
    with child("fill", *arguments, wrapped=wrapped) as process:
        out, _ = process.communicate()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


@needs_mounts
def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """A real one. The program goes on, and the run resumes once there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    found = fill(disk / "run", "2", wrapped=mounted(f"mount -t tmpfs -o size=2m tmpfs {disk}"))
    assert found["committed"] > 10
    assert found["missing"] == []
    assert len(found["refused"]) == 3
    assert "database or disk is full" in found["failed"]
    assert "make room, then resume the run" in found["failed"]
    assert found["refused"] == [found["failed"]] * 3
    assert (found["lost"], found["queued"]) == (3, 0)
    assert found["state_when_full"] in ("failed", "crashed")
    assert found["state_afterwards"] == "finished"


def test_a_limit_on_file_size_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """As a full disk, by other means, and for every user."""
    found = fill(tmp_path / "run", "1", "limit")
    assert found["committed"] > 10
    assert found["missing"] == []
    assert len(found["refused"]) == 3
    assert "a limit on the size of files was reached" in found["failed"]
    assert found["state_afterwards"] == "finished"


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
async def test_a_folder_without_permission_to_write_can_be_read_and_not_resumed(
    tmp_path: Path,
) -> None:
    """What a colleague may do with one's runs."""
    folder = tmp_path / "run"
    async with new(folder) as record:
        record.answer("a", 1)
    folder.chmod(0o555)
    (folder / "record.db").chmod(0o444)
    try:
        with child("look", folder) as process:
            out, _ = await offload(process.communicate)
    finally:
        folder.chmod(0o755)
    answers, resumed, created = out.splitlines()
    assert answers == "1"
    assert "cannot open the record: " in resumed
    assert "; make the folder and the file writable" in resumed
    assert "cannot create a record: Permission denied" in created


@needs_mounts
async def test_a_read_only_folder_can_be_read_and_not_resumed(tmp_path: Path) -> None:
    """The kind of medium on which finished runs are kept."""
    async with new(tmp_path / "run") as record:
        record.answer("a", 1)
    folder = str(tmp_path / "run")
    wrapped = mounted(f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}")
    with child("look", folder, wrapped=wrapped) as process:
        out, _ = await offload(process.communicate)
    answers, resumed, created = out.splitlines()
    assert answers == "1"
    assert resumed == (
        f"cannot open the record: Read-only file system ({folder}/record.lock);"
        " make the folder and the file writable"
    )
    assert "cannot create a record: Read-only file system" in created


async def test_a_database_that_stays_locked_counts_as_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the time that was allowed; said once in the log; R1 and R3 hold."""
    async with new(tmp_path, busy_timeout=0.05) as record:
        record.answer("before", 1)
        await record.committed("before")
        with locked_by_another(tmp_path):
            record.answer("a", 1)
            record.finish("a", ended(value=1))
            with pytest.raises(RecordError, match=r"database is locked.*another program") as caught:
                await record.committed("a")
            assert record.failed is not None
            assert caught.value is not record.failed  # one for each who is told
            assert caught.value.hint == record.failed.hint
        assert "failed" in repr(record)
        record.answer("b", 1)  # the program goes on
        record.event("x")
        with pytest.raises(RecordError, match="database is locked"):
            await record.committed("b")
        await record.committed("before")
        now = record.statistics()
        assert (now.queued, now.committed, now.lost) == (0, 1, 4)
    said = [entry for entry in caplog.records if entry.name == "millpond.record"]
    assert [entry.levelno for entry in said] == [logging.ERROR]
    assert "from now on nothing is recorded: cannot write to the record" in said[0].getMessage()
    info = read_run(tmp_path)
    assert (info.state, info.answers) == (RunState.FAILED, 1)
    assert "database is locked" in info.state_reason
    async with Record.resume(tmp_path) as record:
        record.answer("a", 2)


async def test_entries_on_their_way_when_the_store_fails_are_counted(tmp_path: Path) -> None:
    """R1: those of the failed batch, those queued behind it, and those that come later."""
    async with new(tmp_path, busy_timeout=0.05) as record:
        with locked_by_another(tmp_path):
            record.answer("first", 1)
            waiter = asyncio.create_task(record.committed("first"))
            for number in range(100):
                record.answer(f"k{number}", number)
                await asyncio.sleep(0)
            await asyncio.gather(waiter, return_exceptions=True)
            for number in range(100, 200):
                record.answer(f"k{number}", number)
                await asyncio.sleep(0)
        with pytest.raises(RecordError):
            await record.committed("k199")
    now = record.statistics()
    assert (now.queued, now.committed, now.lost) == (0, 0, 201)
    assert rows(tmp_path, "SELECT count(*) FROM answers") == [(0,)]


async def test_a_batch_is_whole_or_absent(tmp_path: Path) -> None:
    """R3: what was written of it before the failure is taken back; the end is still noted."""
    async with new(tmp_path) as record:
        tamper(tmp_path, "DROP TABLE events")
        record.answer("a", 1)
        record.event("x")
        with pytest.raises(RecordError, match="no such table: events"):
            await record.committed("a")
    info = read_run(tmp_path)
    assert (info.state, info.answers) == (RunState.FAILED, 0)


async def test_leaving_says_what_nobody_was_told(tmp_path: Path) -> None:
    """Whoever never waited for a commit learns of the failure at the end."""

    async def session() -> None:
        async with new(tmp_path, busy_timeout=0.05) as record:
            with locked_by_another(tmp_path):
                record.answer("a", 1)
                await record.close()

    with pytest.raises(RecordError, match="database is locked") as caught:
        await session()
    assert caught.value.__notes__ == ["entries lost by now: 1"]


def take_away(folder: Path) -> None:
    """Delete a folder in which a thread may write meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_failing_store_does_not_hide_the_error_that_ended_the_run(tmp_path: Path) -> None:
    """The error of the block comes out; the store's is a note on it."""

    async def session() -> None:
        async with new(tmp_path) as record:
            record.answer("a", 1)
            take_away(tmp_path)
            msg = "boom"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="boom") as caught:
        await session()
    [note] = caught.value.__notes__
    assert "besides, the record was moved, replaced or deleted" in note


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_a_record_that_is_gone_is_noticed(tmp_path: Path, how: str) -> None:
    """SQLite would go on writing into a file that nobody will find."""
    folder = tmp_path / "run"
    async with new(folder) as record:
        record.answer("a", 1)
        await record.committed("a")
        if how == "deleted":
            shutil.rmtree(folder)
        elif how == "moved":
            folder.rename(tmp_path / "elsewhere")
        else:
            (folder / "record.db").rename(folder / "old.db")
            (folder / "record.db").touch()
        record.answer("b", 1)
        with pytest.raises(RecordError, match=r"moved, replaced or deleted .*run/record\.db"):
            await record.committed("b")
        await record.committed("a")  # it was safe when it was said to be


async def test_that_it_is_gone_is_said_rather_than_what_comes_of_it(tmp_path: Path) -> None:
    """The likelier story, when both are true."""
    async with new(tmp_path / "run", busy_timeout=0.05) as record:
        with locked_by_another(tmp_path / "run"):
            shutil.rmtree(tmp_path / "run")
            record.answer("a", 1)
            with pytest.raises(RecordError, match="moved, replaced or deleted"):
                await record.committed("a")


async def test_a_state_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """All is committed, but the end is not noted: the run will look crashed."""
    async with new(tmp_path, busy_timeout=0.05) as record:
        record.answer("a", 1)
        await record.committed("a")
        with (
            locked_by_another(tmp_path),
            pytest.raises(RecordError, match="cannot close the record: database is locked"),
        ):
            await record.close()
    info = read_run(tmp_path)
    assert (info.state, info.answers) == (RunState.CRASHED, 1)


def torn(how: str, log: Path) -> None:
    """Damage the end of SQLite's log as a crash of the machine may."""
    content = log.read_bytes()
    if how == "garbage after it":
        log.write_bytes(content + os.urandom(3_000))
    elif how == "half a frame more":
        log.write_bytes(content + content[-4_120:-2_000])
    else:
        log.write_bytes(content[:-1_000])


@pytest.mark.parametrize("how", ["garbage after it", "half a frame more", "its last part cut off"])
async def test_a_torn_tail_costs_no_more_than_the_tail(tmp_path: Path, how: str) -> None:
    """What stands before the damage is there; what was cut off is whole or absent."""
    folder = tmp_path / "run"
    writer = child("write", folder)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(60)]
    writer.kill()
    rest, _ = writer.communicate()
    said += rest.splitlines()
    torn(how, folder / "record.db-wal")
    (folder / "record.db-shm").unlink()  # it does not outlive the machine
    finished = {line.split()[1] for line in said if line.startswith("finished")}
    async with Record.resume(folder) as record:
        kept = {key for key in finished if (known := record.recall(key)) and known.finished}
        record.event("goes on", "k")
        await record.committed("k")
    lost = len(finished - kept)
    assert lost <= (8 if how == "its last part cut off" else 0)  # one batch of eight writers
    assert kept


async def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Going on would lose more. The hint names the tool that saves what is left."""
    async with new(tmp_path) as record:
        for _ in range(2_000):
            record.event("x", text="x" * 200)  # nothing that a resume would look at
    path = tmp_path / "record.db"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"\.recover` saves what can be read"):
        await Record.resume(tmp_path).__aenter__()
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"not a database " * 400, b"SQLite format 3\0" + b"\xff" * 99])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    """By resume and create alike, and it is left as it is."""
    (tmp_path / "record.db").write_bytes(content)
    for record in (Record.resume(tmp_path), new(tmp_path)):
        with pytest.raises(RecordError, match=r"record: file is not a database .*overwritten"):
            await record.__aenter__()
    assert (tmp_path / "record.db").read_bytes() == content


async def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    """By create; it is the user's file."""
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RecordError, match=r"cannot create a record: File exists .*stands where"):
        await new(tmp_path / "run").__aenter__()
    with pytest.raises(RecordError, match="there is no such folder"):
        await Record.resume(tmp_path / "run").__aenter__()


async def test_an_error_that_nobody_foresaw_ends_no_wait_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the thread itself is heard of, as any failure of the store."""

    def broken(*_: object, **__: object) -> None:
        msg = "a fault"
        raise ZeroDivisionError(msg)

    async with new(tmp_path) as record:
        with monkeypatch.context() as patched:
            patched.setattr("millpond.record._store.Store.write", broken)
            record.answer("a", 1)
            with pytest.raises(RecordError, match="thread failed with ZeroDivisionError: a fault"):
                await record.committed("a")
    with monkeypatch.context() as patched:
        patched.setattr("millpond.record._store.Store.resume", broken)
        with pytest.raises(RecordError, match="thread failed with ZeroDivisionError: a fault"):
            await Record.resume(tmp_path).__aenter__()
