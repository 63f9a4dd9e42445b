"""Broadcast: every value to every subscriber, with a bounded memory (X1-X3)."""

import asyncio
import gc

import pytest

from millpond.errors import Closed, Lagged, Stopped, WouldBlock
from millpond.sync import Broadcast, BroadcastStatistics, Stop, Subscription
from tests.toolkit import end, quiet


def received(reader: Subscription[int]) -> list[int | str]:
    """Receive all there is now; a lag shows as text."""
    values: list[int | str] = []
    while True:
        try:
            values.append(reader.recv_nowait())
        except Lagged as lag:
            values.append(f"missed {lag.missed}")
        except (WouldBlock, Closed):
            return values


def test_each_gets_what_was_sent_after_it_came() -> None:
    """X1: in order, each for itself; `send` says for how many a value is."""
    news: Broadcast[int] = Broadcast(8)
    assert news.send(0) == 0
    first = news.subscribe()
    assert news.send(1) == 1
    second = news.subscribe()
    assert news.send(2) == 2
    assert received(first) == [1, 2]
    assert received(second) == [2]


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("sent", range(12))
def test_exactly_the_last_values_are_kept(capacity: int, sent: int) -> None:
    """X2, X3: no rounding up of the capacity; the lag is the number of what was overwritten."""
    news: Broadcast[int] = Broadcast(capacity)
    reader = news.subscribe()
    for number in range(sent):
        news.send(number)
    missed = max(0, sent - capacity)
    assert reader.pending == sent - missed
    assert received(reader) == [f"missed {missed}"] * bool(missed) + list(range(missed, sent))


def test_a_lag_is_told_once_and_to_nobody_else() -> None:
    """X3: per subscriber; it goes on with the oldest value kept, and may fall behind again."""
    news: Broadcast[int] = Broadcast(2)
    slow, quick = news.subscribe(), news.subscribe()
    seen: list[int | str] = []
    for number in range(5):
        news.send(number)
        seen += received(quick)
    assert seen == [0, 1, 2, 3, 4]
    with pytest.raises(Lagged, match="3 values were overwritten") as lag:
        slow.recv_nowait()
    assert lag.value.missed == 3
    news.send(5)
    news.send(6)
    assert received(slow) == ["missed 2", 5, 6]


async def test_a_value_wakes_everybody_who_waits() -> None:
    """In the order in which they wait; both may share one subscription, then one gets it."""
    news, record = Broadcast[int](4), list[int]()

    async def follow(number: int) -> None:
        with news.subscribe() as reader:
            record.append(100 * number + await reader.recv())

    tasks = [asyncio.create_task(follow(number)) for number in range(4)]
    await quiet()
    assert news.send(7) == 4
    await asyncio.gather(*tasks)
    assert record == [7, 107, 207, 307]

    reader = news.subscribe()
    first, second = (asyncio.create_task(reader.recv()) for _ in range(2))
    await quiet()
    news.send(8)
    await quiet()
    assert (first.result(), second.done()) == (8, False)
    news.send(9)
    assert await second == 9


async def test_what_is_kept_is_received_after_the_close() -> None:
    """Ordering: a value beats closed, and a lag comes before both."""
    news: Broadcast[int] = Broadcast(2)
    reader = news.subscribe()
    for number in range(3):
        news.send(number)
    news.close()
    news.close()
    with pytest.raises(Lagged):
        await reader.recv()
    assert [value async for value in reader] == [1, 2]
    with pytest.raises(Closed, match="broadcast is closed"):
        await reader.recv()
    with pytest.raises(Closed):
        news.send(4)
    with pytest.raises(Closed):
        news.subscribe().recv_nowait()


async def test_the_close_wakes_whoever_waits() -> None:
    """The iteration ends."""
    news: Broadcast[int] = Broadcast(2)
    reader = news.subscribe()

    async def read() -> list[int]:
        return [value async for value in reader]

    task = asyncio.create_task(read())
    await quiet()
    news.send(1)
    await quiet()
    news.close()
    assert await task == [1]


