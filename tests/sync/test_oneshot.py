"""Oneshot: one value, delivered once (O1, O2), whatever the order of send, close and receive."""

import asyncio

import pytest

from millpond.errors import Closed, Stopped, UsageError, WouldBlock
from millpond.sync import Oneshot, Stop
from tests.toolkit import end, quiet


async def test_delivers_before_and_after_the_wait_began() -> None:
    """O1: sent first, received first; None and False are values too."""
    for value in (42, None, False):
        early: Oneshot[object] = Oneshot()
        assert early.send(value) is None
        assert await early.recv() is value
        late: Oneshot[object] = Oneshot()
        task = asyncio.create_task(late.recv())
        await quiet()
        late.send(value)
        assert await task is value


def test_a_second_send_is_a_mistake() -> None:
    """O1: also after the value was received, and after it came back."""
    kept, received, refused = Oneshot[int](), Oneshot[int](), Oneshot[int]()
    kept.send(1)
    received.send(1)
    received.recv_nowait()
    refused.close()
    refused.send(1)
    for oneshot in (kept, received, refused):
        with pytest.raises(UsageError, match="carries one value"):
            oneshot.send(2)
    assert kept.recv_nowait() == 1


def test_a_value_that_nobody_can_receive_goes_back() -> None:
    """O2: the very same object."""
    oneshot, value = Oneshot[list[int]](), [1]
    oneshot.close()
    assert oneshot.send(value) is value
    with pytest.raises(Closed, match="oneshot is closed"):
        oneshot.recv_nowait()


async def test_a_value_sent_before_the_close_is_still_received() -> None:
    """Close, then try, or close, then wait: both get it, and only once."""
    tried, awaited = Oneshot[int](), Oneshot[int]()
    for oneshot in (tried, awaited):
        oneshot.send(1)
        oneshot.close()
        oneshot.close()
        assert oneshot.is_closed()
    assert tried.recv_nowait() == 1
    assert await awaited.recv() == 1
    for oneshot in (tried, awaited):
        with pytest.raises(UsageError, match="received already"):
            oneshot.recv_nowait()
        with pytest.raises(UsageError, match="received already"):
            await oneshot.recv()


def test_nothing_there_yet_would_block() -> None:
    """Raises: `WouldBlock`; nothing is changed by asking."""
    oneshot: Oneshot[int] = Oneshot()
    with pytest.raises(WouldBlock):
        oneshot.recv_nowait()
    oneshot.send(1)
    assert oneshot.recv_nowait() == 1


async def test_close_wakes_the_receiver_and_the_sender() -> None:
    """One is told that nothing comes, the other that nobody wants it any more."""
    oneshot: Oneshot[int] = Oneshot()
    receiver = asyncio.create_task(oneshot.recv())
    sender = asyncio.create_task(oneshot.wait_closed())
    await quiet()
    oneshot.close()
    with pytest.raises(Closed):
        await receiver
    await sender
    await oneshot.wait_closed()
    with pytest.raises(Closed):
        await oneshot.recv()


async def test_a_send_does_not_wake_whoever_waits_for_the_close() -> None:
    """It looks again and waits on."""
    oneshot: Oneshot[int] = Oneshot()
    task = asyncio.create_task(oneshot.wait_closed())
    await quiet()
    oneshot.send(1)
    await quiet()
    assert not task.done()
    await end(task)
    assert oneshot.recv_nowait() == 1


async def test_of_two_receivers_one_gets_it_and_the_other_is_told() -> None:
    """Ordering: the first that runs; the other has made a mistake."""
    oneshot: Oneshot[int] = Oneshot()
    first, second = (asyncio.create_task(oneshot.recv()) for _ in range(2))
    await quiet()
    oneshot.send(1)
    assert await first == 1
    with pytest.raises(UsageError, match="received already"):
        await second


async def test_stop_beats_value_and_close() -> None:
    """Ordering: and the value stays for the next call."""
    oneshot, stop = Oneshot[int](), Stop()
    oneshot.send(1)
    oneshot.close()
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await oneshot.recv(stop=stop)
    with pytest.raises(Stopped, match="enough"):
        await oneshot.wait_closed(stop=stop)
    assert await oneshot.recv() == 1


def test_repr_tells_the_whole_state() -> None:
    """Empty, sent, received; closed or not."""
    oneshot: Oneshot[int] = Oneshot()
    seen = [repr(oneshot)]
    oneshot.send(1)
    seen.append(repr(oneshot))
    oneshot.close()
    seen.append(repr(oneshot))
    oneshot.recv_nowait()
    seen.append(repr(oneshot))
    assert seen == [
        "<Oneshot empty>",
        "<Oneshot sent>",
        "<Oneshot sent, closed>",
        "<Oneshot received, closed>",
    ]
