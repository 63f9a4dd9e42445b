"""tokio's tests of `broadcast`, by name: `sync_broadcast.rs` and its loom models.

There are no handles of senders that are counted: `close` is called where the last one is
dropped in Rust. A sender sees the number of subscribers instead of waiting for it.
"""

import asyncio
import gc
import random
import weakref
from collections.abc import Sequence

import pytest

from millpond.errors import Closed, Lagged, WouldBlock
from millpond.sync import Broadcast, Subscription
from tests.conformance.tokio.support import (
    Scenario,
    cancelled_at_every_turn,
    drop,
    in_every_order,
    pending,
    ready,
    spawn,
)
from tests.toolkit import turns


class Thing:
    """Something whose end can be seen."""


def empty(reader: Subscription[int]) -> bool:
    """Whether there is nothing to receive, and more may come."""
    with pytest.raises(WouldBlock):
        reader.recv_nowait()
    return True


def closed(reader: Subscription[int]) -> bool:
    """Whether there is nothing to receive, and nothing will come."""
    with pytest.raises(Closed):
        reader.recv_nowait()
    return True


def missed(reader: Subscription[int]) -> int:
    """How many values the reader learns to have missed."""
    with pytest.raises(Lagged) as lag:
        reader.recv_nowait()
    return lag.value.missed


def take(reader: Subscription[int], count: int) -> list[int]:
    """Receive *count* values, which must be there."""
    return [reader.recv_nowait() for _ in range(count)]


def send(news: Broadcast[int], numbers: Sequence[int]) -> None:
    """Send *numbers*."""
    for number in numbers:
        news.send(number)


def lagging(capacity: int, sent: int) -> tuple[Broadcast[int], Subscription[int]]:
    """Return a broadcast and a reader for whom the numbers from 1 to *sent* were sent."""
    news: Broadcast[int] = Broadcast(capacity)
    reader = news.subscribe()
    send(news, range(1, sent + 1))
    return news, reader


async def count_all(reader: Subscription[int]) -> int:
    """Count what was received and what was missed, until the close."""
    count = 0
    while True:
        try:
            await reader.recv()
        except Lagged as lag:
            count += lag.missed
        except Closed:
            return count
        else:
            count += 1


# -- sending and receiving


def test_send_try_recv_bounded() -> None:
    """Nothing, then one value, then nothing again."""
    news: Broadcast[int] = Broadcast(16)
    reader = news.subscribe()
    assert empty(reader)
    assert news.send(7) == 1
    assert take(reader, 1) == [7]
    assert empty(reader)


def test_send_two_recv() -> None:
    """Each of two gets the value once."""
    news: Broadcast[int] = Broadcast(16)
    first, second = news.subscribe(), news.subscribe()
    assert empty(first)
    assert empty(second)
    assert news.send(7) == 2
    assert take(first, 1) == take(second, 1) == [7]
    assert empty(first)
    assert empty(second)


async def test_send_recv_bounded() -> None:
    """A reader that waits is woken."""
    news: Broadcast[int] = Broadcast(16)
    receiver = await spawn(news.subscribe().recv())
    await pending(receiver)
    news.send(7)
    assert await ready(receiver) == 7


async def test_send_two_recv_bounded() -> None:
    """Two that wait are woken; later one waits, and one comes when the value is there."""
    news: Broadcast[int] = Broadcast(16)
    first, second = news.subscribe(), news.subscribe()
    waiting = [await spawn(first.recv()), await spawn(second.recv())]
    await pending(*waiting)
    news.send(7)
    assert [await ready(receiver) for receiver in waiting] == [7, 7]
    early = await spawn(first.recv())
    news.send(8)
    late = await spawn(second.recv())
    assert await ready(early) == await ready(late) == 8


async def test_change_tasks() -> None:
    """The task that waits now is woken, not the one that waited before."""
    news: Broadcast[int] = Broadcast(1)
    reader = news.subscribe()
    await drop(await spawn(reader.recv()))
    receiver = await spawn(reader.recv())
    await pending(receiver)
    news.send(7)
    assert await ready(receiver) == 7
    assert empty(reader)


