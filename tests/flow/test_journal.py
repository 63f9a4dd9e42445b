"""A pipeline and its journal: answers when they return, ends before they are read."""

import asyncio
from typing import Any

import pytest

from millpond.errors import RecordError
from millpond.flow import Outcome, Recalled, Status
from tests.flow.conftest import World, drained, limiters, quiet, small, statuses

pytestmark = pytest.mark.virtual_time


class Memory:
    """A journal that keeps everything in a list, and fails where it is told to."""

    def __init__(self, *fails: str, recalls: dict[str, Recalled[Any]] | None = None) -> None:
        self.said: list[tuple[str, str, Any]] = []
        self.safe: set[str] = set()
        self.commit_seconds = 0.0
        self._fails = fails
        self._recalls = recalls or {}

    def _maybe_fail(self, what: str) -> None:
        if what in self._fails:
            msg = f"cannot keep the {what}"
            raise RecordError(msg, path="run.db")

    def recall(self, key: str) -> Recalled[object] | None:
        """Return what an earlier run left."""
        return self._recalls.get(key)

    def answer(self, key: str, value: object) -> None:
        """Keep an answer."""
        self._maybe_fail("answer")
        self.said.append(("answer", key, value))

    def finish(self, key: str, outcome: Outcome[object, object]) -> None:
        """Keep an end."""
        self._maybe_fail("finish")
        self.said.append(("finish", key, outcome.status.value))

    async def committed(self, key: str) -> None:
        """Pretend to write."""
        await asyncio.sleep(self.commit_seconds)
        self._maybe_fail("commit")
        self.safe.add(key)

    def of(self, key: str) -> list[tuple[str, Any]]:
        """Return what was said of *key*."""
        return [(what, value) for what, name, value in self.said if name == key]


def key(item: int) -> str:
    """Name an item."""
    return f"item {item}"


async def test_an_answer_is_recorded_when_it_returns_and_an_end_before_it_is_read() -> None:
    """O2: in this order, each once, and the outcome says that it is recorded."""
    world: World[str] = World()
    journal = Memory()
    async with world.pipeline(journal=journal, key=key).run(range(5)) as run:
        async for outcome in run:
            name = key(outcome.item)
            assert outcome.recorded
            assert name in journal.safe
            assert journal.of(name) == [("answer", f"answer {outcome.item}"), ("finish", "ok")]
    assert (run.statistics().unrecorded, len(journal.said)) == (0, 10)


async def test_an_answer_is_recorded_before_it_waits_for_its_slot() -> None:
    """What was paid for is safe, although no slot is free and the run is cancelled then."""
    world: World[str] = World()
    journal = Memory()

    async def supply() -> int:
        await asyncio.sleep(1e9)
        return world.make()

    pipeline = world.pipeline(
        supply=supply, journal=journal, key=key, capacity=small(q_slots=1, q_pending=3)
    )
    async with pipeline.run(range(9)) as run:
        await quiet()
        assert limiters(run)["q_slot"].queued == 2
        assert [what for what, _, _ in journal.said] == ["answer"] * 3
        run.cancel()
        outcomes = await drained(run)
    assert set(statuses(outcomes).values()) == {"cancelled"}
    assert all(outcome.recorded for outcome in outcomes)
    world.check_over(run, outcomes)


