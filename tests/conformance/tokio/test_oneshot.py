"""tokio's tests of `oneshot`, by name: `sync_oneshot.rs` and its loom models.

Sender and receiver share one object: `close` is what dropping either of them is in Rust.
"""

import gc
import weakref

import pytest

from millpond.errors import Closed, UsageError, WouldBlock
from millpond.sync import Oneshot
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


def is_empty(answer: Oneshot[int]) -> bool:
    """Whether there is no value to receive now."""
    return not repr(answer).startswith("<Oneshot sent")


def terminated(answer: Oneshot[int]) -> bool:
    """Whether the value was received: asking again is a mistake."""
    with pytest.raises(UsageError):
        answer.recv_nowait()
    return True


async def closed(answer: Oneshot[int]) -> bool:
    """Whether no value will come, however one asks."""
    for _ in range(2):
        with pytest.raises(Closed):
            answer.recv_nowait()
        with pytest.raises(Closed):
            await ready(await spawn(answer.recv()))
    return True


async def test_send_recv() -> None:
    """A receiver that waits is woken with the value."""
    answer: Oneshot[int] = Oneshot()
    receiver = await spawn(answer.recv())
    await pending(receiver)
    assert answer.send(1) is None
    assert await ready(receiver) == 1


async def test_async_send_recv() -> None:
    """Sent before, it is there."""
    answer: Oneshot[int] = Oneshot()
    assert answer.send(1) is None
    assert await answer.recv() == 1


async def test_close_tx() -> None:
    """The sender gives up: the receiver is told."""
    answer: Oneshot[int] = Oneshot()
    receiver = await spawn(answer.recv())
    await pending(receiver)
    answer.close()
    with pytest.raises(Closed):
        await ready(receiver)


async def test_close_rx() -> None:
    """The receiver gives up: the sender is told, and gets its value back."""
    answer: Oneshot[int] = Oneshot()
    answer.close()
    assert answer.send(1) == 1

    answer = Oneshot()
    watcher = await spawn(answer.wait_closed())
    await pending(watcher)
    assert not answer.is_closed()
    answer.close()
    await ready(watcher)
    assert answer.is_closed()
    await ready(await spawn(answer.wait_closed()))
    assert answer.send(1) == 1


async def test_async_rx_closed() -> None:
    """Closed from another task, the wait for it ends."""
    answer: Oneshot[int] = Oneshot()

    async def leave() -> None:
        answer.close()

    watcher = await spawn(answer.wait_closed())
    await spawn(leave())
    await ready(watcher)


async def test_explicit_close_poll() -> None:
    """Sent before the close, the value is received; else it goes back, or never comes."""
    answer: Oneshot[int] = Oneshot()
    assert answer.send(1) is None
    answer.close()
    assert await ready(await spawn(answer.recv())) == 1

    for send in (True, False):
        answer = Oneshot()
        watcher = await spawn(answer.wait_closed())
        await pending(watcher)
        answer.close()
        await ready(watcher)
        if send:
            assert answer.send(1) == 1
        assert await closed(answer)


async def test_explicit_close_try_recv() -> None:
    """The same for a receiver that does not wait."""
    answer: Oneshot[int] = Oneshot()
    assert answer.send(1) is None
    answer.close()
    assert answer.recv_nowait() == 1

    answer = Oneshot()
    watcher = await spawn(answer.wait_closed())
    answer.close()
    await ready(watcher)
    with pytest.raises(Closed):
        answer.recv_nowait()


async def test_close_try_recv_poll() -> None:
    """Asked without waiting and then with: the answer stays "closed"."""
    answer: Oneshot[int] = Oneshot()
    answer.close()
    with pytest.raises(Closed):
        answer.recv_nowait()
    with pytest.raises(Closed):
        await ready(await spawn(answer.recv()))


def test_close_after_recv() -> None:
    """Closing what was received changes nothing."""
    answer: Oneshot[int] = Oneshot()
    answer.send(17)
    assert answer.recv_nowait() == 17
    answer.close()
    assert terminated(answer)


def test_try_recv_after_completion() -> None:
    """The value is received once; asking again is refused, before and after a close."""
    answer: Oneshot[int] = Oneshot()
    answer.send(17)
    assert answer.recv_nowait() == 17
    assert terminated(answer)
    answer.close()
    assert terminated(answer)


async def test_try_recv_after_completion_await() -> None:
    """The same when it was awaited, and when it is awaited again."""
    answer: Oneshot[int] = Oneshot()
    receiver = await spawn(answer.recv())
    answer.send(17)
    assert await ready(receiver) == 17
    assert terminated(answer)
    with pytest.raises(UsageError):
        await ready(await spawn(answer.recv()))
    answer.close()


async def test_drops_tasks() -> None:
    """Neither a receiver nor a watcher that has gone is held on to."""
    answer: Oneshot[int] = Oneshot()
    tasks = [await spawn(answer.recv()), await spawn(answer.wait_closed())]
    gone = [weakref.ref(task) for task in tasks]
    await drop(*tasks)
    del tasks
    await turns(1)  # the loop holds on to whatever it runs at the moment
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert answer.send(1) is None


async def test_receiver_changes_task() -> None:
    """The task that waits now is woken; the one that waited before has left."""
    answer: Oneshot[int] = Oneshot()
    first = await spawn(answer.recv())
    second = await spawn(answer.recv())
    await drop(first)
    await pending(second)
    answer.send(1)
    assert await ready(second) == 1


async def test_sender_changes_task() -> None:
    """The same for those who wait for the close."""
    answer: Oneshot[int] = Oneshot()
    first = await spawn(answer.wait_closed())
    second = await spawn(answer.wait_closed())
    await drop(first)
    await pending(second)
    answer.close()
    await ready(second)


