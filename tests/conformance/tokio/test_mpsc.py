"""tokio's tests of `mpsc`, by name: `sync_mpsc.rs` and its loom models, on a `Channel`.

A channel has no handles that are counted: where the last sender or the receiver is
dropped in Rust, `close` is called here.
"""

import asyncio
import gc
import weakref

import pytest

from millpond.errors import AlreadyReleased, Closed, WouldBlock
from millpond.flow import Limiter
from millpond.sync import Channel
from tests.conformance.tokio.support import (
    Scenario,
    cancelled_at_every_turn,
    drop,
    in_every_order,
    pending,
    ready,
    spawn,
)
from tests.toolkit import run_virtual, turns

BLOCK = 32
"""The values of one block of tokio's list, where its lengths had mistakes."""


class Thing:
    """Something whose end can be seen."""


def length(channel: Channel[int]) -> int:
    """How many values lie in it."""
    return channel.statistics().buffered


def is_closed(channel: Channel[int]) -> bool:
    """Whether it takes no more."""
    return channel.statistics().closed


def room(channel: Channel[int]) -> int:
    """How many values may still be sent or reserved."""
    now = channel.statistics()
    assert now.capacity is not None
    return now.capacity - now.buffered - now.reserved


async def filled(channel: Channel[int], count: int) -> Channel[int]:
    """Send the numbers below *count*."""
    for number in range(count):
        await channel.send(number)
    return channel


async def take(channel: Channel[int], count: int) -> None:
    """Receive *count* values, which must be there."""
    for _ in range(count):
        await ready(await spawn(channel.recv()))


async def is_over(channel: Channel[int]) -> bool:
    """Whether a receive ends at once with `Closed`."""
    receiver = await spawn(channel.recv())
    with pytest.raises(Closed):
        await ready(receiver)
    with pytest.raises(Closed):
        channel.recv_nowait()
    return True


# -- sending and receiving


async def test_send_recv_with_buffer() -> None:
    """Through a slot or directly: received in the order of sending, then over."""
    channel: Channel[int] = Channel(16)
    slot = await channel.reserve()
    slot.send(1)
    channel.send_nowait(2)
    channel.close()
    assert await channel.recv() == 1
    assert await channel.recv() == 2
    assert await is_over(channel)


async def test_reserve_disarm() -> None:
    """A used slot is room again when its value was received, a released one at once."""
    channel: Channel[int] = Channel(2)
    first, second = await channel.reserve(), await channel.reserve()
    third, fourth = await spawn(channel.reserve()), await spawn(channel.reserve())
    await pending(third, fourth)
    first.send(1)
    await pending(third)
    assert await channel.recv() == 1
    slot = await ready(third)
    await pending(fourth)
    second.release()
    with slot, await ready(fourth):
        fifth = await spawn(channel.reserve())
        await pending(fifth)
        await drop(fifth)


@pytest.mark.parametrize("capacity", [16])
async def test_send_recv_stream_with_buffer(capacity: int | None) -> None:
    """Iterated over, it gives what was sent and ends when it is closed."""
    channel: Channel[int] = Channel(capacity)

    async def produce() -> None:
        await channel.send(1)
        await channel.send(2)
        channel.close()

    producer = asyncio.create_task(produce())
    assert [number async for number in channel] == [1, 2]
    await producer


async def test_send_recv_stream_unbounded() -> None:
    """The same without a bound."""
    await test_send_recv_stream_with_buffer(None)


@pytest.mark.parametrize("capacity", [16])
async def test_async_send_recv_with_buffer(capacity: int | None) -> None:
    """Sent from another task, received in order, then over."""
    channel: Channel[int] = Channel(capacity)

    async def produce() -> None:
        await channel.send(1)
        await channel.send(2)
        channel.close()

    producer = asyncio.create_task(produce())
    assert await channel.recv() == 1
    assert await channel.recv() == 2
    assert await is_over(channel)
    await producer