@pytest.mark.parametrize("fails", ["finish", "commit"])
async def test_when_the_store_fails_outcomes_are_still_delivered(
    fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    """O2: with recorded=False, counted, and loudly."""
    world: World[str] = World()
    pipeline = world.pipeline(journal=Memory(fails), key=key)
    async with pipeline.run(range(4)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(4), "ok")
    assert not any(outcome.recorded for outcome in outcomes)
    assert run.statistics().unrecorded == 4
    assert caplog.text.count("was not recorded: cannot keep the") == 4
    world.check_over(run, outcomes)


async def test_an_answer_that_cannot_be_kept_is_used_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its end is recorded; that the answer is not is said."""
    world: World[str] = World()
    journal = Memory("answer")
    async with world.pipeline(journal=journal, key=key).run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == dict.fromkeys(range(3), "ok")
    assert all(outcome.recorded for outcome in outcomes)
    assert caplog.text.count("was not recorded") == 3
    world.check_over(run, outcomes)


async def test_recalled_answers_are_not_asked_for_again() -> None:
    """They are paired as if they had just come, also when the answer is None."""
    world: World[str] = World()
    asked: list[int] = []

    async def request(item: int) -> str:
        asked.append(item)
        return world.answer(item)

    async def consume(_t: int, q: str | None, item: int) -> str:
        return f"{q} for {item}"

    journal = Memory(
        recalls={
            "item 1": Recalled(answer="kept", has_answer=True),
            "item 2": Recalled(answer=None, has_answer=True),
            "item 3": Recalled(),
        }
    )
    pipeline = world.pipeline(request=request, consume=consume, journal=journal, key=key)
    async with pipeline.run(range(4)) as run:
        outcomes = await drained(run)
    assert sorted(asked) == [0, 3]
    values = {outcome.item: outcome.value for outcome in outcomes}
    assert values == {
        0: "answer 0 for 0",
        1: "kept for 1",
        2: "None for 2",
        3: "answer 3 for 3",
    }
    assert journal.of("item 1") == [("finish", "ok")]
    assert all(outcome.recorded for outcome in outcomes)
    assert sum(world.discarded_q.values()) == 4
    assert run.statistics().live_t == 0


@pytest.mark.parametrize("count", [1, 5])
async def test_recalled_ends_are_delivered_and_not_recorded_again(count: int) -> None:
    """Finished is finished: no answer is asked for, no T is used, the journal hears nothing."""
    world: World[str] = World()
    recalls: dict[str, Recalled[Any]] = {
        key(n): Recalled(
            finished=Outcome(item="as it was written", status=Status.OK, value=f"old {n}")
        )
        for n in range(count)
    }
    journal = Memory(recalls=recalls)
    async with world.pipeline(journal=journal, key=key).run(range(count)) as run:
        outcomes = await drained(run)
    assert [(outcome.item, outcome.value) for outcome in outcomes] == [
        (n, f"old {n}") for n in range(count)
    ]
    assert all(outcome.recorded for outcome in outcomes)
    assert (journal.said, world.answered, world.consumed) == ([], [], [])
    world.check_over(run, outcomes)


async def test_recalled_successes_count_for_the_target() -> None:
    """A target is about successes, whenever they were."""
    world: World[str] = World()
    finished = Outcome(item=0, status=Status.OK, value="old")
    journal = Memory(recalls={key(n): Recalled(finished=finished) for n in range(3)})
    async with world.pipeline(journal=journal, key=key).run(range(10**9), target=3) as run:
        outcomes = await drained(run)
    assert 3 <= len(outcomes) <= 3 + 2
    world.check_over(run, outcomes)


async def test_items_with_a_duplicate_key_do_not_write_under_it() -> None:
    """The journal knows one end per key: that of the first item."""
    world: World[str] = World()
    journal = Memory()
    async with world.pipeline(journal=journal, key=lambda _: "same").run(range(3)) as run:
        outcomes = await drained(run)
    assert statuses(outcomes) == {0: "ok", 1: "failed", 2: "failed"}
    assert journal.of("same") == [("answer", "answer 0"), ("finish", "ok")]
    assert [outcome.recorded for outcome in sorted(outcomes, key=lambda o: o.item)] == [
        True,
        False,
        False,
    ]
    world.check_over(run, outcomes)


async def test_a_reader_cancelled_during_the_commit_loses_no_outcome() -> None:
    """O2, O3: it is read by the next, once, after its commit."""
    world: World[str] = World()
    journal = Memory()
    journal.commit_seconds = 10
    async with world.pipeline(journal=journal, key=key).run([1]) as run:
        first = asyncio.create_task(anext(run))
        await asyncio.sleep(5)
        assert (run.statistics().unread, journal.safe) == (1, set())
        first.cancel()
        await asyncio.wait({first})
        outcomes = await drained(run)
    assert statuses(outcomes) == {1: "ok"}
    assert outcomes[0].recorded
    world.check_over(run, outcomes)


async def test_every_end_is_recorded_whatever_it_is() -> None:
    """Failures, and what a cancel ends, have their record too; each exactly one."""
    world: World[str] = World()
    journal = Memory()

    async def request(item: int) -> str:
        if item == 0:
            raise OSError(item)
        await asyncio.sleep(1e9 if item > 2 else 0)
        return world.answer(item)

    async with world.pipeline(request=request, journal=journal, key=key).run(range(9)) as run:
        await asyncio.sleep(1)
        run.cancel()
        outcomes = await drained(run)
    ends = {name: end for what, name, end in journal.said if what == "finish"}
    assert ends == {key(outcome.item): outcome.status.value for outcome in outcomes}
    assert sum(what == "finish" for what, _, _ in journal.said) == len(outcomes)
    assert statuses(outcomes) == {0: "failed", 1: "ok", 2: "ok", 3: "cancelled", 4: "cancelled"}
    world.check_over(run, outcomes)
