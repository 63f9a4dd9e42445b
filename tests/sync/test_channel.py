"""Channel: values, room, slots, and how it ends (C1-C5)."""

import asyncio
import itertools

import pytest

from millpond.errors import AlreadyReleased, Closed, Stopped, WouldBlock
from millpond.sync import Channel, ChannelStatistics, Stop
from tests.toolkit import ForeignStop, end, quiet, turns


def books(channel: Channel[int]) -> tuple[int, int, int, int]:
    """Return what is buffered, reserved, and how many receivers and senders wait."""
    now = channel.statistics()
    return now.buffered, now.reserved, now.receivers, now.senders


# --- Values and room


async def test_values_keep_the_order_of_their_sending() -> None:
    """C3: through every door in and out."""
    channel: Channel[int] = Channel(4)
    await channel.send(0)
    channel.send_nowait(1)
    with await channel.reserve() as slot:
        channel.send_nowait(2)
        slot.send(3)
    assert await channel.recv() == 0
    assert channel.recv_nowait() == 1
    channel.send_nowait(4)
    channel.close()
    assert [value async for value in channel] == [2, 3, 4]


@pytest.mark.parametrize("capacity", [1, 2, 5])
async def test_never_holds_more_than_its_capacity(capacity: int) -> None:
    """C1: buffered and reserved together; a slot counts as a value."""
    channel: Channel[int] = Channel(capacity)
    for taken in range(capacity):
        assert sum(books(channel)[:2]) == taken
        if taken % 2:
            channel.send_nowait(taken)
        else:
            channel.reserve_nowait().send(taken)
    with pytest.raises(WouldBlock):
        channel.send_nowait(9)
    with pytest.raises(WouldBlock):
        channel.reserve_nowait()
    assert books(channel) == (capacity, 0, 0, 0)
    channel.recv_nowait()
    channel.send_nowait(9)


def test_without_a_capacity_it_takes_any_number() -> None:
    """And says so."""
    channel: Channel[int] = Channel()
    for number in range(10_000):
        channel.send_nowait(number)
    assert channel.statistics().capacity is None
    assert repr(channel) == "<Channel 10000 unbounded, 0 reserved>"
    assert channel.drain() == list(range(10_000))


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "2"])
def test_the_capacity_is_a_whole_number_of_at_least_one(capacity: object) -> None:
    """Raises: `ValueError` with what came."""
    with pytest.raises(ValueError, match="`capacity` must be an integer >= 1, got"):
        Channel(capacity)  # type: ignore[arg-type] # the point


def test_an_empty_one_would_block() -> None:
    """Raises: `WouldBlock`, until it is closed."""
    channel: Channel[int] = Channel()
    with pytest.raises(WouldBlock):
        channel.recv_nowait()
    channel.close()
    with pytest.raises(Closed, match="channel is closed"):
        channel.recv_nowait()


def test_statistics_and_repr_are_snapshots() -> None:
    """They never change afterwards, and looking changes nothing."""
    channel: Channel[int] = Channel(3)
    slot = channel.reserve_nowait()
    channel.send_nowait(1)
    before = channel.statistics()
    assert before == ChannelStatistics(
        capacity=3, buffered=1, reserved=1, receivers=0, senders=0, closed=False
    )
    assert repr(channel) == "<Channel 1 of 3, 1 reserved>"
    slot.release()
    channel.close()
    assert before.reserved == 1
    assert repr(channel) == "<Channel 1 of 3, 0 reserved, closed>"


# --- Slots


def test_a_slot_is_good_for_one_send_or_one_release() -> None:
    """Raises: `AlreadyReleased`, whichever came first."""
    channel: Channel[int] = Channel(2)
    sent, released = channel.reserve_nowait(), channel.reserve_nowait()
    assert repr(sent) == "<Slot reserved>"
    sent.send(1)
    released.release()
    for slot in (sent, released):
        assert repr(slot) == "<Slot settled>"
        with pytest.raises(AlreadyReleased):
            slot.send(2)
        with pytest.raises(AlreadyReleased):
            slot.release()
    assert books(channel) == (1, 0, 0, 0)


async def test_leaving_the_block_gives_the_room_back_unless_it_was_used() -> None:
    """Also when the block raises."""
    channel: Channel[int] = Channel(1)
    with await channel.reserve():
        assert books(channel) == (0, 1, 0, 0)
    with pytest.raises(LookupError), await channel.reserve():
        raise LookupError
    assert books(channel) == (0, 0, 0, 0)
    with await channel.reserve() as slot:
        slot.send(1)
        assert books(channel) == (1, 0, 0, 0)
    assert channel.recv_nowait() == 1