async def test_async_send_recv_unbounded() -> None:
    """The same without a bound."""
    await test_async_send_recv_with_buffer(None)


async def test_start_send_past_cap() -> None:
    """A sender that gave up is not served in the place of the next one."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(1)
    first, second = await spawn(channel.reserve()), await spawn(channel.reserve())
    await drop(first)
    await pending(second)
    await channel.recv()
    with await ready(second):
        assert room(channel) == 0
    channel.close()
    assert await is_over(channel)


def test_buffer_gteq_one() -> None:
    """A channel for no values is refused."""
    with pytest.raises(ValueError, match="capacity"):
        Channel(0)


async def test_send_recv_unbounded() -> None:
    """Sending needs no wait; closed and received, it is over."""
    channel: Channel[int] = Channel()
    channel.send_nowait(1)
    channel.send_nowait(2)
    assert await channel.recv() == 1
    assert await channel.recv() == 2
    channel.close()
    assert await is_over(channel)


async def test_send_recv_buffer_limited() -> None:
    """Room that goes to who waits for it is not there for somebody else."""
    channel: Channel[int] = Channel(1)
    (await channel.reserve()).send(1)
    waiting = asyncio.create_task(channel.reserve())
    await pending(waiting)
    assert await channel.recv() == 1
    with pytest.raises(WouldBlock):  # not run yet, but it is promised
        channel.send_nowait(1337)
    slot = await ready(waiting)
    with pytest.raises(WouldBlock):
        channel.send_nowait(1337)
    slot.send(2)
    assert await channel.recv() == 2


def test_recv_timeout() -> None:
    """Sending under a deadline: room or timeout, and after the close neither."""

    async def main() -> None:
        channel: Channel[int] = Channel(5)

        async def send(number: int) -> None:
            async with asyncio.timeout(1):
                await channel.send(number)

        for number in range(5):
            await send(number)
        with pytest.raises(TimeoutError):
            await send(5)
        assert channel.statistics().senders == 0
        assert channel.drain() == [0, 1, 2, 3, 4]
        channel.close()
        with pytest.raises(Closed):
            await send(6)

    run_virtual(main())


# -- closing


async def test_recv_close_gets_none_idle() -> None:
    """Closed while nothing is in it: over, and no more is taken."""
    channel: Channel[int] = Channel(10)
    channel.close()
    assert await is_over(channel)
    with pytest.raises(Closed):
        await channel.send(1)


async def test_recv_close_gets_none_reserved() -> None:
    """Closing refuses who waits for room; who has a slot still sends, and is received."""
    channel: Channel[int] = Channel(1)
    slot = await channel.reserve()
    waiting = await spawn(channel.reserve())
    await pending(waiting)
    channel.close()
    with pytest.raises(Closed):
        await ready(waiting)
    receiver = await spawn(channel.recv())
    await pending(receiver)
    slot.send(123)
    assert await ready(receiver) == 123
    assert await is_over(channel)


async def test_failed_reserve_wakes_closed_receiver() -> None:
    """Room handed over just before the close is a slot; given back, the receiver is told."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    waiting = await spawn(channel.reserve())
    receiver = await spawn(channel.recv())
    slot.release()
    channel.close()
    late = await ready(waiting)
    await pending(receiver)
    late.release()
    with pytest.raises(Closed):
        await ready(receiver)