async def test_send_slow_rx() -> None:
    """A reader that is woken late starts with the first value, whatever came meanwhile."""
    news: Broadcast[int] = Broadcast(16)
    fast, slow = news.subscribe(), news.subscribe()
    late = asyncio.create_task(slow.recv())
    first = asyncio.create_task(fast.recv())
    await pending(first, late)
    send(news, [1, 2])
    assert await ready(first) == 1
    assert await fast.recv() == 2
    again = await spawn(fast.recv())
    await pending(again)
    news.send(3)
    assert await ready(again) == 3
    assert await ready(late) == 1
    assert take(slow, 2) == [2, 3]


def test_drop_rx_while_values_remain() -> None:
    """Readers go one after the other with values unread; the sender goes on."""
    news: Broadcast[int] = Broadcast(16)
    first, second = news.subscribe(), news.subscribe()
    send(news, [1, 2])
    assert take(first, 1) == take(second, 1) == [1]
    second.close()
    assert closed(second)
    assert news.send(3) == 1
    first.close()
    assert news.send(4) == 0


def test_send_no_rx() -> None:
    """Sent to nobody, it says so; later subscribers do not get it."""
    news: Broadcast[int] = Broadcast(16)
    assert news.send(7) == 0
    reader = news.subscribe()
    assert news.send(8) == 1
    assert take(reader, 1) == [8]


def test_zero_capacity() -> None:
    """A broadcast that keeps nothing is refused."""
    with pytest.raises(ValueError, match="capacity"):
        Broadcast(0)


async def test_dropping_tx_notifies_rx() -> None:
    """The close wakes all who wait."""
    news: Broadcast[int] = Broadcast(16)
    waiting = [await spawn(news.subscribe().recv()) for _ in range(2)]
    await pending(*waiting)
    news.close()
    for receiver in waiting:
        with pytest.raises(Closed):
            await ready(receiver)


def test_unconsumed_messages_are_dropped() -> None:
    """With the broadcast and its readers goes what nobody received."""
    news: Broadcast[Thing] = Broadcast(16)
    reader = news.subscribe()
    alive = weakref.ref(thing := Thing())
    news.send(thing)
    del thing
    assert alive() is not None
    del news, reader
    gc.collect()
    assert alive() is None


def test_single_capacity_recvs() -> None:
    """Room for one is enough for who keeps up."""
    _, reader = lagging(1, 1)
    assert take(reader, 1) == [1]
    assert empty(reader)


def test_single_capacity_recvs_after_drop_1() -> None:
    """The last value can be received after the close."""
    news, reader = lagging(1, 1)
    news.close()
    assert take(reader, 1) == [1]
    assert closed(reader)


def test_single_capacity_recvs_after_drop_2() -> None:
    """So can what is left after a lag."""
    news, reader = lagging(1, 2)
    news.close()
    assert missed(reader) == 1
    assert take(reader, 1) == [2]
    assert closed(reader)


def test_dropping_sender_does_not_overwrite() -> None:
    """The close takes no place in a full buffer."""
    news, reader = lagging(2, 2)
    news.close()
    assert take(reader, 2) == [1, 2]
    assert closed(reader)


# -- falling behind


def test_lagging_rx() -> None:
    """The number of those missed is told, then the oldest that is kept."""
    news: Broadcast[int] = Broadcast(2)
    fast, slow = news.subscribe(), news.subscribe()
    send(news, [1, 2])
    assert take(fast, 1) == [1]
    news.send(3)
    assert missed(slow) == 1
    assert take(slow, 1) == [2]
    assert take(fast, 2) == [2, 3]
    send(news, [4, 5])
    assert missed(slow) == 1
    news.send(6)
    assert missed(slow) == 1


def test_lagging_receiver_recovers_after_wrap_closed_1() -> None:
    """One too many, then closed."""
    news, reader = lagging(2, 3)
    news.close()
    assert missed(reader) == 1
    assert take(reader, 2) == [2, 3]
    assert closed(reader)