def test_a_dropped_slot_is_loud() -> None:
    """Its room is lost, which nobody would notice otherwise."""
    channel: Channel[int] = Channel(1)
    slots = [channel.reserve_nowait()]
    with pytest.warns(ResourceWarning, match="a Slot was dropped unused"):
        slots.clear()
    assert channel.statistics().reserved == 1


# --- Who waits, and for what


async def test_receivers_are_served_in_the_order_in_which_they_came() -> None:
    """C3: one value wakes one of them, and no more."""
    channel, record = Channel[int](), list[tuple[int, int]]()

    async def receive(number: int) -> None:
        record.append((number, await channel.recv()))

    tasks = [asyncio.create_task(receive(number)) for number in range(4)]
    await quiet()
    assert books(channel) == (0, 0, 4, 0)
    channel.send_nowait(10)
    await quiet()
    assert record == [(0, 10)]
    for value in (11, 12, 13):
        channel.send_nowait(value)
    await asyncio.gather(*tasks)
    assert record == [(0, 10), (1, 11), (2, 12), (3, 13)]
    assert books(channel) == (0, 0, 0, 0)


async def test_senders_are_served_in_the_order_in_which_they_came() -> None:
    """C3: `send` and `reserve` stand in one line."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)

    async def reserve(value: int) -> None:
        with await channel.reserve() as slot:
            slot.send(value)

    tasks = [
        asyncio.create_task(reserve(value) if value % 2 else channel.send(value))
        for value in range(1, 6)
    ]
    await quiet()
    assert books(channel) == (1, 0, 0, 5)
    assert [await channel.recv() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    await asyncio.gather(*tasks)
    assert books(channel) == (0, 0, 0, 0)


async def test_room_on_its_way_to_a_sender_counts_once_as_reserved() -> None:
    """C1: and nobody else gets it meanwhile."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)
    task = asyncio.create_task(channel.send(1))
    await quiet()
    assert channel.recv_nowait() == 0
    assert books(channel) == (0, 1, 0, 0)
    with pytest.raises(WouldBlock):
        channel.send_nowait(2)
    await task
    assert books(channel) == (1, 0, 0, 0)
    assert channel.drain() == [1]


async def test_a_value_on_its_way_to_a_receiver_is_nobody_elses() -> None:
    """C2: neither `recv_nowait` nor `drain` takes it; all values arrive once."""
    channel: Channel[int] = Channel()
    task = asyncio.create_task(channel.recv())
    await quiet()
    channel.send_nowait(1)
    with pytest.raises(WouldBlock):
        channel.recv_nowait()
    assert channel.drain() == []
    channel.send_nowait(2)
    channel.send_nowait(3)
    assert len(channel.drain()) == 2
    await task
    assert books(channel) == (0, 0, 0, 0)


async def test_draining_makes_room_for_those_who_wait() -> None:
    """All at once."""
    channel: Channel[int] = Channel(2)
    channel.send_nowait(0)
    channel.send_nowait(1)
    tasks = [asyncio.create_task(channel.send(value)) for value in (2, 3, 4)]
    await quiet()
    assert channel.drain() == [0, 1]
    await quiet()
    assert [task.done() for task in tasks] == [True, True, False]
    assert channel.drain() == [2, 3]
    await tasks[2]