async def test_cancelled_reserve_wakes_closed_receiver() -> None:
    """Cancelled with room on the way to it, a sender leaves no receiver waiting."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    waiting = await spawn(channel.reserve())
    receiver = await spawn(channel.recv())
    slot.release()
    channel.close()
    assert not receiver.done()
    await drop(waiting)
    with pytest.raises(Closed):
        await ready(receiver)


async def test_tx_close_gets_none() -> None:
    """Nothing was ever sent, and nobody will: over."""
    channel: Channel[int] = Channel(10)
    receiver = await spawn(channel.recv())
    await pending(receiver)
    channel.close()
    with pytest.raises(Closed):
        await ready(receiver)


async def closed_with_a_slot(*, use: str) -> None:
    """Close with one slot out: who waited before, and who comes later, waits for its end."""
    channel: Channel[int] = Channel(100)
    slot = channel.reserve_nowait()
    early = await spawn(channel.recv())
    channel.close()
    late = await spawn(channel.recv())
    await pending(early, late)
    told = [late]
    if use == "send":
        slot.send(7)
        assert await ready(early) == 7
    else:
        told.append(early)
        if use == "leave":
            with slot:
                pass
        else:
            slot.release()
    for receiver in told:
        with pytest.raises(Closed):
            await ready(receiver)
    with pytest.raises(AlreadyReleased):
        slot.release()
    assert await is_over(channel)


async def test_dropping_last_permit_wakes_closed_receiver() -> None:
    """Left unused, the last slot of a closed channel ends the wait of the receiver."""
    await closed_with_a_slot(use="leave")


async def test_dropping_last_owned_permit_wakes_closed_receiver() -> None:
    """The same when another task leaves it."""
    await asyncio.create_task(closed_with_a_slot(use="leave"))


async def test_sending_last_permit_wakes_closed_receiver() -> None:
    """Used, it delivers its value."""
    await closed_with_a_slot(use="send")


async def test_sending_last_owned_permit_wakes_closed_receiver() -> None:
    """The same when another task than the one that reserved uses it."""
    channel: Channel[int] = Channel(100)
    slot = channel.reserve_nowait()
    channel.close()
    receiver = await spawn(channel.recv())
    asyncio.get_running_loop().call_soon(slot.send, 7)
    assert await ready(receiver) == 7
    assert await is_over(channel)


async def test_releasing_last_owned_permit_wakes_closed_receiver() -> None:
    """Released, it ends the wait; what the channel is held by does not matter."""
    await closed_with_a_slot(use="release")


async def test_ready_close_cancel_bounded() -> None:
    """A slot that is given back after the close ends the wait of a second receiver too."""
    channel: Channel[int] = Channel(100)
    slot = await channel.reserve()
    channel.close()
    receivers = [await spawn(channel.recv()) for _ in range(2)]
    await pending(*receivers)
    slot.release()
    for receiver in receivers:
        with pytest.raises(Closed):
            await ready(receiver)


async def test_permit_available_not_acquired_close() -> None:
    """Whoever waited for room at the close takes none of what is given back."""
    channel: Channel[int] = Channel(1)
    slot = await channel.reserve()
    waiting = await spawn(channel.reserve())
    channel.close()
    slot.release()
    with pytest.raises(Closed):
        await ready(waiting)
    assert await is_over(channel)


async def test_dropping_rx_closes_channel() -> None:
    """The receiver closes and drains: nothing is taken any more, nothing kept alive."""
    channel: Channel[Thing] = Channel(100)
    thing = Thing()
    alive = weakref.ref(thing)
    channel.send_nowait(thing)
    del thing
    assert alive() is not None
    channel.close()
    channel.drain()
    with pytest.raises(Closed):
        await channel.reserve()
    gc.collect()
    assert alive() is None


def test_dropping_rx_closes_channel_for_try() -> None:
    """The same for those who do not wait."""
    channel: Channel[Thing] = Channel(100)
    thing = Thing()
    alive = weakref.ref(thing)
    channel.send_nowait(thing)
    channel.close()
    with pytest.raises(Closed):
        channel.send_nowait(thing)
    with pytest.raises(Closed):
        channel.reserve_nowait()
    assert channel.drain() == [thing]
    del thing
    gc.collect()
    assert alive() is None


def test_unconsumed_messages_are_dropped() -> None:
    """With the channel goes what nobody received."""
    channel: Channel[Thing] = Channel(100)
    alive = weakref.ref(thing := Thing())
    channel.send_nowait(thing)
    del thing
    assert alive() is not None
    del channel
    gc.collect()
    assert alive() is None


# -- refusing instead of waiting


async def test_try_send_fail() -> None:
    """Full, it refuses; received from, it takes again."""
    channel: Channel[str] = Channel(1)
    channel.send_nowait("hello")
    with pytest.raises(WouldBlock):
        channel.send_nowait("fail")
    assert await channel.recv() == "hello"
    channel.send_nowait("goodbye")
    channel.close()
    assert await channel.recv() == "goodbye"
    with pytest.raises(Closed):
        await channel.recv()


async def test_try_send_fail_with_try_recv() -> None:
    """The same for a receiver that does not wait."""
    channel: Channel[str] = Channel(1)
    channel.send_nowait("hello")
    with pytest.raises(WouldBlock):
        channel.send_nowait("fail")
    assert channel.recv_nowait() == "hello"
    channel.send_nowait("goodbye")
    channel.close()
    assert channel.recv_nowait() == "goodbye"
    with pytest.raises(Closed):
        channel.recv_nowait()


async def test_try_reserve_fails() -> None:
    """A slot takes the room of a value, and gives it back unused."""
    channel: Channel[str] = Channel(1)
    slot = channel.reserve_nowait()
    with pytest.raises(WouldBlock):
        channel.reserve_nowait()
    slot.send("foo")
    assert await channel.recv() == "foo"
    channel.reserve_nowait().release()
    channel.reserve_nowait().release()


async def test_drop_permit_releases_permit() -> None:
    """A slot that is left unused goes to the sender that waits."""
    channel: Channel[int] = Channel(1)
    with await channel.reserve():
        waiting = await spawn(channel.reserve())
        await pending(waiting)
    (await ready(waiting)).release()
    assert room(channel) == 1


def test_try_recv_bounded() -> None:
    """Filled and emptied again and again, wholly and in part; then closed."""
    channel: Channel[str] = Channel(5)

    def send(count: int) -> None:
        for _ in range(count):
            channel.send_nowait("hello")

    def receive(count: int) -> None:
        for _ in range(count):
            assert channel.recv_nowait() == "hello"

    send(5)
    with pytest.raises(WouldBlock):
        send(1)
    receive(5)
    with pytest.raises(WouldBlock):
        receive(1)
    send(4)
    receive(1)
    send(2)
    with pytest.raises(WouldBlock):
        send(1)
    receive(5)
    with pytest.raises(WouldBlock):
        receive(1)
    send(3)
    channel.close()
    receive(3)
    with pytest.raises(Closed):
        receive(1)


def test_try_recv_unbounded() -> None:
    """Any number of values comes out as it went in."""
    for count in range(100):
        channel: Channel[int] = Channel()
        for number in range(count):
            channel.send_nowait(number)
        assert [channel.recv_nowait() for _ in range(count)] == list(range(count))
        with pytest.raises(WouldBlock):
            channel.recv_nowait()
        channel.close()
        with pytest.raises(Closed):
            channel.recv_nowait()


def refused_then_over(channel: Channel[int]) -> None:
    """Expect "nothing yet" before the close, and "closed" after it."""
    with pytest.raises(WouldBlock):
        channel.recv_nowait()
    channel.close()
    with pytest.raises(Closed):
        channel.recv_nowait()
    channel.close()  # once more changes nothing
    with pytest.raises(Closed):
        channel.recv_nowait()


def test_try_recv_after_receiver_close() -> None:
    """Empty and open is another answer than empty and closed."""
    refused_then_over(Channel(5))


def test_try_recv_close_while_empty_bounded() -> None:
    """The same after values went through."""
    channel: Channel[int] = Channel(5)
    channel.send_nowait(1)
    channel.recv_nowait()
    refused_then_over(channel)


def test_try_recv_close_while_empty_unbounded() -> None:
    """The same without a bound."""
    refused_then_over(Channel())


def test_try_recv_after_receiver_close_with_permit() -> None:
    """With a slot out, a closed channel is not over: its value may still come."""
    channel: Channel[int] = Channel(5)
    slot = channel.reserve_nowait()
    for close in (False, True):
        if close:
            channel.close()
        with pytest.raises(WouldBlock):
            channel.recv_nowait()
    slot.release()
    with pytest.raises(Closed):
        channel.recv_nowait()


# -- what can be seen of it


async def test_tx_capacity() -> None:
    """Room goes down by what is reserved and by what was sent; the capacity stays."""
    channel: Channel[int] = Channel(10)
    assert room(channel) == 10
    with await channel.reserve():
        assert room(channel) == 9
        await channel.send(1)
        assert room(channel) == 8
        assert channel.statistics().capacity == 10
    assert room(channel) == 9


async def test_rx_is_closed_when_calling_close_with_sender() -> None:
    """Closed although a sender would like to go on."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(1)
    sender = await spawn(channel.send(2))
    channel.close()
    assert is_closed(channel)
    with pytest.raises(Closed):
        await ready(sender)