def test_lagging_receiver_recovers_after_wrap_closed_2() -> None:
    """A whole buffer too many, then closed."""
    news, reader = lagging(2, 4)
    news.close()
    assert missed(reader) == 2
    assert take(reader, 2) == [3, 4]
    assert closed(reader)


def test_lagging_receiver_recovers_after_wrap_open() -> None:
    """One too many, and still open."""
    _, reader = lagging(2, 3)
    assert missed(reader) == 1
    assert take(reader, 2) == [2, 3]
    assert empty(reader)


def test_receiver_len_with_lagged() -> None:
    """What was overwritten is not there to receive, and is counted as missed."""
    news, reader = lagging(4, 4)
    assert reader.pending == 4
    assert take(reader, 1) == [1]
    send(news, [5, 6])
    assert reader.pending == 4
    assert missed(reader) == 1
    assert reader.pending == 4


def test_resubscribe_points_to_tail() -> None:
    """A new subscription begins with what comes next, and disturbs no other."""
    news: Broadcast[int] = Broadcast(3)
    reader = news.subscribe()
    news.send(1)
    other = news.subscribe()
    assert empty(other)
    assert take(reader, 1) == [1]
    news.send(2)
    assert take(other, 1) == [2]
    news.send(3)
    assert take(reader, 2) == [2, 3]
    assert empty(reader)
    assert take(other, 1) == [3]
    assert empty(other)


def test_resubscribe_lagged() -> None:
    """A new subscription inherits no lag."""
    news, reader = lagging(1, 2)
    other = news.subscribe()
    assert missed(reader) == 1
    assert empty(other)
    assert take(reader, 1) == [2]
    assert empty(reader)


def test_resubscribe_to_closed_channel() -> None:
    """Nothing comes for who subscribes after the close."""
    news: Broadcast[int] = Broadcast(2)
    news.close()
    assert closed(news.subscribe())


def test_sender_len() -> None:
    """What is kept grows to the capacity and no further; each reader has its own count."""
    news: Broadcast[int] = Broadcast(4)
    first, second = news.subscribe(), news.subscribe()
    assert news.statistics().kept == first.pending == 0
    send(news, [1, 2, 3])
    assert news.statistics().kept == 3
    take(first, 2)
    take(second, 1)
    assert [first.pending, second.pending] == [1, 2]
    send(news, [4, 5, 6])
    assert news.statistics().kept == 4
    assert [first.pending, second.pending] == [4, 4]
    assert news.statistics().sent == 6


def test_sender_len_random() -> None:
    """The counts agree with a plain model over a thousand seeded steps."""
    chance = random.Random(5)  # noqa: S311 - seeded on purpose
    news: Broadcast[int] = Broadcast(16)
    readers = [news.subscribe(), news.subscribe()]
    sent, behind = 0, [0, 0]
    for _ in range(1000):
        step = chance.randrange(4)
        if step in {0, 1}:
            if behind[step] > 16:
                assert missed(readers[step]) == behind[step] - 16
                behind[step] = 16
            elif behind[step]:
                assert take(readers[step], 1) == [sent - behind[step]]
                behind[step] -= 1
            else:
                assert empty(readers[step])
        else:
            news.send(sent)
            sent += 1
            behind = [count + 1 for count in behind]
        assert news.statistics().kept == min(sent, 16)
        assert [reader.pending for reader in readers] == [min(count, 16) for count in behind]


async def test_receiver_recv_is_cooperative() -> None:
    """A loop of send and receive that never sleeps lets other tasks run."""
    news: Broadcast[int] = Broadcast(8)
    reader = news.subscribe()
    others = 0

    async def other() -> None:
        nonlocal others
        others += 1

    task = asyncio.create_task(other())
    for number in range(1000):
        news.send(number)
        assert await reader.recv() == number
        if others:
            break
    assert others
    await task


# -- what a sender sees of its subscribers


