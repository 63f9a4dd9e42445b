"""Running a job: the folder, the record, and a summary whatever the end was."""

import asyncio
import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from millpond.errors import (
    InputError,
    InvariantViolated,
    RecordError,
    SourceFailed,
    SupplierFailed,
)
from millpond.flow import Pipeline, Run, Status
from millpond.jobs import Job, JobDefinition, Report, Summary, find_run, job, run_job, runs_root
from millpond.jobs._runs import new_run_id
from millpond.record import Record, RunState, list_runs, read_run


class Onlooker:
    """Keeps what it is told."""

    def __init__(self, *, stop: bool = False) -> None:
        self.told: list[tuple[str, Path, int | None, int]] = []
        self._stop = stop

    def started(self, run: Run[Any, Any], *, run_id: str, folder: Path, total: int | None) -> None:
        """Note it; stop the run at once if that is wanted."""
        self.told.append((run_id, folder, total, run.statistics().pulled))
        if self._stop:
            run.stop("enough")

    def interrupted(self) -> bool:
        """Whether it stopped the run."""
        return self._stop


@dataclass
class Work:
    """A job whose parts can be made to fail, and which counts what it did."""

    items: tuple[str, ...] = ("a", "b", "c")
    bad_request: str = ""
    bad_consume: str = ""
    bad_supply: bool = False
    bad_source: bool = False
    bad_report: bool = False
    total: int | None = None
    asked: Counter[str] = field(default_factory=Counter[str])
    consumed: Counter[str] = field(default_factory=Counter[str])
    log: list[str] = field(default_factory=list[str])

    async def supply(self) -> None:
        """Make a T."""
        if self.bad_supply:
            msg = "no room"
            raise OSError(msg)

    async def request(self, item: str) -> str:
        """Make a Q."""
        self.asked[item] += 1
        if item == self.bad_request:
            msg = f"no answer to {item}"
            raise OSError(msg)
        return item.upper()

    async def consume(self, _: None, answer: str, item: str) -> str:
        """Use both."""
        self.consumed[item] += 1
        if item == self.bad_consume:
            msg = f"cannot use {answer}"
            raise KeyError(msg)
        return f"{item}={answer}"

    def source(self) -> Iterator[str]:
        """Give the items."""
        yield from self.items
        if self.bad_source:
            msg = "the well is dry"
            raise OSError(msg)

    def report(self, results: object) -> Report:
        """Say something, or fail to."""
        if self.bad_report:
            msg = f"cannot count {type(results).__name__}"
            raise ArithmeticError(msg)
        return Report(text="all said", facts={"score": 1.5, "items": 99})

    @property
    def definition(self) -> JobDefinition[...]:
        """The job."""

        @job
        async def work() -> AsyncGenerator[Job[str, str]]:
            try:
                yield Job(
                    Pipeline(
                        supply=self.supply,
                        request=self.request,
                        consume=self.consume,
                        supply_failures=1,
                    ),
                    items=self.source(),
                    key=lambda item: f"key of {item}",
                    report=self.report if self.bad_report else None,
                    total=self.total,
                    set_aside=["x.jsonl:3: no good"] if self.total else [],
                )
            finally:
                self.log.append("cleaned up")

        return work

    async def run(
        self, root: Path, *, resume: Path | None = None, onlooker: Onlooker | None = None
    ) -> Summary:
        """Run it."""
        return await run_job(
            self.definition,
            {},
            settings={"a": 1},
            root=root,
            watcher=onlooker or Onlooker(),
            resume=resume,
        )


def values(summary: Summary) -> list[object]:
    """Return what its items came to, sorted by item."""
    return [o.value for o in sorted(summary.results.outcomes, key=lambda o: str(o.item))]


async def test_a_good_run_is_finished_and_its_summary_says_all(tmp_path: Path) -> None:
    """Items, ends, set-aside lines and the record are in the summary; the record agrees."""
    work, onlooker = Work(total=3), Onlooker()
    summary = await work.run(tmp_path, onlooker=onlooker)
    assert (summary.items, summary.ok, summary.failed) == (3, 3, 0)
    assert (summary.state, summary.why, summary.error) == ("finished", "", None)
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert summary.set_aside == ("x.jsonl:3: no good",)
    assert summary.report.text == "     3  ok"
    assert summary.record.is_file()
    assert summary.folder == tmp_path / summary.run_id
    info = read_run(summary.folder)
    assert (info.state, info.job, info.settings) == (RunState.FINISHED, "work", {"a": 1})
    assert (info.answers, info.by_status) == (3, {Status.OK: 3})
    assert work.log == ["cleaned up"]
    assert onlooker.told == [(summary.run_id, summary.folder, 3, 0)]


async def test_the_facts_are_json_with_those_of_the_report_over_them(tmp_path: Path) -> None:
    """One flat object; a job may say a fact in its own way."""
    summary = await Work().run(tmp_path)
    facts = json.loads(json.dumps(summary.facts()))
    assert facts["schema"] == 1
    assert facts["by_status"] == {"ok": 3}
    assert facts["error"] is None
    assert facts["wall_seconds"] >= 0
    assert {"peak_in_flight", "peak_live_t", "retries", "unrecorded", "set_aside"} <= facts.keys()
    object.__setattr__(summary, "report", Report(facts={"score": 1.5, "items": 99}))
    assert summary.facts()["items"] == 99
    assert summary.facts()["score"] == 1.5


