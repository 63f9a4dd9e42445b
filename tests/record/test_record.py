"""Record: what is said is kept, committed means on disk, and misuse says so."""

import asyncio
import copy
import doctest
import importlib
import json
import math
import pickle
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from millpond._base import Outcome, Recalled, Status, offload, wall_time_from
from millpond.errors import DeadlineError, RecordError, UsageError
from millpond.flow import Journal
from millpond.record import Record, RecordStatistics, RunState, list_runs_async, read_run
from millpond.record._store import Ending, Entry, Store
from tests.record.support import contents, ended, locked_by_another, new, rows, thread_ended


async def test_what_is_committed_can_be_asked_for_with_sql(tmp_path: Path) -> None:
    """R2: when `committed` returns, another connection sees all that was said of the key."""
    async with new(tmp_path) as record:
        record.event("request.sent", "a", version=2, attempt=1)
        record.answer("a", {"text": "42"})
        record.finish("a", ended(value=[1, 2], stage="consume", timings={"consume": 0.5}))
        await record.committed("a")
        assert rows(tmp_path, "SELECT key, value FROM answers") == [("a", '{"text":"42"}')]
        assert rows(tmp_path, "SELECT kind, version, key, data FROM events") == [
            ("request.sent", 2, "a", '{"attempt":1}')
        ]
        question = "SELECT key, status, value, stage, layer, error, timings FROM outcomes"
        assert rows(tmp_path, question) == [
            ("a", "ok", "[1,2]", "consume", "", None, '{"consume":0.5}')
        ]


async def test_meta_says_what_the_run_is(tmp_path: Path) -> None:
    """One row: schema, run, job, version, time, settings, state."""
    async with new(tmp_path):
        pass
    question = "SELECT schema_version, run_id, job, settings, state, created_at FROM meta"
    [(schema, run_id, job, settings, state, created_at)] = rows(tmp_path, question)
    assert (schema, run_id, job, settings, state) == (1, "r1", "demo", '{"n": 3}', "finished")
    assert len(created_at) == len("2026-03-01T12:00:00.000000Z")
    assert created_at.endswith("Z")


async def test_times_sort_as_text(tmp_path: Path) -> None:
    """All are of one length, those of whole seconds too."""
    now = 1_767_225_600.0
    async with new(tmp_path) as record:
        with wall_time_from(lambda: now):
            record.event("x")
            now += 0.000_5
            record.event("x")
            now += 1.0
            record.event("x")
    times = [at for (at,) in rows(tmp_path, "SELECT at FROM events ORDER BY seq")]
    assert times[0] == "2026-01-01T00:00:00.000000Z"
    assert times[1].startswith("2026-01-01T00:00:00.000")
    assert times[2].startswith("2026-01-01T00:00:01.000")
    assert [len(at) for at in times] == [27] * 3
    assert times == sorted(times)


async def test_an_outcome_keeps_why_it_is_not_ok(tmp_path: Path) -> None:
    """Type and text of the error, the layer, the reason; no value."""
    error = DeadlineError(layer="request", timeout=95.0, elapsed=95.2)
    async with new(tmp_path) as record:
        record.finish(
            "a",
            ended(
                Status.TIMED_OUT,
                "not a value",
                stage="request",
                layer="request",
                error=error,
                degraded_reason="too slow",
            ),
        )
        await record.committed("a")
    question = (
        "SELECT status, value, stage, layer, error_type, error, degraded_reason FROM outcomes"
    )
    assert rows(tmp_path, question) == [
        (
            "timed_out",
            None,
            "request",
            "request",
            "millpond.errors.DeadlineError",
            "request exceeded its 95 s (ended after 95.2 s)",
            "too slow",
        )
    ]