async def test_rx_is_closed_when_dropping_all_senders() -> None:
    """Closed by a task of its own."""
    channel: Channel[int] = Channel(10)

    async def leave() -> None:
        channel.close()

    await asyncio.create_task(leave())
    assert is_closed(channel)


def test_rx_is_not_closed_when_there_are_senders() -> None:
    """Open from the beginning."""
    assert not is_closed(Channel(10))


async def test_rx_is_not_closed_when_there_are_senders_and_buffer_filled() -> None:
    """Full is not closed."""
    assert not is_closed(await filled(Channel(10), 10))


async def test_rx_is_closed_when_there_are_no_senders_and_there_are_messages() -> None:
    """Closed although something is still in it."""
    channel = await filled(Channel(10), 10)
    channel.close()
    assert is_closed(channel)
    assert length(channel) == 10


async def test_rx_is_closed_when_there_are_messages_and_close_is_called() -> None:
    """And stays closed while that is received."""
    channel = await filled(Channel(10), 10)
    channel.close()
    await take(channel, 10)
    assert is_closed(channel)


async def test_rx_is_not_closed_when_there_are_permits_but_not_senders() -> None:
    """A slot that is out does not close, nor does its end."""
    channel: Channel[int] = Channel(10)
    with await channel.reserve():
        assert not is_closed(channel)
    assert not is_closed(channel)


