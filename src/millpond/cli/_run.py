"""``millpond run``: one job, its progress, its signals, its result."""

import asyncio
import json
import os
import shlex
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, final

from cyclopts import Parameter

from millpond.cli._exit import Exit, code_of, most_serious, one_line, program, put, say, say_error
from millpond.cli._options import (
    RunOptions,
    complete,
    differences,
    parse,
    restore,
    to_settings,
)
from millpond.cli._progress import show
from millpond.errors import InputError, MillpondError
from millpond.flow import Run
from millpond.jobs import BUILT_IN, JobDefinition, Summary, find_job, find_run, run_job, runs_root

RUN_HELP = f"""\
Usage: millpond run JOB [OPTIONS]

JOB is a built-in name ({", ".join(BUILT_IN)}), a file `my_job.py[:name]`, or a module
`package.module:name`. The options are the job's own and a few that all jobs have; see them
with `millpond run JOB --help`."""

SHOWN_SET_ASIDE = 20
DISPLAY_SECONDS = 1.0
SHOWN_FAILURES = 5


def run(
    job: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
) -> Exit:
    """Run a job; see its options with `millpond run JOB --help`.

    Args:
        job: A built-in name (`codeeval`), a file `my_job.py[:name]`, or `package.module:name`.
        tokens: The job's options.
    """
    if job in ("--help", "-h"):
        put(RUN_HELP)
        return Exit.OK
    definition = find_job(job)
    parsed = parse(definition, job, tokens)
    if parsed is None:
        return Exit.OK
    given, common = parsed
    root = runs_root(common.runs_dir, os.environ)
    resume: Path | None = None
    if common.resume is not None:
        resume, info = find_run(root, common.resume)
        if info.job != definition.name:
            msg = f"it is a run of job {info.job!r}, not of {definition.name!r}"
            raise InputError(
                msg, where=str(resume), hint="name that job, or another run (`millpond runs`)"
            )
        options = complete(definition, restore(definition, info.settings, given))
        changed = differences(info.settings, to_settings(options))
        if changed and not common.force:
            msg = "the options differ from those of the recorded run: " + "; ".join(changed)
            hint = "leave them out to go on as recorded, or add --force"
            raise InputError(msg, where=str(resume), hint=hint)
    else:
        options = complete(definition, given)
    main = _run(definition, options, name=job, root=root, resume=resume, common=common)
    # With Runner's own handling, Ctrl+C before the run has begun cancels and raises.
    with asyncio.Runner() as runner:
        code, abandoned = runner.run(main)
        if abandoned:
            # Closing the loop would wait for them. All that is to be kept is on disk.
            say(f"ending without {', '.join(abandoned)}, which ignored the cancel")
            sys.stdout.flush()
            os._exit(code)
    return code


async def _run(  # noqa: PLR0913 - what was asked for, taken apart
    definition: JobDefinition[...],
    options: dict[str, Any],
    *,
    name: str,
    root: Path,
    resume: Path | None,
    common: RunOptions,
) -> tuple[Exit, tuple[str, ...]]:
    onlooker = Onlooker()
    try:
        summary = await run_job(
            definition,
            options,
            settings=to_settings(options),
            root=root,
            watcher=onlooker,
            resume=resume,
        )
    except MillpondError:
        raise
    except Exception as error:
        onlooker.keep_traceback(error)
        raise
    finally:
        await onlooker.ended()
    if summary.error is not None:
        onlooker.keep_traceback(summary.error)
    _print_result(summary, as_json=common.json)
    go_on = [*shlex.split(program()), "run", name, "--resume", summary.run_id]
    if common.runs_dir is not None:
        go_on += ["--runs-dir", str(common.runs_dir)]
    _print_remarks(summary, verbose=common.verbose, go_on=shlex.join(go_on))
    code = most_serious(_codes(summary) | onlooker.codes)
    return code, summary.results.statistics.abandoned


def _codes(summary: Summary) -> set[Exit]:
    codes: set[Exit] = set()
    if summary.failed or summary.set_aside or summary.results.statistics.unrecorded:
        codes.add(Exit.ITEMS_FAILED)
    if summary.error is not None:
        codes.add(code_of(summary.error))
    if summary.report.violated:
        codes.add(Exit.VIOLATED)
    return codes


