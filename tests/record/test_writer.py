"""The record's thread: it ends when it should, and every order of its events is right."""

import asyncio
import shutil
from pathlib import Path

import pytest

from millpond.errors import RecordError
from millpond.record import Record
from millpond.testing import Bounds, World, explore
from tests.record.support import new, rows, thread_ended


async def test_the_thread_of_a_refused_record_ends(tmp_path: Path) -> None:
    """Nobody will ever put anything again."""
    with pytest.raises(RecordError):
        await Record.resume(tmp_path / "nowhere").__aenter__()
    await thread_ended(tmp_path / "nowhere")


def test_committed_means_written_whenever_the_thread_runs(tmp_path: Path) -> None:
    """R2: however the entries fall into batches, and whoever is cancelled meanwhile.

    With real files: the thread's work is an event of the explored world.
    """
    folder = tmp_path / "run"
    sizes: set[int] = set()

    def scenario(world: World) -> None:
        shutil.rmtree(folder, ignore_errors=True)

        async def main() -> None:
            async with new(folder) as record:
                record.answer("a", 1)
                await asyncio.sleep(0)
                record.answer("b", 2)
                await record.committed("b")
                assert rows(folder, "SELECT key, value FROM answers ORDER BY key") == [
                    ("a", "1"),
                    ("b", "2"),
                ]
                record.event("done")
                sizes.add(record.statistics().batches)

        async def told() -> None:
            try:
                await main()
            except RecordError as error:
                # The disk may be so slow that `close` gives up, but not when all was written.
                if "the last 0 entries" in str(error):
                    raise

        world.spawn("main", told(), cancel=True)
        world.final("the file was let go", lambda: not (folder / "record.db-wal").exists())

    certificate = explore(
        scenario, bounds=Bounds(preemptions=None, cancels=1, deviations=2), dedupe=False
    )
    assert certificate.complete
    assert certificate.schedules > 10
    assert "thread(record-run)" in certificate.world
    assert sizes == {1, 2}