def test_rx_is_empty_when_no_messages_were_sent() -> None:
    """Empty from the beginning."""
    assert length(Channel(10)) == 0


async def test_rx_is_not_empty_when_there_are_messages_in_the_buffer() -> None:
    """One value is not none."""
    assert length(await filled(Channel(10), 1)) == 1


async def test_rx_is_not_empty_when_the_buffer_is_full() -> None:
    """Full is not empty."""
    assert length(await filled(Channel(10), 10)) == 10


async def test_rx_is_not_empty_when_all_but_one_messages_are_consumed() -> None:
    """The last value counts."""
    channel = await filled(Channel(10), 10)
    await take(channel, 9)
    assert length(channel) == 1


async def test_rx_is_empty_when_all_messages_are_consumed() -> None:
    """Emptied without waiting."""
    channel = await filled(Channel(10), 10)
    assert [channel.recv_nowait() for _ in range(10)] == list(range(10))
    assert length(channel) == 0
    with pytest.raises(WouldBlock):
        channel.recv_nowait()


async def test_rx_is_empty_all_senders_are_dropped_and_messages_consumed() -> None:
    """Emptied after the close."""
    channel = await filled(Channel(10), 10)
    channel.close()
    await take(channel, 10)
    assert length(channel) == 0
    assert await is_over(channel)


def test_rx_len_on_empty_channel() -> None:
    """Nothing is in a new one."""
    assert length(Channel(100)) == 0