class Unspeakable(Exception):
    """An error whose own text cannot be made."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unspeakable(), "(its text cannot be made)"),
        (OSError("caf\udce9"), "caf\\udce9"),
        (ValueError("a\x00b"), "a\x00b"),
    ],
)
async def test_any_error_can_be_kept(tmp_path: Path, error: Exception, text: str) -> None:
    """The error of an error, and text that UTF-8 cannot hold, lose nothing else."""
    async with new(tmp_path) as record:
        record.finish(
            "a", ended(Status.FAILED, error=error, degraded_reason="\udce9", stage="\ud800")
        )
        await record.committed("a")
    assert rows(tmp_path, "SELECT error FROM outcomes") == [(text,)]


async def test_entries_are_written_in_the_order_in_which_they_were_said(tmp_path: Path) -> None:
    """R3: over more than one batch, and more than fits into one."""
    async with new(tmp_path) as record:
        for number in range(12_000):
            record.event("tick", number=number)
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        record.event("last", "k")
        await record.committed("k")
        assert record.statistics().batches > 1
    found = rows(tmp_path, "SELECT data FROM events WHERE kind = 'tick' ORDER BY seq")
    assert [json.loads(data)["number"] for (data,) in found] == list(range(12_000))


async def test_entries_of_one_moment_share_a_transaction(tmp_path: Path) -> None:
    """Group commit: what waits while the disk works goes into one transaction."""
    async with new(tmp_path) as record:
        with locked_by_another(tmp_path):
            record.event("first", "first")
            for number in range(500):
                record.event("tick", f"k{number}")
        await record.committed("k499")
        assert record.statistics().committed == 501
        assert record.statistics().batches <= 2


async def test_every_entry_is_counted_once(tmp_path: Path) -> None:
    """R1: queued, committed and lost add up, before, during and after."""
    async with new(tmp_path) as record:
        assert record.statistics() == RecordStatistics(queued=0, committed=0, lost=0, batches=0)
        record.answer("a", 1)
        record.event("tick")
        assert record.statistics() == RecordStatistics(queued=2, committed=0, lost=0, batches=0)
        await record.committed("a")
        record.finish("a", ended())
    assert record.statistics().committed == 3
    assert record.statistics().queued == 0
    assert repr(record) == "<Record 'r1' closed, 3 committed, 0 queued, 0 lost>"


async def test_leaving_the_block_writes_what_nobody_waited_for(tmp_path: Path) -> None:
    """Nobody needs to call `committed` for an orderly end."""
    async with new(tmp_path) as record:
        for number in range(1_000):
            record.answer(f"k{number}", number)
    assert rows(tmp_path, "SELECT count(*) FROM answers") == [(1_000,)]


async def test_a_run_that_ended_is_one_file(tmp_path: Path) -> None:
    """Copying record.db copies the run: nothing is left in a log beside it."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
    assert sorted(contents(tmp_path)) == ["record.db", "record.lock"]


# -- what committed promises


async def test_committed_returns_at_once_for_what_is_on_disk(tmp_path: Path) -> None:
    """Also for a key of which nothing was said, and after the end."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
        await record.committed("a")
        with locked_by_another(tmp_path):
            await record.committed("a")
            await record.committed("never heard of")
    await record.committed("a")


async def test_committed_waits_for_the_last_entry_of_its_key(tmp_path: Path) -> None:
    """An earlier entry of the key on disk is not enough."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
        await record.committed("a")
        with locked_by_another(tmp_path):
            record.finish("a", ended(value=2))
            waiter = asyncio.create_task(record.committed("a"))
            record.event("another")
            done, _ = await asyncio.wait([waiter], timeout=0.05)
            assert not done
        await waiter
        assert rows(tmp_path, "SELECT value FROM outcomes") == [("2",)]


async def test_all_who_wait_for_one_transaction_are_woken_in_order(tmp_path: Path) -> None:
    """Each by its own key, in the order in which they began to wait."""
    woken: list[int] = []
    async with new(tmp_path) as record:

        async def wait(number: int) -> None:
            await record.committed(f"k{number}")
            woken.append(number)

        with locked_by_another(tmp_path):
            for number in range(100):
                record.answer(f"k{number}", number)
            waiters = [asyncio.create_task(wait(number)) for number in range(100)]
            await asyncio.sleep(0)
        await asyncio.gather(*waiters)
    assert woken == list(range(100))


