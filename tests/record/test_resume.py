"""Going on with a run: what is done stays done, what is paid for is not asked again."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from millpond._base import Outcome, Recalled, Status
from millpond.errors import RecordError, UsageError
from millpond.record import JSON, Record, RunState, read_run
from tests.record.support import child, contents, ended, new, rows, tamper

NOT_DONE = [status for status in Status if not status.has_value]


async def test_what_ended_with_a_value_comes_back_as_finished(tmp_path: Path) -> None:
    """Value, stage, reason and timings; neither item nor error, which are not kept."""
    async with new(tmp_path) as record:
        record.answer("a", "the answer")
        record.finish("a", ended(value={"score": 1.0}, stage="consume", timings={"request": 0.25}))
        record.finish(
            "b",
            ended(Status.DEGRADED, [], error=ValueError("x"), degraded_reason="cached", layer="L3"),
        )
        record.finish("c", ended(value=None))
        assert record.recall("a") is None  # of this session, not of an earlier one
    async with Record.resume(tmp_path) as record:
        assert record.recall("a") == Recalled(
            finished=Outcome(
                item=None,
                status=Status.OK,
                value={"score": 1.0},
                stage="consume",
                timings={"request": 0.25},
                recorded=True,
            )
        )
        assert record.recall("b") == Recalled(
            finished=Outcome(
                item=None,
                status=Status.DEGRADED,
                value=[],
                layer="L3",
                degraded_reason="cached",
                recorded=True,
            )
        )
        assert record.recall("c") == Recalled(
            finished=Outcome(item=None, status=Status.OK, value=None, recorded=True)
        )
        assert record.recall("d") is None


@pytest.mark.parametrize("status", NOT_DONE)
async def test_whatever_else_is_run_again_with_its_answer(tmp_path: Path, status: Status) -> None:
    """A failure is not final, but an answer was paid for; None is an answer too."""
    async with new(tmp_path) as record:
        record.answer("a", None)
        record.finish("a", ended(status))
        record.finish("b", ended(status))
        record.answer("c", [1])
    async with Record.resume(tmp_path) as record:
        assert record.recall("a") == Recalled(answer=None, has_answer=True)
        assert record.recall("b") is None
        assert record.recall("c") == Recalled(answer=[1], has_answer=True)
        record.finish("a", ended(value="now"))
        record.answer("b", "asked now")
        record.finish("b", ended(Status.FAILED, error=ValueError("again")))
    assert rows(tmp_path, "SELECT key, status, value FROM outcomes ORDER BY key") == [
        ("a", "ok", '"now"'),
        ("b", "failed", None),
    ]
    async with Record.resume(tmp_path) as record:
        recalled = record.recall("a")
        assert recalled is not None
        assert recalled.finished is not None
        assert record.recall("b") == Recalled(answer="asked now", has_answer=True)


async def test_an_answer_may_be_asked_for_anew_while_the_item_is_not_done(tmp_path: Path) -> None:
    """In a later session the last one counts: the caller may have a reason to ask again."""
    async with new(tmp_path) as record:
        record.answer("a", "useless")
        record.finish("a", ended(Status.FAILED))
    async with Record.resume(tmp_path) as record:
        record.answer("a", "better")
        with pytest.raises(UsageError, match="answered already"):
            record.answer("a", "third")
    assert rows(tmp_path, "SELECT value FROM answers") == [('"better"',)]


@pytest.mark.parametrize("status", [Status.OK, Status.DEGRADED])
async def test_what_is_done_is_never_replaced(tmp_path: Path, status: Status) -> None:
    """R6: neither the outcome nor the answer it was made from."""
    async with new(tmp_path) as record:
        record.answer("a", "paid for")
        record.finish("a", ended(status, "value"))
    async with Record.resume(tmp_path) as record:
        with pytest.raises(UsageError, match="'a' was finished in an earlier session; `recall`"):
            record.finish("a", ended(Status.FAILED))
        with pytest.raises(UsageError, match="'a' was finished in an earlier session"):
            record.answer("a", "other")
    assert rows(tmp_path, "SELECT value FROM answers") == [('"paid for"',)]
    assert rows(tmp_path, "SELECT status, value FROM outcomes") == [(status, '"value"')]


async def test_the_run_comes_back_as_it_was_created(tmp_path: Path) -> None:
    """Name, job and settings: the caller compares, and may refuse."""
    settings = {"n": 3, "model": "漢", "nested": {"list": [1, 2.5, None, True]}}
    async with Record.create(tmp_path, run_id="r7", job="codeeval", settings=settings):
        pass
    async with Record.resume(tmp_path) as record:
        assert (record.run_id, record.job, record.settings) == ("r7", "codeeval", settings)
        assert record.folder == tmp_path


@pytest.mark.parametrize("error", [ValueError("other settings"), asyncio.CancelledError()])
async def test_a_refused_resume_leaves_the_run_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    """A look at the settings, and no: that is nothing that happened to the run."""
    async with new(tmp_path) as record:
        await record.close(state=RunState.INTERRUPTED, reason="Ctrl+C")
    before = read_run(tmp_path)
    assert (before.state, before.state_reason) == (RunState.INTERRUPTED, "Ctrl+C")

    async def refuse() -> None:
        async with Record.resume(tmp_path):
            assert read_run(tmp_path).state is RunState.RUNNING
            raise error

    with pytest.raises(type(error)):
        await refuse()
    assert read_run(tmp_path) == before


async def test_a_resume_that_wrote_and_failed_says_so(tmp_path: Path) -> None:
    """The state is that of the last session in which something happened."""
    async with new(tmp_path):
        pass

    async def fail() -> None:
        async with Record.resume(tmp_path) as record:
            record.event("x")
            msg = "boom"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="boom"):
        await fail()
    assert read_run(tmp_path).state is RunState.FAILED


async def test_events_go_on_counting(tmp_path: Path) -> None:
    """Their order holds over sessions."""
    async with new(tmp_path) as record:
        record.event("first")
    async with Record.resume(tmp_path) as record:
        record.event("second")
    assert rows(tmp_path, "SELECT kind FROM events ORDER BY seq") == [("first",), ("second",)]


# -- what cannot be resumed


async def refused(record: Record) -> str:
    """Return the message with which *record* does not open."""
    with pytest.raises(RecordError) as caught:
        await record.__aenter__()
    assert caught.value is record.failed
    return str(caught.value)


async def test_create_does_not_overwrite(tmp_path: Path) -> None:
    """A folder holds one run; what is there stays."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
    message = await refused(new(tmp_path))
    assert "the folder holds the record of run 'r1' already" in message
    assert "resume that run, or choose another folder" in message
    assert rows(tmp_path, "SELECT state FROM meta") == [("finished",)]