async def test_releasing_a_slot_serves_the_next_sender() -> None:
    """Not only a value that leaves makes room."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    task = asyncio.create_task(channel.send(1))
    await quiet()
    slot.release()
    await task
    assert channel.drain() == [1]


# --- Cancelled, stopped, given way


async def test_a_cancelled_send_has_not_happened() -> None:
    """C4, R24: receive and cancel in one tick, in both orders."""
    for order in ("recv, cancel", "cancel, recv"):
        channel: Channel[int] = Channel(1)
        channel.send_nowait(0)
        task = asyncio.create_task(channel.send(1))
        await quiet()
        for what in order.split(", "):
            if what == "recv":
                assert channel.recv_nowait() == 0
            else:
                task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert books(channel) == (0, 0, 0, 0)


@pytest.mark.parametrize("ending", ["deadline", "cancel", "scope"])
async def test_a_thousand_values_arrive_once_through_receives_that_end_early(ending: str) -> None:
    """R22, R23: by a deadline of its own, by `Task.cancel`, by the scope around it."""
    channel, got = Channel[int](8), list[int]()

    async def receive() -> None:
        got.append(await channel.recv())

    async def produce() -> None:
        for number in range(1000):
            await channel.send(number)
            if number % 3 == 0:
                await asyncio.sleep(0)

    producer = asyncio.create_task(produce())
    for attempt in itertools.count():
        if producer.done() and not channel.statistics().buffered:
            break
        if ending == "deadline":
            try:
                async with asyncio.timeout(0):
                    await receive()
            except TimeoutError:
                continue
        elif ending == "cancel":
            task = asyncio.create_task(receive())
            await turns(attempt % 4)
            await end(task)
        else:
            task = asyncio.create_task(receive())
            scope = asyncio.create_task(asyncio.wait([task]))
            await turns(attempt % 3)
            await end(scope, task)
    await producer
    assert got == list(range(1000))
    assert books(channel) == (0, 0, 0, 0)


@pytest.mark.parametrize("make_stop", [Stop, ForeignStop])
async def test_stop_beats_value_room_and_closed(make_stop: type[Stop | ForeignStop]) -> None:
    """Ordering: before the call, and nothing is consumed by it."""
    channel, stop = Channel[int](2), make_stop()
    channel.send_nowait(0)
    stop.stop()
    for closed in (False, True):
        if closed:
            channel.close()
        with pytest.raises(Stopped):
            await channel.recv(stop=stop)
        with pytest.raises(Stopped):
            await channel.send(1, stop=stop)
        with pytest.raises(Stopped):
            await channel.reserve(stop=stop)
    assert channel.drain() == [0]


@pytest.mark.parametrize("order", ["stop, close", "close, stop"])
@pytest.mark.parametrize("make_stop", [Stop, ForeignStop])
@pytest.mark.parametrize("side", ["recv", "send", "reserve"])
async def test_stopped_and_closed_in_one_step(
    side: str, make_stop: type[Stop | ForeignStop], order: str
) -> None:
    """C5: stop wins; the books balance, and whoever comes later is told that it is closed."""
    channel, stop = Channel[int](1), make_stop()
    if side != "recv":
        channel.send_nowait(0)

    async def use() -> None:
        if side == "recv":
            await channel.recv(stop=stop)
        elif side == "send":
            await channel.send(1, stop=stop)
        else:
            await channel.reserve(stop=stop)

    task = asyncio.create_task(use())
    await quiet()
    for what in order.split(", "):
        if what == "stop":
            stop.stop()
        else:
            channel.close()
    with pytest.raises(Stopped):
        await task
    channel.drain()
    assert books(channel) == (0, 0, 0, 0)
    with pytest.raises(Closed):
        await channel.recv()


@pytest.mark.parametrize("with_stop", [False, True])
async def test_a_tight_loop_gives_way_now_and_then(with_stop: bool) -> None:
    """Receiving from a full buffer, and sending where there is always room."""
    channel, stop = Channel[int](), Stop()
    argument = stop if with_stop else None
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.call_soon(seen.append, "while sending")
    for number in range(1000):
        await channel.send(number, stop=argument)
    loop.call_soon(seen.append, "while receiving")
    for number in range(1000):
        assert await channel.recv(stop=argument) == number
    assert seen == ["while sending", "while receiving"]


async def test_a_receiver_that_gave_way_waits_when_nothing_is_left() -> None:
    """C2: somebody else took it all meanwhile; the next value is its own again."""
    channel, got = Channel[int](), list[int]()
    for number in range(1000):
        channel.send_nowait(number)

    async def receive() -> None:
        for _ in range(500):
            got.append(await channel.recv())

    task = asyncio.create_task(receive())
    await asyncio.sleep(0)
    assert 0 < len(got) < 500
    left = channel.drain()
    await quiet()
    assert books(channel) == (0, 0, 1, 0)
    for number in range(1000, 1500):
        channel.send_nowait(number)
    await task
    assert sorted([*got, *left, *channel.drain()]) == list(range(1500))


@pytest.mark.parametrize("side", ["recv", "send", "reserve"])
async def test_a_stop_that_is_asked_for_while_it_gives_way_wins(side: str) -> None:
    """Ordering: no value is taken, none is sent."""
    channel, stop = Channel[int](), Stop()
    for number in range(1000):
        channel.send_nowait(number)
    done = 0

    async def work() -> None:
        nonlocal done
        while True:
            if side == "recv":
                await channel.recv(stop=stop)
            elif side == "send":
                await channel.send(0, stop=stop)
            else:
                (await channel.reserve(stop=stop)).release()
            assert not stop.is_stopped()
            done += 1

    task = asyncio.create_task(work())
    asyncio.get_running_loop().call_soon(stop.stop)
    with pytest.raises(Stopped):
        await task
    change = {"recv": -done, "send": done, "reserve": 0}[side]
    assert books(channel) == (1000 + change, 0, 0, 0)


# --- The end


async def test_close_sends_waiting_senders_away() -> None:
    """Raises: `Closed`, each its own; what they wanted to send was not sent."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)
    tasks = [asyncio.create_task(channel.send(value)) for value in (1, 2)]
    tasks.append(asyncio.create_task(channel.reserve()))  # type: ignore[arg-type] # the same end
    await quiet()
    channel.close()
    channel.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in ends] == [Closed] * 3
    assert len({id(error) for error in ends}) == 3
    assert channel.drain() == [0]
    for call in (channel.send(3), channel.reserve()):
        with pytest.raises(Closed):
            await call
    for refused in (lambda: channel.send_nowait(3), channel.reserve_nowait):
        with pytest.raises(Closed):
            refused()


