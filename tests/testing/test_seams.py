"""ExploredThreads: what threads do becomes events, and all else is as with threads."""

import asyncio
import collections
import time
from collections.abc import Callable, Sequence

import pytest

from millpond._base import offload, start_batch_thread, start_thread, threads_started_by
from millpond.testing import Bounds, Counterexample, World, explore, replay
from millpond.testing._seams import ExploredThreads


class Outside:
    """Keeps what may happen, in order, until it is told to let it happen."""

    def __init__(self) -> None:
        self.due: collections.deque[tuple[str, Callable[[], object]]] = collections.deque()

    def __call__(self, name: str, body: Callable[[], object]) -> None:
        """Keep it."""
        self.due.append((name, body))

    @property
    def names(self) -> list[str]:
        """What may happen."""
        return [name for name, _ in self.due]

    def happen(self) -> None:
        """Let the oldest happen."""
        self.due.popleft()[1]()


def test_a_thread_is_one_event() -> None:
    """Its body runs when the world says so, once."""
    outside, seen = Outside(), list[str]()
    with threads_started_by(ExploredThreads(outside)):
        start_thread("x", lambda: seen.append("ran"))
    assert (outside.names, seen) == (["x"], [])
    outside.happen()
    assert (outside.names, seen) == ([], ["ran"])


def test_a_batch_is_what_has_come_before_the_event() -> None:
    """Several puts before it are one event; what comes later is the next."""
    outside, seen = Outside(), list[list[int]]()

    def work(batch: list[int]) -> bool:
        seen.append(batch)
        return True

    with threads_started_by(ExploredThreads(outside)):
        put = start_batch_thread("x", work, most=10)
    assert outside.names == []  # a thread that has nothing to do sleeps
    put(1)
    put(2)
    assert outside.names == ["x"]
    outside.happen()
    put(3)
    outside.happen()
    assert (seen, outside.names) == ([[1, 2], [3]], [])


def test_no_batch_is_larger_than_it_may_be() -> None:
    """The rest is the next event."""
    outside, seen = Outside(), list[list[int]]()

    def work(batch: list[int]) -> bool:
        seen.append(batch)
        return True

    put = ExploredThreads(outside).start_batches("x", work, 2)
    for number in range(5):
        put(number)
    while outside.due:
        assert outside.names == ["x"]
        outside.happen()
    assert seen == [[0, 1], [2, 3], [4]]


def test_work_that_has_ended_is_not_called_again() -> None:
    """What waited, and what comes later, is dropped."""
    outside, seen = Outside(), list[int]()

    def work(batch: list[int]) -> bool:
        seen.extend(batch)
        return False

    put = ExploredThreads(outside).start_batches("x", work, 1)
    put(1)
    put(2)
    outside.happen()
    put(3)
    assert (seen, outside.names) == ([1], [])


def test_work_may_put_more_for_itself() -> None:
    """As a thread may: it is the next event."""
    outside, seen = Outside(), list[int]()

    def work(batch: list[int]) -> bool:
        seen.extend(batch)
        if batch[0] < 3:
            put(batch[0] + 1)
        return True

    put = ExploredThreads(outside).start_batches("x", work, 10)
    put(1)
    while outside.due:
        outside.happen()
    assert seen == [1, 2, 3]


# -- explored ------------------------------------------------------------------------------------


def test_an_offloaded_call_is_explored() -> None:
    """It runs at any moment, beside the loop; its caller may be cancelled at any other."""
    loops: set[str] = set()

    def blocking() -> int:
        loops.add("none" if asyncio._get_running_loop() is None else "one")
        return 7

    def scenario(world: World) -> None:
        async def main() -> None:
            assert await offload(blocking) == 7

        world.spawn("main", main(), cancel=True)
        world.spawn("other", asyncio.sleep(0))

    certificate = explore(scenario, bounds=Bounds(preemptions=None, cancels=2))
    assert certificate.complete
    assert "thread(offload-blocking)" in certificate.world
    assert loops == {"none"}


def test_an_offloaded_call_that_raises_is_explored() -> None:
    """The error arrives at the caller, and only there."""

    def fail() -> None:
        raise KeyError

    def scenario(world: World) -> None:
        async def main() -> None:
            with pytest.raises(KeyError):
                await offload(fail)

        world.spawn("main", main(), cancel=True)

    assert explore(scenario, bounds=Bounds(preemptions=None, cancels=1)).complete


def test_a_thread_cannot_reach_the_real_world_either() -> None:
    """Its body is part of the scenario."""

    def scenario(world: World) -> None:
        world.spawn("main", offload(time.sleep, 1))

    with pytest.raises(Exception, match=r"`time\.sleep` was called"):
        explore(scenario)


class Ledger:
    """Counts on its worker's thread, and hears of it in the loop.

    With a fault, if wanted: it takes the last batch for the only one.
    """

    def __init__(self, *, is_right: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.written = 0
        self.is_right = is_right
        self.quiet = asyncio.Event()
        self.put: Callable[[int], None] = start_batch_thread("ledger", self.work, most=2)

    def work(self, batch: Sequence[int]) -> bool:
        """Write *batch*."""
        self.loop.call_soon_threadsafe(self.hear, len(batch))
        return True

    def hear(self, count: int) -> None:
        """Take in what the worker says."""
        self.written = self.written + count if self.is_right else count
        if self.written == 3:
            self.quiet.set()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_batch_thread_is_explored(is_right: bool) -> None:
    """However the three numbers fall into batches, the ledger hears of three; or is caught."""

    def scenario(world: World) -> None:
        async def main() -> None:
            ledger = Ledger(is_right=is_right)
            for number in range(3):
                ledger.put(number)
                await asyncio.sleep(0)
            await ledger.quiet.wait()

        world.spawn("main", main())

    bounds = Bounds(preemptions=None)
    if is_right:
        certificate = explore(scenario, bounds=bounds)
        assert certificate.complete
        assert certificate.schedules > 1
        return
    with pytest.raises(Counterexample) as caught:
        explore(scenario, bounds=bounds)
    again = replay(scenario, caught.value.schedule, bounds=bounds)
    assert str(again.fault) == str(caught.value.fault)
