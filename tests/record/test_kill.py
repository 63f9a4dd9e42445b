"""SIGKILL: what was seen finished is there, whatever the moment."""

import random
import re
import time
from pathlib import Path

import pytest

from millpond._base import offload
from millpond.record import Record, RunState, list_runs, read_run
from tests.record.support import child


async def resumed(folder: Path, said: list[str]) -> int:
    """See that all that was *said* to be committed is there; return how much there is."""
    assert read_run(folder).state in (RunState.CRASHED, RunState.FINISHED)
    async with Record.resume(folder) as record:
        for line in said:
            what, key = line.split()
            known = record.recall(key)
            assert known is not None, line
            if what == "finished":
                assert known.finished is not None, line
                assert known.finished.value == {"verdict": f"answer {key[1:]}"}
            elif known.finished is None:
                assert known.answer == {"text": f"answer {key[1:]}"}
    return read_run(folder).answers


def killed_after(folder: Path, lines: int) -> list[str]:
    """Run a writer until it has said so many *lines*, kill it, return all that it said."""
    with child("write", folder) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        rest, _ = writer.communicate()
    return said + [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]


def killed_at(folder: Path, seconds: float) -> list[str]:
    """Run a writer for so many *seconds*, kill it, return all that it said."""
    with child("write", folder) as writer:
        time.sleep(seconds)  # the moment is what is tried, not waited for
        writer.kill()
        out, _ = writer.communicate()
    return [line for line in out.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("lines", [1, 2, 9, 100, 700])
async def test_what_was_committed_survives_sigkill(tmp_path: Path, lines: int) -> None:
    """R2, R3: at several moments of a life."""
    said = await offload(killed_after, tmp_path / "run", lines)
    assert read_run(tmp_path / "run").state is RunState.CRASHED
    assert await resumed(tmp_path / "run", said) > 0


async def test_a_run_may_be_killed_again_and_again(tmp_path: Path) -> None:
    """Each session goes on where the last one was killed, and forgets nothing."""
    said: list[str] = []
    for lines in (30, 20, 40):
        said += await offload(killed_after, tmp_path / "run", lines)
    assert len(said) == len(set(said))  # nothing was done, or paid for, twice
    await resumed(tmp_path / "run", said)


@pytest.mark.slow
@pytest.mark.deadline(300)
async def test_what_was_committed_survives_sigkill_at_any_moment(tmp_path: Path) -> None:
    """Also while it is being opened, and while it is being created."""
    moments = random.Random(7)  # noqa: S311 - moments, not secrets
    said: list[str] = []
    folder = tmp_path / "run"
    for _ in range(60):
        said += await offload(killed_at, folder, moments.uniform(0.0, 0.6))
        if said:
            await resumed(folder, said)
        else:
            for run in list_runs(tmp_path):  # none yet, or one that is not begun, or hardly
                assert run.state in (RunState.BROKEN, RunState.CRASHED)
                assert re.search("no such folder|holds no record|^$", run.problem)
    assert len(said) == len(set(said))
    assert said
