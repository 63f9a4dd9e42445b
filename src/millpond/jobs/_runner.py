"""Running a job: its folder, its record, and the one summary at the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, final

from millpond._base import loop_time
from millpond.errors import InvariantViolated, MillpondError, RecordError
from millpond.flow import Outcome, Run
from millpond.jobs._job import Job, JobDefinition, Report, Results
from millpond.jobs._runs import new_run_id
from millpond.record import Record

Options = Mapping[str, object]


class Watcher(Protocol):
    """Whoever looks on while a job runs."""

    def started(self, run: Run[Any, Any], *, run_id: str, folder: Path, total: int | None) -> None:
        """The run has begun; it may be stopped and cancelled from now on."""
        ...

    def interrupted(self) -> bool:
        """Whether the run was told to end before it was done."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a run of a job ended."""

    job: str
    run_id: str
    folder: Path
    state: str
    """finished, interrupted or failed."""
    results: Results[Any, Any]
    report: Report
    set_aside: tuple[str, ...]
    error: BaseException | None = None
    """What ended the run before its time, if something did."""
    settings: Options = field(default_factory=dict[str, object])

    @property
    def record(self) -> Path:
        """The file in which every answer and every end is kept."""
        return self.folder / "record.db"

    @property
    def why(self) -> str:
        """Why it did not finish; empty when it did."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        if unrecorded := self.results.statistics.unrecorded:
            return f"{unrecorded} outcomes could not be recorded"
        return "" if self.state == "finished" else f"it was {self.state}"

    @property
    def items(self) -> int:
        """How many items were taken on."""
        return self.results.statistics.pulled

    @property
    def ok(self) -> int:
        """How many of them have a value."""
        return sum(n for status, n in self.results.by_status.items() if status.has_value)

    @property
    def failed(self) -> int:
        """How many have none."""
        return self.items - self.ok

    def facts(self) -> dict[str, object]:
        """Return everything for programs."""
        now = self.results.statistics
        return {
            "schema": 1,
            "job": self.job,
            "run_id": self.run_id,
            "record": str(self.record),
            "state": self.state,
            "items": self.items,
            "ok": self.ok,
            "failed": self.failed,
            "by_status": {str(status): n for status, n in sorted(self.results.by_status.items())},
            "unrecorded": now.unrecorded,
            "set_aside": list(self.set_aside),
            "retries": now.retries,
            "wall_seconds": round(self.results.wall_seconds, 3),
            "peak_in_flight": now.peak_in_flight,
            "peak_live_t": now.peak_live_t,
            "error": self.why if self.error is not None else None,
            **self.report.facts,
        }


async def run_job(  # noqa: PLR0913 - each is a fact of the run
    definition: JobDefinition[...],
    options: Options,
    *,
    settings: Options,
    root: Path,
    watcher: Watcher,
    resume: Path | None = None,
) -> Summary:
    """Run a job to its end, whatever that is, and return the summary.

    Args:
        definition: The job.
        options: Its arguments.
        settings: The same in JSON's terms; kept in the record.
        root: Folder of all runs.
        watcher: Told when the run starts.
        resume: Folder of the run to go on with. None: a new run.

    Raises:
        InputError: If the job cannot begin with these options.
        RecordError: If the record cannot be opened.

    Cancellation:
        Cancels the run at once; what had been recorded stays.
    """
    async with definition.open(options) as job:
        if resume is None:
            run_id = new_run_id(definition.name)
            folder = root / run_id
            opening = Record.create(folder, run_id=run_id, job=definition.name, settings=settings)
        else:
            folder, opening = resume, Record.resume(resume)
        async with opening as record:
            summary = await _run(
                job, record, name=definition.name, settings=settings, watcher=watcher
            )
            try:
                await record.close(state=summary.state, reason=summary.why)
            except RecordError as error:
                # The outcomes are in our hands: show them, and say what is not kept.
                summary = replace(summary, state="failed", error=summary.error or error)
    return summary


async def _run(
    job: Job[Any, Any], record: Record, *, name: str, settings: Options, watcher: Watcher
) -> Summary:
    begun = loop_time()
    outcomes: list[Outcome[Any, Any]] = []
    error: BaseException | None = None
    work = job.work.with_journal(record, job.key)
    async with work.run(job.items) as run:
        watcher.started(run, run_id=record.run_id, folder=record.folder, total=job.total)
        try:
            async for outcome in run:
                outcomes.append(outcome)  # noqa: PERF401 - those before an error count too
        except MillpondError as failure:
            error = failure
    results = Results(
        outcomes=outcomes, statistics=run.statistics(), wall_seconds=loop_time() - begun
    )
    report = (job.report or _default_report)(results)
    try:
        run.check_invariants()
    except InvariantViolated as violation:
        report = Report(text=report.text, facts=report.facts, violated=str(violation))
    unrecorded = results.statistics.unrecorded
    failed = error is not None or unrecorded > 0  # as the record itself says then
    state = "interrupted" if watcher.interrupted() else "failed" if failed else "finished"
    return Summary(
        job=name,
        run_id=record.run_id,
        folder=record.folder,
        state=state,
        results=results,
        report=report,
        set_aside=tuple(str(line) for line in job.set_aside),
        error=error,
        settings=settings,
    )


def _default_report(results: Results[Any, Any]) -> Report:
    rows = [f"{count:>6}  {status}" for status, count in sorted(results.by_status.items())]
    return Report(text="\n".join(rows))
