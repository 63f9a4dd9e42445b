"""Where runs live: a folder each, below one root, named so that they sort by time."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from millpond.errors import InputError
from millpond.record import RunInfo, list_runs, read_run

DEFAULT_ROOT = "millpond-runs"


def runs_root(given: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of all runs: *given*, else ``MILLPOND_RUNS_DIR``, else the default."""
    return given or Path(environ.get("MILLPOND_RUNS_DIR") or DEFAULT_ROOT)


def new_run_id(job: str) -> str:
    """Return a name for a run that starts now: job, time in UTC, and four random digits."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{job}-{moment}-{os.urandom(2).hex()}"


def find_run(root: Path, name: str) -> tuple[Path, RunInfo]:
    """Return the folder of the run called *name*, and what its record says of it.

    Args:
        root: Folder of all runs.
        name: A run's id, its folder, or ``last`` for the newest run.

    Raises:
        InputError: If there is no such run.
    """
    if name == "last":
        runs = [run for run in list_runs(root) if not run.problem]
        if not runs:
            msg = "there is no run yet"
            raise InputError(msg, where=str(root), hint="start one with `millpond run JOB`")
        return runs[0].folder, runs[0]
    for folder in (root / name, Path(name)):
        if (folder / "record.db").is_file():
            return folder, read_run(folder)
    msg = f"no run called {name!r}"
    raise InputError(msg, where=str(root), hint="`millpond runs` lists them")