async def test_the_entries_of_a_key_may_be_parted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is on disk, the second on its way: `committed` waits for the second."""
    arrived, let_through = threading.Semaphore(0), threading.Semaphore(0)
    write = Store.write

    def gated(store: Store, batch: Sequence[Entry]) -> None:
        arrived.release()
        let_through.acquire()
        write(store, batch)

    monkeypatch.setattr(Store, "write", gated)
    async with new(tmp_path) as record:
        record.answer("a", 1)
        await offload(arrived.acquire)
        record.finish("a", ended(value=2))
        let_through.release()
        await offload(arrived.acquire)  # the first was written, and the loop has heard of it
        assert record.statistics().committed == 1
        waiter = asyncio.create_task(record.committed("a"))
        await asyncio.sleep(0)
        assert not waiter.done()
        let_through.release()
        await waiter
        assert rows(tmp_path, "SELECT value FROM outcomes") == [("2",)]


async def test_a_cancelled_wait_loses_nothing(tmp_path: Path) -> None:
    """What was said is written, whoever waits for it."""
    async with new(tmp_path) as record:
        with locked_by_another(tmp_path):
            record.answer("a", 1)
            waiter = asyncio.create_task(record.committed("a"))
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            assert waiter.cancelled()
        await record.committed("a")
    assert rows(tmp_path, "SELECT value FROM answers") == [("1",)]


# -- keys


async def test_a_key_has_one_answer_and_one_outcome_per_session(tmp_path: Path) -> None:
    """A second one would overwrite what was paid for: it is a mistake in the calling code."""
    async with new(tmp_path) as record:
        record.answer("a", "first")
        with pytest.raises(UsageError, match=r"'a' was answered already; a key names one item"):
            record.answer("a", "second")
        record.finish("a", ended(Status.FAILED))
        with pytest.raises(UsageError, match=r"'a' was finished already"):
            record.finish("a", ended(value=1))
        assert record.statistics().queued == 2
    assert rows(tmp_path, "SELECT value FROM answers") == [('"first"',)]
    assert rows(tmp_path, "SELECT status FROM outcomes") == [("failed",)]


async def test_an_answer_that_came_too_late_is_kept(tmp_path: Path) -> None:
    """It was paid for: the next session need not ask again."""
    async with new(tmp_path) as record:
        record.finish("a", ended(Status.TIMED_OUT))
        record.answer("a", "late")
    async with Record.resume(tmp_path) as record:
        assert record.recall("a") == Recalled(answer="late", has_answer=True)


@pytest.mark.parametrize("key", ["", None, 7, "\ud800"])
async def test_a_key_is_a_str_that_can_be_stored(tmp_path: Path, key: Any) -> None:  # noqa: ANN401 - what callers without a type checker pass
    """And the message shows what came."""
    async with new(tmp_path) as record:
        with pytest.raises(UsageError, match=r"`key` must be"):
            record.answer(key, 1)
        with pytest.raises(UsageError, match=r"`key` must be"):
            record.finish(key, ended())


async def test_odd_keys_come_back_as_they_are(tmp_path: Path) -> None:
    """Any str that UTF-8 can hold."""
    keys = ["a\x00b", "漢字", "' OR 1=1 --", " ", "x" * 10_000, "a", "A"]
    async with new(tmp_path) as record:
        for key in keys:
            record.answer(key, key)
    async with Record.resume(tmp_path) as record:
        assert [record.recall(key) for key in keys] == [
            Recalled(answer=key, has_answer=True) for key in keys
        ]


# -- values that do not fit


async def test_a_value_that_json_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    """The error names the key, what came, and the remedy; the item can be finished otherwise."""
    async with new(tmp_path) as record:
        record.answer("good", 1)
        with pytest.raises(
            RecordError, match=r"answer of 'a' .* is a tuple.*give the record a codec"
        ):
            record.answer("a", (1, 2))
        with pytest.raises(
            RecordError, match=r"result of 'a' cannot be recorded by JSON: value is"
        ):
            record.finish("a", ended(value=math.nan))
        with pytest.raises(RecordError, match=r"timings of 'a'"):
            record.finish("a", ended(timings={"request": math.inf}))
        record.answer("a", [1, 2])
        record.finish("a", ended(Status.FAILED, error=TypeError("not for JSON")))
        await record.committed("a")
        assert record.failed is None
    assert rows(tmp_path, "SELECT key, value FROM answers") == [("good", "1"), ("a", "[1,2]")]
    assert rows(tmp_path, "SELECT status FROM outcomes") == [("failed",)]


class Pairs:
    """A codec that holds pairs, and whatever the test wants it to do wrong."""

    def __init__(self, encode: Callable[[Any], Any] = lambda pair: f"{pair[0]}/{pair[1]}") -> None:
        self._encode = encode

    def encode(self, value: object) -> Any:  # noqa: ANN401 - what codecs without one return
        """Join the two."""
        return self._encode(value)

    def decode(self, text: str) -> tuple[str, ...]:
        """Part the two."""
        if "/" not in text:
            msg = f"no slash in {text!r}"
            raise ValueError(msg)
        return tuple(text.split("/"))

    def __repr__(self) -> str:
        return "Pairs"


async def test_a_codec_holds_what_json_cannot(tmp_path: Path) -> None:
    """Answers and results go through it, and come back as they were."""
    async with new(tmp_path, codec=Pairs()) as record:
        record.answer("a", ("x", "y"))
        record.answer("b", ("v", "w"))
        record.finish("b", ended(value=("p", "q")))
    async with Record.resume(tmp_path, codec=Pairs()) as record:
        assert record.recall("a") == Recalled(answer=("x", "y"), has_answer=True)
        recalled = record.recall("b")
        assert recalled is not None
        assert recalled.finished == Outcome(
            item=None, status=Status.OK, value=("p", "q"), recorded=True
        )


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (lambda _: 1 / 0, "cannot be recorded by Pairs: division by zero"),
        (lambda _: b"bytes", "Pairs made a bytes of it that cannot be stored"),
        (lambda _: "\ud800", "`encode` must return a str without lone surrogates"),
    ],
)
async def test_what_a_codec_does_wrong_is_said_with_the_key(
    tmp_path: Path, encode: Callable[[Any], Any], words: str
) -> None:
    """A codec is the user's code."""
    async with new(tmp_path, codec=Pairs(encode)) as record:
        with pytest.raises(RecordError, match=f"the answer of 'a'.*{words}"):
            record.answer("a", 1)
        record.event("still", "works")
        await record.committed("works")