async def test_what_is_in_it_is_received_after_the_close() -> None:
    """C5: then every receiver is told, those who wait too."""
    channel: Channel[int] = Channel()
    channel.send_nowait(1)
    channel.close()
    assert channel.recv_nowait() == 1
    with pytest.raises(Closed):
        await channel.recv()
    idle: Channel[int] = Channel()
    tasks = [asyncio.create_task(idle.recv()) for _ in range(3)]
    await quiet()
    idle.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in ends] == [Closed] * 3


@pytest.mark.parametrize("ending", ["send", "release", "leave"])
async def test_a_slot_that_is_out_keeps_a_closed_channel_open_for_its_value(ending: str) -> None:
    """C5: it may still send; used, released or left, the last one ends the wait."""
    channel: Channel[int] = Channel(2)
    slot, other = channel.reserve_nowait(), channel.reserve_nowait()
    task = asyncio.create_task(channel.recv())
    second = asyncio.create_task(channel.recv())
    await quiet()
    channel.close()
    other.release()
    await quiet()
    assert not task.done()
    with pytest.raises(WouldBlock):
        channel.recv_nowait()
    if ending == "send":
        slot.send(1)
        assert await task == 1
    elif ending == "release":
        slot.release()
    else:
        with slot:
            pass
    for waiter in [second] if ending == "send" else [task, second]:
        with pytest.raises(Closed):
            await waiter
    assert books(channel) == (0, 0, 0, 0)


async def test_room_that_was_granted_before_the_close_may_still_be_used() -> None:
    """C5: cancelled instead, it ends the wait of the receivers."""
    for cancelled in (False, True):
        channel: Channel[int] = Channel(1)
        channel.send_nowait(0)
        sender = asyncio.create_task(channel.send(1))
        await quiet()
        assert channel.recv_nowait() == 0
        receiver = asyncio.create_task(channel.recv())
        channel.close()
        if cancelled:
            sender.cancel()
            with pytest.raises(Closed):
                await receiver
            await asyncio.wait([sender])
        else:
            assert await receiver == 1
            await sender


async def test_a_sender_that_leaves_the_room_it_was_granted_ends_a_closed_channel() -> None:
    """C5: it was the last from whom something could come."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    receiver = asyncio.create_task(channel.recv())
    sender = asyncio.create_task(channel.send(1))
    await quiet()
    slot.release()
    channel.close()
    assert books(channel) == (0, 1, 1, 0)
    sender.cancel()
    with pytest.raises(Closed):
        await receiver
    assert books(channel) == (0, 0, 0, 0)


async def test_a_value_that_its_receiver_leaves_behind_is_the_next_ones_after_the_close() -> None:
    """C5: nobody is sent away while a value may still come his way."""
    channel: Channel[int] = Channel()
    first, second, third = (asyncio.create_task(channel.recv()) for _ in range(3))
    await quiet()
    channel.send_nowait(1)
    channel.close()
    first.cancel()
    assert await second == 1
    with pytest.raises(Closed):
        await third
    assert first.cancelled()


async def test_an_iteration_ends_with_the_channel() -> None:
    """With several readers: each value goes to one of them, and all of them end."""
    channel: Channel[int] = Channel(2)

    async def read() -> list[int]:
        return [value async for value in channel]

    readers = [asyncio.create_task(read()) for _ in range(3)]
    for number in range(50):
        await channel.send(number)
    channel.close()
    parts = await asyncio.gather(*readers)
    assert sorted(itertools.chain(*parts)) == list(range(50))
    assert all(part == sorted(part) for part in parts)


@pytest.mark.parametrize("capacity", [1, 2, 7])
async def test_many_senders_and_receivers_lose_and_double_nothing(capacity: int) -> None:
    """C1, C2, C3 under traffic: each sender's values arrive in its order."""
    channel: Channel[tuple[int, int]] = Channel(capacity)
    got: list[tuple[int, int]] = []

    async def produce(sender: int) -> None:
        for number in range(50):
            if number % 3:
                await channel.send((sender, number))
            else:
                with await channel.reserve() as slot:
                    await asyncio.sleep(0)
                    slot.send((sender, number))
            now = channel.statistics()
            assert now.buffered + now.reserved <= capacity

    async def consume() -> None:
        async for value in channel:
            got.append(value)  # noqa: PERF401 - one by one: the order among consumers counts

    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    await asyncio.gather(*(produce(sender) for sender in range(4)))
    channel.close()
    await asyncio.gather(*consumers)
    for sender in range(4):
        assert [number for who, number in got if who == sender] == list(range(50))