@pytest.mark.parametrize("stage", ["request", "consume"])
async def test_an_item_that_fails_does_not_end_the_run(tmp_path: Path, stage: str) -> None:
    """One item is not ok, the rest is, and the run is finished without an error."""
    work = Work(**{f"bad_{stage}": "b"})  # type: ignore[arg-type]
    summary = await work.run(tmp_path)
    assert (summary.ok, summary.failed, summary.state, summary.error) == (2, 1, "finished", None)
    (failed,) = (o for o in summary.results.outcomes if o.status is Status.FAILED)
    assert (failed.item, failed.stage, failed.recorded) == ("b", stage, True)


async def test_resuming_runs_only_what_is_missing(tmp_path: Path) -> None:
    """What ended ok is not run again, an answer that is there is not asked for again."""
    first = await Work(bad_consume="b").run(tmp_path)
    work = Work()
    second = await work.run(tmp_path, resume=first.folder)
    assert second.run_id == first.run_id
    assert values(second) == ["a=A", "b=B", "c=C"]
    assert work.asked == Counter()
    assert work.consumed == {"b": 1}
    assert read_run(second.folder).by_status == {Status.OK: 3}
    third = Work()
    assert values(await third.run(tmp_path, resume=first.folder)) == ["a=A", "b=B", "c=C"]
    assert third.consumed == Counter()


async def test_resuming_asks_again_where_no_answer_came(tmp_path: Path) -> None:
    """A request that failed has left nothing to go on with."""
    first = await Work(bad_request="b").run(tmp_path)
    work = Work()
    summary = await work.run(tmp_path, resume=first.folder)
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert work.asked == {"b": 1}


async def test_a_supplier_that_always_fails_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    """Nothing can be paired: every item is skipped, and the error says why."""
    work = Work(bad_supply=True)
    summary = await work.run(tmp_path)
    assert isinstance(summary.error, SupplierFailed)
    assert isinstance(summary.error.__cause__, OSError)
    assert summary.state == "failed"
    assert "SupplierFailed" in summary.why
    assert "no room" in summary.why
    assert summary.ok == 0
    assert {o.status for o in summary.results.outcomes} <= {Status.SKIPPED, Status.CANCELLED}
    assert len(summary.results.outcomes) == summary.items
    info = read_run(summary.folder)
    assert info.state is RunState.FAILED
    assert "no room" in info.state_reason
    assert work.log == ["cleaned up"]


async def test_answers_survive_a_supplier_that_fails(tmp_path: Path) -> None:
    """What was paid for before the run ended is there for the next."""
    first = await Work(bad_supply=True).run(tmp_path)
    kept = read_run(first.folder).answers
    work = Work()
    summary = await work.run(tmp_path, resume=first.folder)
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert work.asked.total() == 3 - kept


async def test_a_source_that_raises_ends_the_run_after_what_it_gave(tmp_path: Path) -> None:
    """The items before the error have their outcomes, and the error has its cause."""
    summary = await Work(bad_source=True).run(tmp_path)
    assert isinstance(summary.error, SourceFailed)
    assert isinstance(summary.error.__cause__, OSError)
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert (summary.state, summary.failed) == ("failed", 0)
    assert summary.facts()["error"] == summary.why
    assert "the well is dry" in str(summary.facts()["error"])


async def test_an_interrupted_run_says_so_in_the_record(tmp_path: Path) -> None:
    """The watcher knows that it was told to end; the record keeps it."""
    summary = await Work().run(tmp_path, onlooker=Onlooker(stop=True))
    assert (summary.state, summary.why) == ("interrupted", "it was interrupted")
    assert summary.error is None
    info = read_run(summary.folder)
    assert (info.state, info.state_reason) == (RunState.INTERRUPTED, "it was interrupted")