def subscribers(news: Broadcast[int]) -> int:
    """How many there are."""
    return news.statistics().subscribers


def test_broadcast_sender_closed() -> None:
    """Nobody is left when the last of two has gone."""
    news: Broadcast[int] = Broadcast(1)
    first, second = news.subscribe(), news.subscribe()
    assert subscribers(news) == 2
    first.close()
    assert subscribers(news) == 1
    second.close()
    assert subscribers(news) == 0
    assert news.send(1) == 0


def test_broadcast_sender_closed_with_extra_subscribe() -> None:
    """Whoever subscribes after the last has gone is counted, and goes again."""
    news: Broadcast[int] = Broadcast(1)
    for _ in range(3):
        assert subscribers(news) == 0
        with news.subscribe() as reader:
            assert subscribers(news) == 1
            assert news.send(1) == 1
            assert take(reader, 1) == [1]


def test_broadcast_sender_new_must_be_closed() -> None:
    """A new one has no subscriber, and loses one that was just dropped."""
    news: Broadcast[int] = Broadcast(1)
    assert subscribers(news) == 0
    reader = news.subscribe()
    assert subscribers(news) == 1
    del reader
    gc.collect()
    assert subscribers(news) == 0


# -- the exact meaning of a lag


def test_slow_receiver_within_capacity_does_not_lag() -> None:
    """Up to the capacity a reader may take its time."""
    news: Broadcast[int] = Broadcast(2)
    slow, fast = news.subscribe(), news.subscribe()
    send(news, [1, 2])
    assert take(fast, 2) == [1, 2]
    assert empty(fast)
    assert take(slow, 2) == [1, 2]
    assert empty(slow)


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 7])
def test_capacity_overflow_reports_lagged_then_oldest_retained(capacity: int) -> None:
    """One value more than the capacity, which is exact, costs one value."""
    _, reader = lagging(capacity, capacity + 1)
    assert missed(reader) == 1
    assert take(reader, capacity) == list(range(2, capacity + 2))
    assert empty(reader)


def test_lagged_count_matches_number_of_overwritten_messages() -> None:
    """Only what was not yet received counts as missed."""
    news, reader = lagging(4, 4)
    assert take(reader, 1) == [1]
    send(news, [5, 6, 7, 8])
    assert missed(reader) == 3
    assert take(reader, 4) == [5, 6, 7, 8]
    assert empty(reader)


async def test_async_recv_lagged_then_resumes_from_oldest_retained() -> None:
    """A receive that may wait tells the same."""
    _, reader = lagging(2, 3)
    with pytest.raises(Lagged) as lag:
        await reader.recv()
    assert lag.value.missed == 1
    assert [await reader.recv(), await reader.recv()] == [2, 3]


def test_lag_catch_up_then_lag_again() -> None:
    """The second lag counts from where the reader had caught up."""
    news, reader = lagging(2, 3)
    assert missed(reader) == 1
    assert take(reader, 2) == [2, 3]
    assert empty(reader)
    send(news, [4, 5, 6])
    assert missed(reader) == 1
    assert take(reader, 2) == [5, 6]
    assert empty(reader)


def test_lag_is_per_receiver() -> None:
    """Who keeps up loses nothing while another lags."""
    news: Broadcast[int] = Broadcast(2)
    slow, fast = news.subscribe(), news.subscribe()
    send(news, [1, 2])
    assert take(fast, 2) == [1, 2]
    send(news, [3, 4])
    assert take(fast, 2) == [3, 4]
    assert missed(slow) == 2
    assert take(slow, 2) == [3, 4]
    assert empty(slow)
    assert empty(fast)


def test_lag_again_before_reading_retained_messages() -> None:
    """Told of one lag, a reader may fall behind again before it reads on."""
    news, reader = lagging(2, 3)
    assert missed(reader) == 1
    send(news, [4, 5, 6])
    assert missed(reader) == 3
    assert take(reader, 2) == [5, 6]
    assert empty(reader)