def _print_result(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        put(json.dumps(summary.facts()))
        return
    now = summary.results.statistics
    if summary.report.text:
        put(summary.report.text + "\n")
    ends = ", ".join(f"{n} {status}" for status, n in sorted(summary.results.by_status.items()))
    put(
        f"{summary.items} items: {ends or 'none'}. {summary.results.wall_seconds:.1f} s,"
        f" at most {now.peak_in_flight} requests in flight and {now.peak_live_t} local resources,"
        f" {now.retries} retried."
    )
    put(f"run {summary.run_id} is {summary.state}; record {summary.record}")


def _print_remarks(summary: Summary, *, verbose: bool, go_on: str) -> None:
    if summary.set_aside:
        count = len(summary.set_aside)
        say(f"{count} {'line' if count == 1 else 'lines'} of input set aside:")
        for line in summary.set_aside[:SHOWN_SET_ASIDE]:
            say(f"  {line}")
        if len(summary.set_aside) > SHOWN_SET_ASIDE:
            say(f"  and {len(summary.set_aside) - SHOWN_SET_ASIDE} more")
    if unrecorded := summary.results.statistics.unrecorded:
        say(f"{unrecorded} outcomes are NOT in the record; see the messages above")
    failures = Counter(
        f"{outcome.status}{f' ({outcome.layer})' if outcome.layer else ''} in {outcome.stage}:"
        f" {one_line(outcome.degraded_reason)}"
        for outcome in summary.results.outcomes
        # What ended the run is said once, below, not once more for each item.
        if not outcome.status.has_value and str(outcome.error) != str(summary.error)
    )
    for failure, count in failures.most_common(SHOWN_FAILURES):
        say(f"{count} x {failure}")
    if len(failures) > SHOWN_FAILURES:
        say(f"and {len(failures) - SHOWN_FAILURES} other ways; all are in the record")
    if summary.report.violated:
        say(f"millpond: VIOLATED: {summary.report.violated}")
    if summary.error is not None:
        say_error(summary.error, verbose=verbose)
    if summary.state != "finished" or failures:
        say(f"go on with: {go_on}")


@final
class Onlooker:
    """Shows progress, and turns signals into stop and cancel."""

    def __init__(self) -> None:
        self.codes: set[Exit] = set()
        self._run: Run[Any, Any] | None = None
        self._folder: Path | None = None
        self._display: asyncio.Task[None] | None = None
        self._asked = 0

    def started(self, run: Run[Any, Any], *, run_id: str, folder: Path, total: int | None) -> None:
        """Begin to show progress, and take over the signals."""
        self._run = run
        self._folder = folder
        count = "" if total is None else f", {total} items"
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_terminate,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        # After the handlers: from this line on it is true.
        say(f"run {run_id}{count}; Ctrl+C once ends gracefully, twice at once")
        self._display = asyncio.create_task(show(run, total), name="millpond-display")

    def interrupted(self) -> bool:
        """Whether a signal asked for the end."""
        return bool(self.codes)

    async def ended(self) -> None:
        """End the display, so that the result is printed after it, and give the signals back.

        Cancellation:
            The display ends all the same, within a turn of the loop.
        """
        if self._display is not None:
            self._display.cancel()
            # Its clean-up does not wait; its error, if any, must not cost the result.
            await asyncio.wait({self._display}, timeout=DISPLAY_SECONDS)
            if (
                self._display.done()
                and not self._display.cancelled()
                and (error := self._display.exception())
            ):
                say(f"the progress could not be shown: {type(error).__name__}: {error}")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def keep_traceback(self, error: BaseException) -> None:
        """Write the traceback into the run's folder, if there is one."""
        if self._folder is None:
            return
        path = self._folder / "traceback.txt"
        try:
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        except OSError as failure:
            say(f"the traceback could not be written to {path}: {failure.strerror}")

    def _on_interrupt(self) -> None:
        self.codes.add(Exit.INTERRUPTED)
        self._asked += 1
        if self._run is None:
            return
        now = self._run.statistics()
        if self._asked == 1:
            say(
                f"\nstopping: nothing new is begun; waiting for {now.open} items that are under"
                f" way ({now.in_flight} requests in flight). Ctrl+C again ends at once;"
                f" what is finished is kept in {self._folder}"
            )
            self._run.stop("interrupted")
        else:
            say(f"\nending at once; what is finished is kept in {self._folder}")
            self._run.cancel("interrupted twice")
            self._run.cancel("interrupted twice")  # once more: no grace

    def _on_terminate(self) -> None:
        self.codes.add(Exit.TERMINATED)
        say(f"\nterminated; what is finished is kept in {self._folder}")
        if self._run is not None:
            self._run.cancel("terminated")
