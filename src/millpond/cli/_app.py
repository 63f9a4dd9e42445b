"""The commands: ``run``, ``runs`` and ``lint``."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.table import Table

from millpond.cli._exit import Exit, code_of, parts_of, program, put, say, say_error
from millpond.cli._lint import lint
from millpond.cli._run import run
from millpond.jobs import runs_root
from millpond.record import list_runs

HELP = """Run many slow, uncertain, expensive external calls without losing what finished.

Exit codes: 0 all ok; 1 finished, but something is not ok; 2 wrong usage, settings or input;
4 an invariant was violated; 130 interrupted; 143 terminated. Results are on standard output,
everything else on standard error.
"""

app = App(
    name="millpond",
    help=HELP,
    result_action="return_value",
    suppress_keyboard_interrupt=False,  # else it ends the process without a word
)
# Help flags are the job's: `millpond run JOB --help` describes its options.
run_app = App(name="run", help_flags=[], version_flags=[])
run_app.default(run)
app.command(run_app)
app.command(lint)


@app.command
def runs(
    *,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
    runs_dir: Path | None = None,
) -> Exit:
    """List the runs, newest first.

    Args:
        json_: Print one JSON object.
        runs_dir: Folder of the runs; else MILLPOND_RUNS_DIR, else ./millpond-runs.
    """
    root = runs_root(runs_dir, os.environ)
    found = list_runs(root)
    if json_:
        rows = [info.facts() for info in found]
        put(json.dumps({"schema": 1, "runs_dir": str(root), "runs": rows}))
        return Exit.OK
    if not found:
        say(f"no runs in {root}; start one with `{program()} run codeeval`")
        return Exit.OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "state", "answers", "ended", "begun (UTC)"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "run")
    for info in found:
        ended = ", ".join(f"{n} {status}" for status, n in sorted(info.by_status.items()))
        state = info.problem or info.state
        begun = info.created_at[:19].replace("T", " ")
        table.add_row(info.run_id, state, str(info.answers), ended or "-", begun)
    Console().print(table)
    return Exit.OK


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code. Errors are said, never raised."""
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        result = app(list(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        say(f"millpond: {error}")
        say("  to do: see `millpond --help`, or `millpond run JOB --help`")
        return Exit.USAGE
    except KeyboardInterrupt:
        say("millpond: interrupted before the run began; nothing was kept")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # noqa: BLE001 - the last place that can say it well
        say_error(error, verbose=verbose)
        code = code_of(error)
        if "--json" in arguments:
            what, where, hint = parts_of(error)
            facts = {"message": what, "where": where, "to_do": hint, "exit_code": int(code)}
            put(json.dumps({"schema": 1, "error": facts}))
        return code
    return result if isinstance(result, int) else Exit.OK