async def test_a_value_beyond_the_database_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it can take the whole batch down with it."""
    monkeypatch.setattr("millpond.record._record._MOST_CHARACTERS", 100)
    async with new(tmp_path) as record:
        record.answer("a", "x" * 98)
        with pytest.raises(RecordError, match=r"it takes 101 characters .*keep it in a file"):
            record.answer("b", "x" * 99)
        await record.committed("a")


async def test_an_event_takes_what_json_can_write(tmp_path: Path) -> None:
    """Events are read with SQL and never given back: a tuple may become a list."""
    async with new(tmp_path) as record:
        record.event("x", kind=(1, 2), self="\ud800")
        with pytest.raises(
            RecordError, match=r"data of event 'y' cannot be recorded.*JSON's terms"
        ):
            record.event("y", when=object())
        with pytest.raises(RecordError, match=r"data of event 'z'"):
            record.event("z", share=math.nan)
        with pytest.raises(UsageError, match=r"`kind` must be a str"):
            record.event("")
        with pytest.raises(UsageError, match=r"`key` must be a str"):
            record.event("x", "")
    assert rows(tmp_path, "SELECT kind, key, data FROM events") == [
        ("x", None, '{"kind": [1, 2], "self": "\\ud800"}'.replace(", ", ",").replace(": ", ":"))
    ]


# -- how a session ends


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (None, RunState.FINISHED, ""),
        (ValueError("boom"), RunState.FAILED, "ValueError: boom"),
        (asyncio.CancelledError(), RunState.INTERRUPTED, "cancelled"),
        (KeyboardInterrupt(), RunState.INTERRUPTED, "KeyboardInterrupt: "),
    ],
)
async def test_the_state_tells_how_the_block_was_left(
    tmp_path: Path, error: BaseException | None, state: RunState, reason: str
) -> None:
    """And what was queued is written whichever way it was."""

    async def session() -> None:
        async with new(tmp_path) as record:
            record.answer("a", 1)
            if error is not None:
                raise error

    if error is None:
        await session()
    else:
        with pytest.raises(type(error)):
            await session()
    info = await offload(read_run, tmp_path)
    assert (info.state, info.state_reason, info.answers) == (state, reason, 1)


async def test_close_sets_the_state_that_it_is_given(tmp_path: Path) -> None:
    """As a plain word too; and the block's own end changes nothing."""
    async with new(tmp_path) as record:
        record.answer("a", 1)
        await record.close(state="interrupted", reason="Ctrl+C")
        await record.close(state="failed")
    info = read_run(tmp_path)
    assert (info.state, info.state_reason) == ("interrupted", "Ctrl+C")


