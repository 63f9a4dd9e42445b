"""A program that writes a record, for tests that kill it or take the disk away from it.

Usage::

    writing_child.py write FOLDER      items for ever; says each key that is committed
    writing_child.py hold FOLDER       opens the record, says "open", waits for its input to end
    writing_child.py fork FOLDER       as hold, but leaves a forked child behind
    writing_child.py look FOLDER       reads it, resumes it, creates one below it; says how it went
    writing_child.py fill FOLDER MB    on a disk of MB; says in JSON how it went
"""

import asyncio
import itertools
import json
import os
import resource
import signal
import sys
from pathlib import Path

from millpond._base import Outcome, Status, offload
from millpond.errors import RecordError
from millpond.record import Record, read_run

WRITERS = 8


def say(line: str) -> None:
    """Write a line, in one piece and at once."""
    os.write(1, f"{line}\n".encode())


def open_record(folder: Path) -> Record:
    """Go on with the run in *folder*, or begin it."""
    if (folder / "record.db").exists():
        return Record.resume(folder)
    return Record.create(folder, run_id="r1", job="child", settings={})


async def write(folder: Path) -> None:
    """Write items until killed."""
    async with open_record(folder) as record:
        numbers = itertools.count()

        async def items() -> None:
            for number in numbers:
                key = f"k{number}"
                if record.recall(key) is None:
                    record.answer(key, {"text": f"answer {number}"})
                    await record.committed(key)
                    say(f"answered {key}")
                known = record.recall(key)
                if known is None or known.finished is None:
                    value = {"verdict": f"answer {number}"}
                    record.finish(key, Outcome(item=None, status=Status.OK, value=value))
                    await record.committed(key)
                    say(f"finished {key}")

        await asyncio.gather(*(items() for _ in range(WRITERS)))


async def hold(folder: Path) -> None:
    """Keep the record open until the input ends."""
    async with open_record(folder):
        say("open")
        await offload(sys.stdin.read)


async def fork(folder: Path) -> None:
    """Keep the record open, beside a forked child that outlives this process."""
    async with open_record(folder):
        if os.fork() == 0:
            say(f"{os.getpid()}")
            signal.pause()
        await offload(sys.stdin.read)


async def look(folder: Path) -> None:
    """Say what can be done with a folder that can only be read."""
    say(str(read_run(folder).answers))
    for record in (
        Record.resume(folder),
        Record.create(folder / "new", run_id="r", job="j", settings={}),
    ):
        try:
            async with record:
                say("opened")
        except RecordError as error:
            say(str(error))


async def fill(folder: Path, megabytes: int) -> dict[str, object]:
    """Write until the disk is full; make room; resume; say what happened."""
    committed: list[str] = []
    refused: list[str] = []
    async with open_record(folder) as record:
        for number in range(megabytes * 100):
            key = f"k{number}"
            record.answer(key, "x" * 20_000)
            try:
                await record.committed(key)
                committed.append(key)
            except RecordError as error:
                refused.append(str(error))
                if len(refused) == 3:
                    break
        failed, statistics = str(record.failed), record.statistics()
    state_when_full = str(read_run(folder).state)
    (folder / "ballast").unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    async with Record.resume(folder) as record:
        missing = [key for key in committed if record.recall(key) is None]
        record.answer("afterwards", "written")
        await record.committed("afterwards")
    return {
        "committed": len(committed),
        "refused": refused,
        "failed": failed,
        "lost": statistics.lost,
        "queued": statistics.queued,
        "state_when_full": state_when_full,
        "missing": missing,
        "state_afterwards": str(read_run(folder).state),
    }


def main() -> None:
    """Do as the arguments say."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "fill":
        megabytes = int(sys.argv[3])
        if "limit" in sys.argv:
            limits = (megabytes << 20, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        else:
            folder.mkdir()
            (folder / "ballast").write_bytes(b"x" * 200_000)
        say(json.dumps(asyncio.run(fill(folder, megabytes))))
    else:
        asyncio.run({"write": write, "hold": hold, "fork": fork, "look": look}[what](folder))


if __name__ == "__main__":
    main()
