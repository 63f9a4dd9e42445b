"""Translate lines with a slow service, and count words in a local process that is scarce.

Run it with:  python3 dev run examples/translate.py --items examples/lines.jsonl
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from millpond.flow import Pipeline
from millpond.jobs import Job, JsonLines, Report, Results, job

COUNTER = "import sys\nfor line in sys.stdin: print(len(line.split()), flush=True)"
Line = dict[str, object]


@asynccontextmanager
async def counter() -> AsyncGenerator[Process]:
    """T: a process, warm and expensive. Leaving the block ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COUNTER, stdin=PIPE, stdout=PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()  # bounded: a killed process ends


async def ask(line: Line) -> str:
    """Q: the answer of a slow service; put your own call here."""
    await asyncio.sleep(0.3)
    return " ".join(word[1:] + word[0] + "ay" for word in str(line["text"]).split())


async def count(process: Process, answer: str, line: Line) -> dict[str, object]:
    """C: use both, once they are there."""
    assert process.stdin is not None  # noqa: S101 - both were asked for as pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(answer.encode() + b"\n")
    words = int(await process.stdout.readline())
    return {"text": line["text"], "answer": answer, "words": words}


def show(results: Results[Line, dict[str, object]]) -> Report:
    """Print what came of it; without a report, a job prints counts."""
    values = [outcome.value for outcome in results.outcomes if outcome.value is not None]
    return Report(text="\n".join(f"{value['words']} words: {value['answer']}" for value in values))


@job
async def translate(*, items: Path) -> Job[Line, dict[str, object]]:
    """Translate every line of a file.

    Args:
        items: JSON Lines with `id` and `text`.
    """
    lines = JsonLines(items, required=("id", "text"))
    work = Pipeline(supply=counter, request=ask, consume=count)
    return Job(
        work,
        items=lines,
        key=lambda line: str(line["id"]),
        report=show,
        set_aside=lines.set_aside,
    )