@pytest.mark.parametrize("state", ["running", "crashed", "broken", "done", None])
async def test_close_refuses_other_states(tmp_path: Path, state: Any) -> None:  # noqa: ANN401 - the same
    """The message lists the ones there are."""
    async with new(tmp_path) as record:
        with pytest.raises(UsageError, match=r"`state` must be finished, interrupted or failed"):
            await record.close(state=state)
        record.answer("a", 1)


async def test_nothing_can_be_said_after_the_end(tmp_path: Path) -> None:
    """Neither after the block, nor while `close` still writes."""
    record = new(tmp_path)
    async with record:
        with locked_by_another(tmp_path):
            record.answer("a", 1)
            closing = asyncio.create_task(record.close())
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match=r"the record is closed; its last entries"):
                record.answer("b", 1)
        await closing
    everything: list[Callable[[], object]] = [
        lambda: record.answer("b", 1),
        lambda: record.finish("b", ended()),
        lambda: record.event("x"),
        lambda: record.recall("a"),
    ]
    for say in everything:
        with pytest.raises(UsageError, match=r"the record is closed$"):
            say()
    assert record.run_id == "r1"
    with pytest.raises(UsageError, match=r"a Record is entered once.*Record\.resume"):
        await record.__aenter__()


async def test_a_cancelled_close_writes_on(tmp_path: Path) -> None:
    """The waiting ends, the writing does not."""
    async with new(tmp_path) as record:
        with locked_by_another(tmp_path):
            record.answer("a", 1)
            closing = asyncio.create_task(record.close(state="interrupted"))
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            assert closing.cancelled()
    info = read_run(tmp_path)
    assert (info.state, info.answers) == (RunState.INTERRUPTED, 1)


async def test_close_gives_up_on_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """Bounded: the wait ends with an error, and so do the waits of others."""
    async with new(tmp_path) as record:
        with locked_by_another(tmp_path):
            record.answer("a", 1)
            waiter = asyncio.create_task(record.committed("a"))
            await asyncio.sleep(0)
            with pytest.raises(
                RecordError, match=r"did not take the last 1 entries within 0\.05 s"
            ):
                await record.close(timeout=0.05)
            with pytest.raises(RecordError, match="did not take"):
                await waiter
        await thread_ended(tmp_path)
    assert rows(tmp_path, "SELECT value FROM answers") == [("1",)]  # in the end