def test_rx_len_on_empty_channel_without_senders() -> None:
    """The close is no value."""
    channel: Channel[int] = Channel(100)
    channel.close()
    assert length(channel) == 0


async def test_rx_len_on_filled_channel() -> None:
    """As many as were sent."""
    assert length(await filled(Channel(100), 100)) == 100


async def test_rx_len_on_filled_channel_without_senders() -> None:
    """Also after the close."""
    channel = await filled(Channel(100), 100)
    channel.close()
    assert length(channel) == 100


@pytest.mark.parametrize("capacity", [100])
async def test_rx_len_when_consuming_all_messages(capacity: int | None) -> None:
    """Up by one with each send, down by one with each receive, closed or not."""
    channel: Channel[int] = Channel(capacity)
    for number in range(100):
        await channel.send(number)
        assert length(channel) == number + 1
    channel.close()
    for number in reversed(range(100)):
        await channel.recv()
        assert length(channel) == number


async def test_rx_len_when_close_is_called() -> None:
    """The close takes nothing away."""
    channel = await filled(Channel(100), 1)
    channel.close()
    assert length(channel) == 1


async def test_rx_len_when_close_is_called_before_dropping_sender() -> None:
    """Nor does a sender that leaves after it."""
    channel = await filled(Channel(1), 1)
    sender = await spawn(channel.send(2))
    channel.close()
    with pytest.raises(Closed):
        await ready(sender)
    assert length(channel) == 1


async def test_rx_len_when_close_is_called_after_dropping_sender() -> None:
    """Nor one that left before it."""
    channel = await filled(Channel(1), 1)
    await drop(await spawn(channel.send(2)))
    channel.close()
    assert length(channel) == 1


def test_rx_unbounded_is_closed_when_calling_close_with_sender() -> None:
    """Without a bound: closed, and a send is refused."""
    channel: Channel[int] = Channel()
    channel.close()
    assert is_closed(channel)
    with pytest.raises(Closed):
        channel.send_nowait(1)


async def test_rx_unbounded_is_closed_when_dropping_all_senders() -> None:
    """Without a bound: closed by a task of its own, seen by the receiver."""
    channel: Channel[int] = Channel()
    receiver = await spawn(channel.recv())

    async def leave() -> None:
        channel.close()

    await asyncio.create_task(leave())
    assert is_closed(channel)
    with pytest.raises(Closed):
        await ready(receiver)


def test_rx_unbounded_is_not_closed_when_there_are_senders() -> None:
    """Without a bound: open from the beginning."""
    assert not is_closed(Channel())


async def test_rx_unbounded_is_closed_when_there_are_no_senders_and_there_are_messages() -> None:
    """Without a bound: closed although something is still in it."""
    channel = await filled(Channel(), 10)
    channel.close()
    assert is_closed(channel)
    assert length(channel) == 10


async def test_rx_unbounded_is_closed_when_there_are_messages_and_close_is_called() -> None:
    """Without a bound: and stays closed while that is received."""
    channel = await filled(Channel(), 10)
    channel.close()
    await take(channel, 10)
    assert is_closed(channel)


def test_rx_unbounded_is_empty_when_no_messages_were_sent() -> None:
    """Without a bound: empty from the beginning."""
    assert length(Channel()) == 0


async def test_rx_unbounded_is_not_empty_when_there_are_messages_in_the_buffer() -> None:
    """Without a bound: one value is not none."""
    assert length(await filled(Channel(), 1)) == 1


async def test_rx_unbounded_is_not_empty_when_all_but_one_messages_are_consumed() -> None:
    """Without a bound: the last value counts."""
    channel = await filled(Channel(), 10)
    await take(channel, 9)
    assert length(channel) == 1


async def test_rx_unbounded_is_empty_when_all_messages_are_consumed() -> None:
    """Without a bound: emptied without waiting."""
    channel = await filled(Channel(), 10)
    assert [channel.recv_nowait() for _ in range(10)] == list(range(10))
    assert length(channel) == 0