async def test_receiver_is_terminated_send() -> None:
    """At its end when the value was awaited, not when it was sent."""
    answer: Oneshot[int] = Oneshot()
    with pytest.raises(WouldBlock):
        answer.recv_nowait()
    answer.send(17)
    assert await ready(await spawn(answer.recv())) == 17
    assert terminated(answer)


def test_receiver_is_terminated_try_recv() -> None:
    """The same when it was taken without waiting."""
    answer: Oneshot[int] = Oneshot()
    with pytest.raises(WouldBlock):
        answer.recv_nowait()
    answer.send(17)
    assert answer.recv_nowait() == 17
    assert terminated(answer)


async def test_receiver_is_terminated_drop() -> None:
    """The sender gives up while one waits: told, and told again to whoever asks."""
    answer: Oneshot[int] = Oneshot()
    receiver = await spawn(answer.recv())
    answer.close()
    with pytest.raises(Closed):
        await ready(receiver)
    assert await closed(answer)


async def test_receiver_is_terminated_rx_close() -> None:
    """Closed before anybody waits: told to whoever asks."""
    answer: Oneshot[int] = Oneshot()
    with pytest.raises(WouldBlock):
        answer.recv_nowait()
    answer.close()
    assert await closed(answer)


async def test_receiver_is_empty_send() -> None:
    """Empty, then not, then empty when the value was awaited."""
    answer: Oneshot[int] = Oneshot()
    assert is_empty(answer)
    answer.send(17)
    assert not is_empty(answer)
    assert await ready(await spawn(answer.recv())) == 17
    assert is_empty(answer)


def test_receiver_is_empty_try_recv() -> None:
    """The same when it was taken without waiting."""
    answer: Oneshot[int] = Oneshot()
    assert is_empty(answer)
    answer.send(17)
    assert not is_empty(answer)
    assert answer.recv_nowait() == 17
    assert is_empty(answer)


async def test_receiver_is_empty_drop() -> None:
    """A close is no value, before and after it was told."""
    answer: Oneshot[int] = Oneshot()
    receiver = await spawn(answer.recv())
    answer.close()
    assert is_empty(answer)
    with pytest.raises(Closed):
        await ready(receiver)
    assert is_empty(answer)


def test_receiver_is_empty_rx_close() -> None:
    """Nor is a value that was sent after it, and went back."""
    answer: Oneshot[int] = Oneshot()
    answer.close()
    assert is_empty(answer)
    assert answer.send(1) == 1
    with pytest.raises(Closed):
        answer.recv_nowait()


# -- every order


async def test_smoke() -> None:
    """Sent at any time, the value arrives."""

    def make() -> Scenario:
        answer: Oneshot[int] = Oneshot()

        async def produce() -> None:
            assert answer.send(1) is None

        async def consume() -> None:
            assert await answer.recv() == 1

        return Scenario([produce(), consume()], lambda: None)

    await in_every_order(make)


async def test_changing_rx_task() -> None:
    """A receiver cancelled at any moment leaves the value to the next one."""

    def make() -> Scenario:
        answer: Oneshot[int] = Oneshot()
        seen: list[int] = []

        async def consume() -> None:
            seen.append(await answer.recv())

        async def produce() -> None:
            await turns(1)
            assert answer.send(1) is None

        def check() -> None:
            assert seen or answer.recv_nowait() == 1

        return Scenario([consume(), produce()], check)

    await cancelled_at_every_turn(make)


async def sent_or_returned(*, wait: bool) -> None:
    """Send and close in every order: the value is received or goes back, never both."""

    def make() -> Scenario:
        answer: Oneshot[int] = Oneshot()
        seen: list[int | None] = []

        async def produce() -> None:
            seen.append(answer.send(1))

        async def leave() -> None:
            answer.close()
            try:
                got = await answer.recv() if wait else answer.recv_nowait()
            except Closed:
                got = None
            seen.append(got)

        def check() -> None:
            assert sorted(seen, key=str) == [1, None]

        return Scenario([produce(), leave()], check)

    await in_every_order(make)


async def test_try_recv_close() -> None:
    """Closed and asked without waiting."""
    await sent_or_returned(wait=False)


async def test_recv_closed() -> None:
    """Closed and awaited: that wait ends."""
    await sent_or_returned(wait=True)


async def test_changing_tx_task() -> None:
    """A watcher cancelled at any moment leaves the close to be seen by the next one."""

    def make() -> Scenario:
        answer: Oneshot[int] = Oneshot()

        async def watch() -> None:
            await answer.wait_closed()

        async def leave() -> None:
            await turns(1)
            answer.close()

        def check() -> None:
            assert answer.is_closed()

        return Scenario([watch(), watch(), leave()], check)

    await cancelled_at_every_turn(make)


async def test_checking_tx_send_ok_not_drop() -> None:
    """A value that was refused is the sender's: nothing of it stays behind."""
    answer: Oneshot[Thing] = Oneshot()
    answer.close()
    thing = Thing()
    alive = weakref.ref(thing)
    returned = answer.send(thing)
    assert returned is thing
    del thing, returned
    gc.collect()
    assert alive() is None


async def test_drop_rx_after_poll() -> None:
    """A receiver that waited and leaves just as the value is sent: the value stays."""
    for sent_first in (True, False):
        answer: Oneshot[int] = Oneshot()
        receiver = await spawn(answer.recv())
        if sent_first:
            answer.send(1)
            await drop(receiver)
        else:
            receiver.cancel()
            answer.send(1)
            await drop(receiver)
        assert await answer.recv() == 1