async def test_a_generator_that_is_closed_does_not_wait(tmp_path: Path) -> None:
    """GeneratorExit: the thread is told to end, and ends by itself."""

    async def session() -> AsyncGenerator[None, None]:
        async with new(tmp_path) as record:
            record.answer("a", 1)
            yield

    generator = session()
    await anext(generator)
    with locked_by_another(tmp_path):
        await generator.aclose()
    await thread_ended(tmp_path)
    info = read_run(tmp_path)
    assert (info.state, info.answers) == (RunState.INTERRUPTED, 1)


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancelled_opening_lets_go_of_the_file(tmp_path: Path, turns: int) -> None:
    """At whatever moment the cancel comes."""
    opening = asyncio.create_task(new(tmp_path / "run").__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert opening.cancelled()
    await thread_ended(tmp_path / "run")
    if turns:
        assert read_run(tmp_path / "run").state is RunState.INTERRUPTED
        async with Record.resume(tmp_path / "run"):
            pass


async def test_an_abandoned_loop_does_not_stop_the_writing(tmp_path: Path) -> None:
    """A loop that is closed under the record cannot hear; the thread writes on."""

    def other_loop() -> Record:
        record = new(tmp_path)

        async def main() -> None:
            await record.__aenter__()
            record.answer("a", 1)

        asyncio.run(main())
        return record

    record = await offload(other_loop)
    record._end(Ending(state=RunState.FINISHED))  # there is no loop to close it in
    await thread_ended(tmp_path)
    assert rows(tmp_path, "SELECT value FROM answers") == [("1",)]


# -- misuse


async def test_a_record_is_used_in_a_with_block(tmp_path: Path) -> None:
    """Everything else says so."""
    record = new(tmp_path)
    assert repr(record) == f"<Record in '{tmp_path}' not open yet, 0 committed, 0 queued, 0 lost>"
    everything: list[Callable[[], object]] = [
        lambda: record.answer("a", 1),
        lambda: record.recall("a"),
        lambda: record.run_id,
        lambda: record.settings,
    ]
    for say in everything:
        with pytest.raises(UsageError, match="the record is not open yet; use `async with`"):
            say()
    with pytest.raises(UsageError, match="not open yet"):
        await record.committed("a")
    with pytest.raises(UsageError, match="not open yet"):
        await record.close()
    assert not (tmp_path / "record.db").exists()


async def test_a_record_belongs_to_one_thread_and_one_loop(tmp_path: Path) -> None:
    """The error says how to do it instead."""
    async with new(tmp_path) as record:
        with pytest.raises(UsageError, match="call_soon_threadsafe"):
            await offload(record.answer, "a", 1)
        with pytest.raises(UsageError, match="belongs to the event loop"):
            await offload(lambda: asyncio.run(record.committed("a")))
        with pytest.raises(UsageError, match="belongs to the event loop"):
            await offload(lambda: asyncio.run(record.close()))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"run_id": ""}, UsageError, "`run_id` must be a str"),
        ({"job": 3}, UsageError, "`job` must be a str"),
        ({"settings": {"n": {1, 2}}}, RecordError, r"the settings .* value\['n'\] is a set"),
        ({"busy_timeout": -1}, ValueError, "`busy_timeout` must be seconds >= 0"),
    ],
)
def test_create_looks_at_its_arguments(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Before anything is done."""
    facts: dict[str, Any] = {"run_id": "r", "job": "j", "settings": {}} | change
    with pytest.raises(error, match=words):
        Record.create(tmp_path, **facts)


async def test_a_relative_folder_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may change its directory between making and opening."""
    monkeypatch.chdir(tmp_path)
    record = new(Path("run with #, % and ?"))
    monkeypatch.chdir("/")
    async with record:
        assert record.path == tmp_path / "run with #, % and ?" / "record.db"
    assert read_run(record.folder).state is RunState.FINISHED


async def test_settings_are_a_copy(tmp_path: Path) -> None:
    """Nobody changes what was recorded by changing what was read."""
    given: dict[str, Any] = {"list": [1]}
    async with Record.create(tmp_path, run_id="r", job="j", settings=given) as record:
        given["list"].append(2)
        record.settings["list"].append(3)
        assert record.settings == {"list": [1]}


# -- the loop


def write_here(path: Path) -> None:
    """Block, as nothing may in the loop's thread."""
    path.write_text("the guard bites")


async def test_the_loop_is_never_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: no file and no database in the loop's thread, in all of a life with two sessions."""
    ours = threading.get_ident()
    connected_in: list[int] = []
    connect = sqlite3.connect

    def watched(
        path: str, *, uri: bool, isolation_level: None, timeout: float
    ) -> sqlite3.Connection:
        # What was connected in another thread refuses to be used in this one.
        connected_in.append(threading.get_ident())
        return connect(path, uri=uri, isolation_level=isolation_level, timeout=timeout)

    monkeypatch.setattr("sqlite3.connect", watched)
    with blockbuster_ctx():
        with pytest.raises(Exception, match="Blocking call"):
            write_here(tmp_path / "x")
        async with new(tmp_path / "run") as record:
            record.answer("a", 1)
            record.answer("b", 1)
            record.finish("a", ended(value=1))
            record.event("x", "a")
            await record.committed("a")
        async with Record.resume(tmp_path / "run") as record:
            assert record.recall("a") is not None
            record.finish("b", ended(Status.FAILED, error=ValueError("x")))
        assert [run.run_id for run in await list_runs_async(tmp_path)] == ["r1"]
    assert connected_in
    assert ours not in connected_in


# -- the shape


def test_a_record_is_a_journal(tmp_path: Path) -> None:
    """It has what `millpond.flow` asks of a journal; the type checker sees to the rest."""
    journal: Journal = new(tmp_path)
    assert journal is not None


def test_errors_of_the_record_travel() -> None:
    """They pickle and copy, as all of millpond's do."""
    error = RecordError("cannot write", path=Path("/x"), hint="make room")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert str(twin) == "cannot write (/x); make room"
        assert twin.hint == "make room"


@pytest.mark.parametrize("name", ["__init__", "_codec", "_record"])
def test_the_examples_are_true(name: str) -> None:
    """What the docstrings show is what happens."""
    module = importlib.import_module(f"millpond.record.{name}".removesuffix(".__init__"))
    assert doctest.testmod(module).failed == 0