async def test_rx_unbounded_is_empty_all_senders_are_dropped_and_messages_consumed() -> None:
    """Without a bound: emptied after the close."""
    channel = await filled(Channel(), 10)
    channel.close()
    await take(channel, 10)
    assert length(channel) == 0
    assert await is_over(channel)


def test_rx_unbounded_len_on_empty_channel() -> None:
    """Without a bound: nothing is in a new one."""
    channel: Channel[int] = Channel()
    assert length(channel) == 0
    assert channel.statistics().capacity is None


def test_rx_unbounded_len_on_empty_channel_without_senders() -> None:
    """Without a bound: the close is no value."""
    channel: Channel[int] = Channel()
    channel.close()
    assert length(channel) == 0


async def test_rx_unbounded_len_with_multiple_messages() -> None:
    """Without a bound: as many as were sent."""
    assert length(await filled(Channel(), 100)) == 100


async def test_rx_unbounded_len_with_multiple_messages_and_dropped_senders() -> None:
    """Without a bound: also after the close."""
    channel = await filled(Channel(), 100)
    channel.close()
    assert length(channel) == 100


async def test_rx_unbounded_len_when_consuming_all_messages() -> None:
    """Without a bound: up and down by one."""
    await test_rx_len_when_consuming_all_messages(None)


async def test_rx_unbounded_len_when_close_is_called() -> None:
    """Without a bound: the close takes nothing away."""
    channel = await filled(Channel(), 1)
    channel.close()
    assert length(channel) == 1


async def test_rx_unbounded_len_when_close_is_called_before_dropping_sender() -> None:
    """Without a bound: nor does a send that is refused after it."""
    channel = await filled(Channel(), 1)
    channel.close()
    with pytest.raises(Closed):
        await channel.send(2)
    assert length(channel) == 1


async def test_rx_unbounded_len_when_close_is_called_after_dropping_sender() -> None:
    """Without a bound: nor a slot that was left before it."""
    channel = await filled(Channel(), 1)
    channel.reserve_nowait().release()
    channel.close()
    assert length(channel) == 1


async def test_is_empty_32_msgs() -> None:
    """One in, one out: empty each time, over many blocks."""
    channel: Channel[int] = Channel(BLOCK + 1)
    for number in range(1, 8 * BLOCK + 1):
        await channel.send(number)
        assert await channel.recv() == number
        assert length(channel) == 0


async def test_release_waker_on_rx_drop() -> None:
    """Nothing holds on to a receiver that has gone."""
    channel: Channel[int] = Channel(1)
    receiver = await spawn(channel.recv())
    gone = weakref.ref(receiver)
    await drop(receiver)
    assert channel.statistics().receivers == 0
    del receiver
    await turns(1)  # the loop holds on to whatever it runs at the moment
    gc.collect()
    assert gone() is None


# -- every order


@pytest.mark.parametrize("capacity", [16, 1])
async def test_closing_tx(capacity: int | None) -> None:
    """Sent and closed at any time: the value arrives, then the end."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(capacity)
        seen: list[int] = []

        async def produce() -> None:
            channel.send_nowait(1)
            channel.close()

        async def consume() -> None:
            seen.extend([number async for number in channel])

        def check() -> None:
            assert seen == [1]

        return Scenario([produce(), consume()], check)

    await in_every_order(make)


async def test_closing_unbounded_tx() -> None:
    """The same without a bound."""
    await test_closing_tx(None)


async def test_closing_bounded_rx() -> None:
    """Two senders that wait for room, or come later, all learn of the close."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(1)
        channel.send_nowait(0)

        async def produce() -> None:
            with pytest.raises(Closed):
                await channel.send(1)

        async def leave() -> None:
            channel.close()

        def check() -> None:
            assert channel.drain() == [0]
            assert channel.statistics().senders == 0

        return Scenario([produce(), produce(), leave()], check)

    await in_every_order(make)


