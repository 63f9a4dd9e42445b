"""Samples files: completions that somebody has already asked for."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from millpond.jobs._jsonl import JsonLines, SetAside, Source
from millpond.jobs.codeeval._problems import Problem

FIELDS = ("task_id", "completion")


@final
@dataclass(frozen=True, slots=True)
class Sample:
    """One completion of one problem."""

    task_id: str
    index: int
    """Counted from 0 within the problem, in the order of the file."""
    completion: str
    """As it stands in the file."""


@final
@dataclass(frozen=True, slots=True)
class SampleSet:
    """What a samples file held."""

    source: str
    """The file's name, as it was given."""
    samples: tuple[Sample, ...]
    """At least one; in the order of the problems, then of the file."""
    missing: tuple[str, ...]
    """The task_id of each problem for which there is no sample."""
    set_aside: tuple[SetAside, ...]


async def load_samples(source: Source, problems: Iterable[Problem]) -> SampleSet:
    """Read a samples file, plain or gzipped, and sort it by problem.

    Lines that are no sample are set aside, and so are samples for a task that is
    not among *problems*.

    Raises:
        InputError: If the file cannot be read or holds no usable sample.

    Cancellation:
        Nothing is kept; the file is closed.
    """
    by_task: dict[str, list[Sample]] = {problem.task_id: [] for problem in problems}
    lines = JsonLines(source, required=FIELDS)
    async for row in lines:
        task_id, completion = row["task_id"], row["completion"]
        if not isinstance(task_id, str) or not isinstance(completion, str):
            name, value = (
                ("completion", completion) if isinstance(task_id, str) else ("task_id", task_id)
            )
            lines.refuse(f"expected a string in {name!r}, got {type(value).__name__}")
        elif task_id not in by_task:
            lines.refuse(f"no problem has the task_id {task_id!r}")
        else:
            samples = by_task[task_id]
            samples.append(Sample(task_id, len(samples), completion))
    return SampleSet(
        source=lines.path,
        samples=tuple(sample for samples in by_task.values() for sample in samples),
        missing=tuple(task_id for task_id, samples in by_task.items() if not samples),
        set_aside=tuple(lines.set_aside),
    )