async def test_there_must_be_a_record(tmp_path: Path) -> None:
    """No folder, and a folder without one, are told apart; nothing is left behind."""
    message = await refused(Record.resume(tmp_path / "nowhere"))
    assert message == f"there is no such folder ({tmp_path}/nowhere); check its name"
    message = await refused(Record.resume(tmp_path))
    assert f"the folder holds no record ({tmp_path})" in message
    assert contents(tmp_path) == {}


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """With the version that is needed."""
    async with new(tmp_path):
        pass
    tamper(tmp_path, "UPDATE meta SET schema_version = 2, millpond_version = '9.9'")
    message = await refused(Record.resume(tmp_path))
    assert "the record has schema 2, this millpond knows up to 1" in message
    assert "use millpond 9.9 or newer" in message


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DROP TABLE meta", "this is a database, but no record of millpond"),
        ("DELETE FROM meta", "this is a database, but no record of millpond"),
        ("UPDATE meta SET state = 'asleep'", "the table `meta` of the record is damaged"),
        ("UPDATE meta SET settings = '{'", "the table `meta` of the record is damaged"),
        ("UPDATE outcomes SET value = '{'", "the result of 'b' cannot be read back by JSON"),
        ("UPDATE answers SET value = '{'", "the answer of 'a' cannot be read back by JSON"),
        ("DROP TABLE answers", r"cannot open the record: no such table: answers"),
        ("UPDATE outcomes SET timings = '{'", "the timings of 'b' cannot be read back"),
    ],
)
async def test_what_was_changed_by_hand_is_refused_in_words(
    tmp_path: Path, statement: str, words: str
) -> None:
    """Before anything is run, and without changing the state."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
        record.finish("b", ended(value=1))
    tamper(tmp_path, statement)
    assert words in await refused(Record.resume(tmp_path))


async def test_another_codec_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    """An answer that cannot be read back would be paid for again."""

    class Shout:
        """Text in capitals."""

        def encode(self, value: object) -> str:
            """Shout."""
            return str(value).upper()

        def decode(self, text: str) -> object:
            """Whisper."""
            return text.lower()

    async with new(tmp_path, codec=Shout()) as record:
        record.answer("a", "hello")
    message = await refused(Record.resume(tmp_path, codec=JSON))
    assert "the answer of 'a' cannot be read back by JSON: JSONDecodeError" in message
    assert "resume a run with the codec that it was made with" in message
    assert read_run(tmp_path).state is RunState.FINISHED


async def test_an_interrupted_creation_may_be_begun_again(tmp_path: Path) -> None:
    """Whatever a kill leaves at the very beginning, it is not called record.db."""
    (tmp_path / "record.db.new").write_bytes(b"half a draft" * 1_000)
    (tmp_path / "record.db.new-journal").write_bytes(b"and its journal")
    (tmp_path / "record.lock").touch()
    assert "the folder holds no record" in await refused(Record.resume(tmp_path))
    async with new(tmp_path) as record:
        record.answer("a", 1)
    assert read_run(tmp_path).answers == 1
    assert sorted(contents(tmp_path)) == ["record.db", "record.lock"]


async def test_a_foreign_database_is_not_touched(tmp_path: Path) -> None:
    """Neither resumed nor created into."""
    with closing(sqlite3.connect(tmp_path / "record.db")) as connection, connection:
        connection.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "record.db").read_bytes()
    for record in (Record.resume(tmp_path), new(tmp_path)):
        assert "a database, but no record of millpond" in await refused(record)
    assert (tmp_path / "record.db").read_bytes() == before


# -- one writer


async def test_a_second_writer_of_this_process_is_refused(tmp_path: Path) -> None:
    """R4: and the first one is not disturbed."""
    async with new(tmp_path) as record:
        for second in (Record.resume(tmp_path), new(tmp_path)):
            message = await refused(second)
            assert "run 'r1' is being written by this process (pid" in message
        record.answer("a", 1)
        await record.committed("a")


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """R4: with the pid of the one that writes; and let in when that one is killed."""
    other = child("hold", tmp_path)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    message = await refused(Record.resume(tmp_path))
    assert f"run 'r1' is being written by another process (pid {other.pid})" in message
    assert read_run(tmp_path).pid == other.pid
    other.kill()
    other.communicate()
    async with Record.resume(tmp_path):
        pass


async def test_a_forked_child_does_not_keep_the_run(tmp_path: Path) -> None:
    """A worker that outlives its killed parent must not block the resume."""
    parent = child("fork", tmp_path)
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    try:
        async with Record.resume(tmp_path) as record:
            assert record.run_id == "r1"
    finally:
        os.kill(grandchild, signal.SIGKILL)
        parent.communicate()