class Breaking(Onlooker):
    """Makes the database refuse something, as soon as the run has begun."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self._refused = refused

    def started(self, run: Run[Any, Any], *, run_id: str, folder: Path, total: int | None) -> None:
        """Put a trigger into the record."""
        super().started(run, run_id=run_id, folder=folder, total=total)
        with contextlib.closing(sqlite3.connect(folder / "record.db")) as connection:
            connection.execute(
                f"CREATE TRIGGER full BEFORE {self._refused}"
                " BEGIN SELECT RAISE(ABORT, 'no space left'); END"
            )


async def test_a_record_that_cannot_be_closed_still_gives_the_summary(tmp_path: Path) -> None:
    """The outcomes are in our hands: they are shown, and the run counts as failed."""
    summary = await Work().run(tmp_path, onlooker=Breaking("UPDATE ON meta"))
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert summary.state == "failed"
    assert isinstance(summary.error, RecordError)
    assert "no space left" in summary.why
    assert summary.results.statistics.unrecorded == 0
    assert read_run(summary.folder).by_status == {Status.OK: 3}


async def test_of_two_errors_the_first_is_told(tmp_path: Path) -> None:
    """What ended the run matters more than that its end could not be written."""
    summary = await Work(bad_source=True).run(tmp_path, onlooker=Breaking("UPDATE ON meta"))
    assert isinstance(summary.error, SourceFailed)


async def test_a_record_that_fails_in_mid_run_costs_no_outcome(tmp_path: Path) -> None:
    """Every item is worked on and returned, and counted as not recorded."""
    summary = await Work().run(tmp_path, onlooker=Breaking("INSERT ON outcomes"))
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert summary.results.statistics.unrecorded == 3
    assert not any(outcome.recorded for outcome in summary.results.outcomes)
    assert summary.facts()["unrecorded"] == 3
    assert read_run(summary.folder).state is RunState.FAILED


async def test_a_report_that_raises_is_the_jobs_mistake(tmp_path: Path) -> None:
    """It comes out as it is; the items are in the record, which says that the run failed."""
    work = Work(bad_report=True)
    with pytest.raises(ArithmeticError, match="cannot count Results"):
        await work.run(tmp_path)
    (info,) = list_runs(tmp_path)
    assert (info.state, info.by_status) == (RunState.FAILED, {Status.OK: 3})
    assert work.log == ["cleaned up"]


async def test_books_that_do_not_balance_are_a_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of the job stays, and says besides what does not hold."""

    def check_invariants(_: Run[Any, Any]) -> NoReturn:
        raise InvariantViolated("F1", {"free": 7})

    monkeypatch.setattr(Run, "check_invariants", check_invariants)
    summary = await Work().run(tmp_path)
    assert summary.report.violated == "F1 does not hold: free=7"
    assert summary.report.text == "     3  ok"


async def test_a_cancel_leaves_what_was_recorded(tmp_path: Path) -> None:
    """The run ends at once; its record is readable, and says that it was interrupted."""
    begun = asyncio.Event()

    class Hanging(Work):
        async def request(self, item: str) -> str:
            if item == "b":
                begun.set()
                await asyncio.Event().wait()
            return await super().request(item)

    work = Hanging()
    task = asyncio.create_task(work.run(tmp_path))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (info,) = list_runs(tmp_path)
    assert info.state is RunState.INTERRUPTED
    assert work.log == ["cleaned up"]
    again = Work()
    summary = await again.run(tmp_path, resume=info.folder)
    assert values(summary) == ["a=A", "b=B", "c=C"]
    assert again.asked.total() == 3 - info.answers


async def test_a_run_that_is_being_written_is_not_resumed(tmp_path: Path) -> None:
    """Two processes never write one record; the second is refused before it works."""
    async with Record.create(tmp_path / "r", run_id="r", job="work", settings={}):
        work = Work()
        with pytest.raises(RecordError):
            await work.run(tmp_path, resume=tmp_path / "r")
    assert work.asked == Counter()
    assert work.log == ["cleaned up"]


# --- Where runs are -----------------------------------------------------------------------


def test_the_root_is_an_option_a_variable_or_the_default(tmp_path: Path) -> None:
    """In this order; an empty variable is as none."""
    environ = {"MILLPOND_RUNS_DIR": "by-variable"}
    assert runs_root(tmp_path, environ) == tmp_path
    assert runs_root(None, environ) == Path("by-variable")
    assert runs_root(None, {"MILLPOND_RUNS_DIR": ""}) == Path("millpond-runs")
    assert runs_root(None, {}) == Path("millpond-runs")


def test_run_ids_differ_even_in_one_second() -> None:
    """Two runs begun at once have folders of their own."""
    made = {new_run_id("work") for _ in range(20)}
    assert len(made) > 15
    assert all(name.startswith("work-") for name in made)


async def make_run(root: Path, name: str) -> Path:
    """Leave a finished run."""
    async with Record.create(root / name, run_id=name, job="work", settings={"of": name}):
        pass
    return root / name


async def test_a_run_is_found_by_id_folder_and_last(tmp_path: Path) -> None:
    """With what its record says of it."""
    await make_run(tmp_path, "one")
    await make_run(tmp_path, "two")
    for name in ("one", str(tmp_path / "one")):
        folder, info = find_run(tmp_path, name)
        assert (folder, info.settings) == (tmp_path / "one", {"of": "one"})
    assert find_run(tmp_path, "last")[1].run_id == "two"


async def test_last_passes_over_what_cannot_be_read(tmp_path: Path) -> None:
    """A folder that is no run, however new, is not the last run."""
    await make_run(tmp_path, "one")
    (tmp_path / "zzz").mkdir()
    assert find_run(tmp_path, "last")[1].run_id == "one"


@pytest.mark.parametrize(("name", "what"), [("last", "no run yet"), ("gone", "no run called")])
def test_a_run_that_is_not_there(tmp_path: Path, name: str, what: str) -> None:
    """The message says where was looked, and what to do."""
    with pytest.raises(InputError, match=what) as caught:
        find_run(tmp_path, name)
    assert caught.value.where == str(tmp_path)
    assert caught.value.hint