async def test_closing_unbounded_rx() -> None:
    """Without a bound: what was sent before the close is in it, the rest was refused."""

    def make() -> Scenario:
        channel: Channel[int] = Channel()
        sent: list[int] = []

        async def produce(number: int) -> None:
            try:
                await channel.send(number)
            except Closed:
                return
            sent.append(number)

        async def leave() -> None:
            channel.close()

        def check() -> None:
            assert channel.drain() == sent

        return Scenario([produce(1), produce(2), leave()], check)

    await in_every_order(make)


async def test_closing_and_sending() -> None:
    """Of two senders for one place and a receiver that then closes, nobody is left waiting."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(1)
        outcomes: list[str] = []

        async def produce() -> None:
            try:
                await channel.send(1)
            except Closed:
                outcomes.append("closed")
            else:
                outcomes.append("sent")

        async def consume() -> None:
            assert await channel.recv() == 1
            channel.close()

        def check() -> None:
            assert outcomes.count("sent") == 1 + len(channel.drain())
            assert len(outcomes) == 2

        return Scenario([produce(), produce(), consume()], check)

    await in_every_order(make)


@pytest.mark.parametrize("capacity", [16])
async def test_dropping_tx(capacity: int | None) -> None:
    """Closed by two at once, it is over for one who waits at any time."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(capacity)

        async def leave() -> None:
            channel.close()

        async def consume() -> None:
            with pytest.raises(Closed):
                await channel.recv()

        return Scenario([leave(), leave(), consume()], lambda: None)

    await in_every_order(make)


async def test_dropping_unbounded_tx() -> None:
    """The same without a bound."""
    await test_dropping_tx(None)


async def test_try_recv() -> None:
    """As many values as permits: who holds a permit always finds one."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(2)
        permits = Limiter(2)
        for number in range(2):
            channel.send_nowait(number)

        async def borrow() -> None:
            with await permits.acquire():
                number = channel.recv_nowait()
                await turns(1)
                channel.send_nowait(number)

        def check() -> None:
            assert sorted(channel.drain()) == [0, 1]

        return Scenario([borrow(), borrow(), borrow()], check)

    await in_every_order(make)


async def test_len_nonzero_after_send() -> None:
    """After a send that has returned something is in it."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(10)

        async def produce() -> None:
            await channel.send(1)
            assert length(channel) in {1, 2}

        def check() -> None:
            assert length(channel) == 2

        return Scenario([produce(), produce()], check)

    await in_every_order(make)


async def test_nonempty_after_send() -> None:
    """What was sent can be received at once, cancelled receivers or not."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(10)
        received: list[int] = []

        async def consume() -> None:
            received.append(await channel.recv())

        async def produce() -> None:
            await turns(1)
            await channel.send(1)

        def check() -> None:
            assert received + channel.drain() == [1]
            assert channel.statistics().receivers == 0

        return Scenario([consume(), produce()], check)

    await cancelled_at_every_turn(make)


async def during_close(count: int) -> None:
    """Expect *count* values in it before, at and after the close."""

    def make() -> Scenario:
        channel: Channel[int] = Channel(count + 1)
        for number in range(count):
            channel.send_nowait(number)

        async def look() -> None:
            assert length(channel) == count

        async def leave() -> None:
            channel.close()

        return Scenario([look(), leave()], lambda: None)

    await in_every_order(make)


async def test_is_empty_during_close() -> None:
    """Empty, whenever one looks."""
    await during_close(0)


async def test_len_during_close_0() -> None:
    """The close is never seen as a value."""
    await during_close(0)


async def test_len_during_close_1() -> None:
    """Nor takes one away."""
    await during_close(1)


async def test_len_during_close_block_cap() -> None:
    """Nor with a whole block of them."""
    await during_close(BLOCK)


async def test_len_during_close_block_cap_plus_1() -> None:
    """Nor with one more."""
    await during_close(BLOCK + 1)
