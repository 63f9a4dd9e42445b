"""Jobs: work over many items that ``millpond run`` runs, records and resumes.

Example:
    A job of one's own is an async function in a file::

        @job
        async def translate(items: Path, *, model: str = "small") -> Job:
            "Translate every line of ITEMS."
            lines = JsonLines(items, required=("id", "text"))
            work = Pipeline(supply=boot, request=ask, consume=check, discard_t=Boot.close)
            return Job(work, items=lines, key=lambda row: row["id"], set_aside=lines.set_aside)

    and is started with ``millpond run translate.py --items lines.jsonl``.
"""

from millpond.jobs._find import BUILT_IN, find_job
from millpond.jobs._job import Job, JobDefinition, Report, Results, job
from millpond.jobs._jsonl import JsonLines, SetAside
from millpond.jobs._runner import Summary, Watcher, run_job
from millpond.jobs._runs import find_run, runs_root

__all__ = [
    "BUILT_IN",
    "Job",
    "JobDefinition",
    "JsonLines",
    "Report",
    "Results",
    "SetAside",
    "Summary",
    "Watcher",
    "find_job",
    "find_run",
    "job",
    "run_job",
    "runs_root",
]
