"""A record under a pipeline: what it was made for."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from millpond.errors import RecordError
from millpond.flow import Capacity, Outcome, Pipeline, Status
from millpond.record import Record
from tests.record.support import locked_by_another, new, rows


class World:
    """A model that counts what it is asked, and a grader that fails where it is told to."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.graded: Counter[str] = Counter()
        self.broken: set[str] = set()

    async def supply(self) -> str:
        """Return a sandbox."""
        await asyncio.sleep(0)
        return "sandbox"

    async def request(self, item: str) -> dict[str, str]:
        """Return an answer, which costs money."""
        self.asked[item] += 1
        await asyncio.sleep(0)
        return {"text": f"answer to {item}"}

    async def consume(self, _: str, answer: dict[str, str], item: str) -> str:
        """Grade it."""
        self.graded[item] += 1
        await asyncio.sleep(0)
        if item in self.broken:
            msg = f"cannot grade {item}"
            raise ValueError(msg)
        return answer["text"].upper()

    async def run(self, record: Record, items: list[str]) -> list[Outcome[str, str]]:
        """Run all *items*, and return their outcomes."""
        pipeline: Pipeline[str, str, dict[str, str], str] = Pipeline(
            supply=self.supply,
            request=self.request,
            consume=self.consume,
            capacity=Capacity(physical=2, t_slots=2, q_slots=2, q_pending=3),
        )
        async with pipeline.with_journal(record, lambda item: item).run(items) as run:
            return [outcome async for outcome in run]


ITEMS = [f"item {number}" for number in range(12)]


async def test_a_resumed_run_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    """What failed is graded again with the answer it has; what is done is not touched."""
    world = World()
    world.broken = {"item 3", "item 4"}
    async with new(tmp_path) as record:
        outcomes = await world.run(record, ITEMS[:8])
    assert all(outcome.recorded for outcome in outcomes)
    assert rows(tmp_path, "SELECT status, count(*) FROM outcomes GROUP BY 1") == [
        ("failed", 2),
        ("ok", 6),
    ]
    world.broken = set()
    async with Record.resume(tmp_path) as record:
        outcomes = await world.run(record, ITEMS)
    assert {outcome.item: outcome.value for outcome in outcomes} == {
        item: f"ANSWER TO {item.upper()}" for item in ITEMS
    }
    assert all(outcome.recorded for outcome in outcomes)
    assert set(world.asked.values()) == {1}
    assert {item for item, times in world.graded.items() if times == 2} == {"item 3", "item 4"}


async def test_a_failing_store_does_not_stop_the_pipeline(tmp_path: Path) -> None:
    """Every outcome comes, marked as not recorded."""
    world = World()
    async with new(tmp_path, busy_timeout=0.05) as record:
        with locked_by_another(tmp_path):
            outcomes = await world.run(record, ITEMS)
        assert isinstance(record.failed, RecordError)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * len(ITEMS)
    assert not any(outcome.recorded for outcome in outcomes)


async def test_an_answer_that_does_not_fit_costs_only_its_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The item ends well all the same, and its outcome is recorded."""
    world = World()

    async def request(item: str) -> dict[str, str]:
        return {"text": item, "span": (1, 2)}  # type: ignore[dict-item] # as a careless job does

    world.request = request  # type: ignore[method-assign] # the same
    async with new(tmp_path) as record:
        [outcome] = await world.run(record, ["a"])
    assert (outcome.value, outcome.recorded) == ("A", True)
    assert "value['span'] is a tuple" in caplog.text
    assert rows(tmp_path, "SELECT count(*) FROM answers") == [(0,)]
