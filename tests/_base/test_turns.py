"""TurnQueue: invariants B1-B3, with the smallest owner that hands something out."""

import asyncio

import pytest

from millpond._base import TurnQueue
from millpond.errors import Stopped
from millpond.sync import Stop
from tests.toolkit import ForeignStop, end, quiet


class Counter:
    """Hands out units, as many as a caller wants, strictly in order."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.returned: list[int] = []
        self.queue: TurnQueue[int, int] = TurnQueue(
            take_back=self.take_back, serve=self.serve, owner="line"
        )

    def take_back(self, units: int) -> None:
        """Get units back whose caller left."""
        self.returned.append(units)
        self.free += units

    def serve(self) -> None:
        """Hand out what can be handed out."""
        while len(self.queue) and self.queue.head() <= self.free:
            self.free -= self.queue.head()
            self.queue.hand(self.queue.head())

    def add(self, units: int) -> None:
        """Make units free."""
        self.free += units
        self.serve()


def line_up(
    counter: Counter, record: list[str], name: str, *, want: int = 1, stop: Stop | None = None
) -> asyncio.Task[int]:
    """Start a caller that writes its name down when it resumes with a grant."""

    async def caller() -> int:
        got = await counter.queue.turn(want, stop=stop)
        record.append(name)
        return got

    return asyncio.create_task(caller())


async def test_callers_resume_in_the_order_in_which_they_came() -> None:
    """B1: all granted in one go, and one after another."""
    counter, record = Counter(), list[str]()
    tasks = [line_up(counter, record, name) for name in "abcd"]
    await quiet()
    assert len(counter.queue) == 4
    assert list(counter.queue.wants()) == [1, 1, 1, 1]
    counter.add(3)
    assert (len(counter.queue), counter.queue.under_way) == (1, 3)
    await quiet()
    assert record == ["a", "b", "c"]
    counter.add(1)
    await asyncio.gather(*tasks)
    assert record == ["a", "b", "c", "d"]
    assert (len(counter.queue), counter.queue.under_way, counter.queue.busy) == (0, 0, False)


async def test_busy_while_a_grant_is_under_way() -> None:
    """B1: the line is empty, yet a newcomer has to queue."""
    counter = Counter()
    task = line_up(counter, [], "a")
    await quiet()
    counter.add(1)
    assert len(counter.queue) == 0
    assert counter.queue.busy
    await task
    assert not counter.queue.busy


async def test_who_queued_behind_a_grant_under_way_is_served_when_it_ran() -> None:
    """B1: the unit was free all the time, so nobody else would come and serve."""
    counter, record = Counter(), list[str]()
    first = line_up(counter, record, "first")
    await quiet()
    second = line_up(counter, record, "second")  # it will run before `first` does
    counter.add(1)
    counter.free += 1  # free, but nobody may take it before `first` has run
    await asyncio.gather(first, second)
    assert record == ["first", "second"]


@pytest.mark.parametrize("how", ["cancel", "stop"])
@pytest.mark.parametrize("moment", ["queued", "just before", "just after"])
async def test_a_grant_is_returned_or_taken_back_once(how: str, moment: str) -> None:
    """B2: at each of the three moments, and the next in line gets it."""
    counter, record, stop = Counter(), list[str](), Stop()
    leaver = line_up(counter, record, "leaver", want=2, stop=stop)
    heir = line_up(counter, record, "heir", want=2)
    await quiet()
    leave = leaver.cancel if how == "cancel" else stop.stop
    if moment == "just after":
        counter.add(2)
        leave()
    else:
        leave()
        if moment == "queued":
            await quiet()
            assert len(counter.queue) == 1
        counter.add(2)
    assert await heir == 2
    await asyncio.wait([leaver])
    if how == "cancel":
        assert leaver.cancelled()
    else:
        assert isinstance(leaver.exception(), Stopped)
    assert counter.returned == ([] if moment == "queued" else [2])
    assert record == ["heir"]
    assert (counter.free, counter.queue.busy) == (0, False)
    assert repr(stop).endswith("0 waiting>")


async def test_who_leaves_may_let_a_smaller_want_through() -> None:
    """The head wanted more than there is; behind it, somebody wants less."""
    counter, record = Counter(free=1), list[str]()
    big = line_up(counter, record, "big", want=2)
    small = line_up(counter, record, "small", want=1)
    await quiet()
    counter.serve()
    assert record == []
    await end(big)
    assert await small == 1


async def test_dismiss_sends_away_all_or_the_hopeless() -> None:
    """The rest keeps its places; who was granted keeps the grant."""
    counter, record = Counter(), list[str]()
    granted = line_up(counter, record, "granted")
    await quiet()
    counter.add(1)
    big = line_up(counter, record, "big", want=9)
    small = line_up(counter, record, "small")
    await asyncio.sleep(0)
    counter.queue.dismiss(ValueError("too much"), hopeless=lambda want: want > 5)
    with pytest.raises(ValueError, match="too much"):
        await big
    assert await granted == 1
    assert not small.done()
    counter.queue.dismiss(ValueError("closed"))
    with pytest.raises(ValueError, match="closed"):
        await small
    assert record == ["granted"]
    assert not counter.queue.busy


async def test_each_dismissed_caller_gets_an_error_of_its_own() -> None:
    """One object raised in several tasks would mix up their tracebacks."""
    counter = Counter()
    tasks = [line_up(counter, [], name) for name in "ab"]
    await quiet()
    counter.queue.dismiss(ValueError("closed"))
    await asyncio.wait(tasks)
    first, second = (task.exception() for task in tasks)
    assert repr(first) == repr(second) == "ValueError('closed')"
    assert first is not second


async def test_a_dismissed_caller_that_is_cancelled_too_is_cancelled() -> None:
    """A cancel is never renamed, and the line is left once."""
    counter = Counter()
    task = line_up(counter, [], "a")
    await quiet()
    counter.queue.dismiss(ValueError("closed"))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (counter.returned, counter.queue.busy) == ([], False)


async def test_a_foreign_stop_ends_the_wait_too() -> None:
    """With the one helper task, which is gone afterwards."""
    counter, stop = Counter(), ForeignStop()
    before = asyncio.all_tasks()
    task = asyncio.create_task(counter.queue.turn(1, stop=stop))
    await quiet()
    assert len(asyncio.all_tasks() - before) == 2
    stop.stop()
    with pytest.raises(Stopped):
        await task
    assert asyncio.all_tasks() == before
    assert (stop.waiting, counter.queue.busy) == (0, False)