async def test_an_iteration_goes_on_after_a_lag() -> None:
    """Raises: `Lagged`, which closes nothing."""
    news: Broadcast[int] = Broadcast(1)
    reader = news.subscribe()
    news.send(1)
    news.send(2)
    with pytest.raises(Lagged):
        await anext(aiter(reader))
    assert await anext(aiter(reader)) == 2


async def test_a_subscription_that_was_left_receives_nothing_more() -> None:
    """Its own waiter wakes; the others, and the values, are not touched."""
    news: Broadcast[int] = Broadcast(2)
    other = news.subscribe()
    with news.subscribe() as reader:
        task = asyncio.create_task(reader.recv())
        waiting = asyncio.create_task(other.recv())
        await quiet()
        assert news.statistics().subscribers == 2
    with pytest.raises(Closed, match="subscription is closed"):
        await task
    reader.close()
    assert not waiting.done()
    assert news.send(1) == 1
    assert await waiting == 1
    with pytest.raises(Closed):
        reader.recv_nowait()


def test_a_dropped_subscription_is_forgotten() -> None:
    """Nobody has to close it."""
    news: Broadcast[int] = Broadcast(2)
    readers = [news.subscribe() for _ in range(10)]
    assert news.statistics().subscribers == 10
    del readers
    gc.collect()
    assert news.send(1) == 0


async def test_stop_beats_value_lag_and_closed() -> None:
    """Ordering: and nothing is skipped by it."""
    news, stop = Broadcast[int](1), Stop()
    reader = news.subscribe()
    news.send(1)
    news.send(2)
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await reader.recv(stop=stop)
    assert received(reader) == ["missed 1", 2]
    news.close()
    with pytest.raises(Stopped):
        await reader.recv(stop=stop)


async def test_a_tight_loop_over_a_full_buffer_gives_way_now_and_then() -> None:
    """Others run in between; a stop that they ask for is seen."""
    news, stop = Broadcast[int](1000), Stop()
    reader = news.subscribe()
    for number in range(1000):
        news.send(number)
    asyncio.get_running_loop().call_soon(stop.stop)

    async def read() -> None:
        for _ in range(1000):
            await reader.recv(stop=stop)

    with pytest.raises(Stopped):
        await read()
    assert 0 < reader.pending < 1000


async def test_a_cancelled_receive_skips_nothing() -> None:
    """R22: in the tick of the send, and while it gives way."""
    news: Broadcast[int] = Broadcast(1000)
    reader = news.subscribe()
    first = asyncio.create_task(reader.recv())
    await quiet()
    news.send(0)
    await end(first)
    assert first.cancelled()
    for number in range(1, 500):
        news.send(number)
    seen: list[int] = []

    async def read() -> None:
        while True:
            seen.append(await reader.recv())

    for _ in range(100):
        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        await end(task)
    assert seen == list(range(500))


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "2", None])
def test_the_capacity_is_a_whole_number_of_at_least_one(capacity: object) -> None:
    """Raises: `ValueError` with what came."""
    with pytest.raises(ValueError, match="`capacity` must be an integer >= 1, got"):
        Broadcast(capacity)  # type: ignore[arg-type] # the point


def test_statistics_and_repr_are_snapshots() -> None:
    """What was sent, what is kept, who listens."""
    news: Broadcast[int] = Broadcast(2)
    reader = news.subscribe()
    before = news.statistics()
    for number in range(3):
        news.send(number)
    assert before == BroadcastStatistics(capacity=2, sent=0, kept=0, subscribers=1, closed=False)
    assert news.statistics() == BroadcastStatistics(
        capacity=2, sent=3, kept=2, subscribers=1, closed=False
    )
    assert repr(news) == "<Broadcast 2 of 2 kept, 1 subscribed>"
    assert repr(reader) == "<Subscription 2 to receive>"
    reader.close()
    news.close()
    assert repr(news) == "<Broadcast 2 of 2 kept, 0 subscribed, closed>"
    assert repr(reader) == "<Subscription 2 to receive, closed>"