def test_single_slot_capacity_lag_semantics() -> None:
    """With room for one, the last value is kept and the one before it counted."""
    news, reader = lagging(1, 1)
    assert take(reader, 1) == [1]
    send(news, [2, 3])
    assert missed(reader) == 1
    assert take(reader, 1) == [3]
    assert empty(reader)


def test_receiver_len_after_lag_error_advances_cursor() -> None:
    """After a lag was told, what is left goes down by one with each receive."""
    _, reader = lagging(2, 4)
    assert missed(reader) == 2
    left = [reader.pending]
    for number in (3, 4):
        assert take(reader, 1) == [number]
        left.append(reader.pending)
    assert left == [2, 1, 0]


# -- every order


async def test_broadcast_send() -> None:
    """Of two senders' six values each is received or counted as missed."""

    def make() -> Scenario:
        news: Broadcast[int] = Broadcast(2)
        reader = news.subscribe()
        running = 2
        counted: list[int] = []

        async def produce() -> None:
            nonlocal running
            for number in range(3):
                news.send(number)
                await turns(number % 2)
            running -= 1
            if not running:
                news.close()

        async def consume() -> None:
            counted.append(await count_all(reader))

        def check() -> None:
            assert counted == [6]

        return Scenario([produce(), produce(), consume()], check)

    await in_every_order(make)


async def test_broadcast_two() -> None:
    """Two readers get both values in order, then the end, whenever they begin."""

    def make() -> Scenario:
        news: Broadcast[int] = Broadcast(16)
        seen: list[list[int]] = []

        async def consume(reader: Subscription[int]) -> None:
            seen.append([number async for number in reader])

        async def produce() -> None:
            send(news, [1, 2])
            news.close()

        def check() -> None:
            assert seen == [[1, 2], [1, 2]]

        return Scenario(
            [consume(news.subscribe()), consume(news.subscribe()), produce()],
            check,
        )

    await in_every_order(make)


async def test_broadcast_wrap() -> None:
    """One value too many: each reader counts three in all, received or missed."""

    def make() -> Scenario:
        news: Broadcast[int] = Broadcast(2)
        counted: list[int] = []

        async def consume(reader: Subscription[int]) -> None:
            counted.append(await count_all(reader))

        async def produce() -> None:
            for number in range(3):
                news.send(number)
                await turns(1)
            news.close()

        def check() -> None:
            assert counted == [3, 3]

        return Scenario(
            [consume(news.subscribe()), consume(news.subscribe()), produce()],
            check,
        )

    await in_every_order(make)


async def test_drop_rx() -> None:
    """A reader that is cancelled at any moment disturbs no other, and skips nothing."""

    def make() -> Scenario:
        news: Broadcast[int] = Broadcast(16)
        steady, leaving = news.subscribe(), news.subscribe()
        seen: list[int] = []
        received: list[int] = []

        async def leave() -> None:
            received.extend([await leaving.recv() for _ in range(2)])

        async def consume() -> None:
            seen.extend([number async for number in steady])

        async def produce() -> None:
            for number in range(3):
                await turns(1)
                news.send(number)
            news.close()

        def check() -> None:
            assert seen == [0, 1, 2]
            assert received in ([], [0, 1])
            assert steady.pending == 0

        return Scenario([leave(), consume(), produce()], check)

    await cancelled_at_every_turn(make)


async def test_drop_multiple_rx_with_overflow() -> None:
    """Readers that leave in the midst of an overflow leave nobody waiting."""

    def make() -> Scenario:
        news: Broadcast[int] = Broadcast(1)
        reader, idle = news.subscribe(), news.subscribe()

        async def consume() -> None:
            with reader:
                await count_all(reader)

        async def leave() -> None:
            idle.close()

        async def produce() -> None:
            for number in range(100):
                news.send(number)
                await turns(number % 50 == 0)
            news.close()

        def check() -> None:
            assert subscribers(news) == 0
            assert news.statistics().sent == 100

        return Scenario([consume(), leave(), produce()], check)

    await in_every_order(make)
