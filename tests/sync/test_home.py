"""Wrong use: a second event loop, a closed one, a foreign thread. An error each, no hang.

An error that is raised changes nothing: what was refused can be done again the right way,
and whoever waits is served then.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine

import pytest

from millpond._base import either, park
from millpond.errors import Closed, SequenceFailed, UsageError
from millpond.flow import Limiter
from millpond.sync import Broadcast, Channel, Latch, Notify, Oneshot, Sequencer, Stop, Watch
from tests.sync.waits import CASES, Case, made, start
from tests.toolkit import end, quiet


def in_thread(call: Callable[[], object]) -> object:
    """Call it in a thread of its own; return its result, or what it raised."""
    ends: list[object] = []

    def main() -> None:
        try:
            ends.append(call())
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            ends.append(error)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    return ends[0]


async def bounded(wait: Coroutine[object, object, None]) -> None:
    """Await it in a loop of which nothing may wake it: a regression ends."""
    async with asyncio.timeout(5):
        await wait


def check_refused(end_of_call: object) -> None:
    """It raised an error that says what is wrong and what to do."""
    assert isinstance(end_of_call, UsageError), end_of_call
    assert "another thread" in str(end_of_call)
    assert "publish_threadsafe" in str(end_of_call)


# --- Every public wait


@pytest.mark.parametrize("kind", CASES.values(), ids=CASES)
async def test_a_change_from_a_foreign_thread_is_refused_and_changes_nothing(
    kind: type[Case],
) -> None:
    """Neither a hang nor half a change: done again in the loop, it serves the waiter."""
    case = await made(kind)
    task = start(case)
    await quiet()
    check_refused(in_thread(case.ready))
    await quiet()
    assert not task.done()
    assert case.waiting() == 1
    case.ready()
    await task
    assert len(case.got) == 1
    case.check_at_rest()


@pytest.mark.parametrize("kind", CASES.values(), ids=CASES)
async def test_a_wait_in_a_second_loop_is_refused(kind: type[Case]) -> None:
    """While somebody waits in the first; that one is served as if nothing had been."""
    case = await made(kind)
    task = start(case)
    await quiet()
    error = in_thread(lambda: asyncio.run(bounded(case.wait())))
    assert isinstance(error, UsageError), error
    assert "another event loop" in str(error)
    assert case.waiting() == 1
    case.ready()
    await task
    assert len(case.got) == 1
    case.check_at_rest()


@pytest.mark.parametrize("kind", CASES.values(), ids=CASES)
def test_a_wait_after_the_loop_was_closed_is_refused(kind: type[Case]) -> None:
    """What belonged to a loop that is gone does not come alive in the next one."""
    cases: list[Case] = []

    async def first() -> None:
        cases.append(await made(kind))
        task = start(cases[0])
        await quiet()
        await end(task)

    async def second() -> None:
        await bounded(cases[0].wait())

    asyncio.run(first())
    with pytest.raises(UsageError, match="was closed; make a new one for each loop"):
        asyncio.run(second())

    async def third() -> None:
        cases[0].check_at_rest()

    asyncio.run(third())


@pytest.mark.parametrize("kind", [kind for kind in CASES.values() if kind.takes_stop])
async def test_a_stop_of_another_loop_is_refused(kind: type[Case]) -> None:
    """It could never end this wait; nobody is left in line."""
    case, stop = await made(kind), Stop()

    async def elsewhere() -> None:
        task = asyncio.create_task(stop.wait_stopped())
        await quiet()
        await end(task)

    assert in_thread(lambda: asyncio.run(elsewhere())) is None
    with pytest.raises(UsageError, match="Stop"):
        await case.wait(stop)
    assert case.waiting() == 0
    case.ready()
    await case.wait()
    assert len(case.got) == 1
    case.check_at_rest()


# --- Every other change


Scene = tuple[Callable[[], object], asyncio.Task[object], type[BaseException] | None]
"""What to call, who waits for it, and the error with which that one ends."""


async def ends_with(task: asyncio.Task[object], error: type[BaseException] | None) -> None:
    """Await *task*, whose end is known."""
    if error is None:
        await task
    else:
        with pytest.raises(error):
            await task


SCENES: dict[str, Callable[[], Scene]] = {}
"""How to come to each change that can wake somebody."""

new = asyncio.create_task


def scene(make: Callable[[], Scene]) -> Callable[[], Scene]:
    """Put it into the table."""
    SCENES[make.__name__] = make
    return make


@scene
def notify_one() -> Scene:
    """A hint for one."""
    notify = Notify()
    return notify.notify_one, new(hinted(notify)), None


@scene
def notify_waiters() -> Scene:
    """A hint for all."""
    notify = Notify()
    return notify.notify_waiters, new(hinted(notify)), None


@scene
def stop() -> Scene:
    """A stop that is waited for."""
    stop = Stop()
    return stop.stop, new(stop.wait_stopped()), None


@scene
def stop_above() -> Scene:
    """A stop two generations above the one that is waited for."""
    stop = Stop()
    middle = stop.child()
    return stop.stop, new(middle.child().wait_stopped()), None


@scene
def latch() -> Scene:
    """Opened."""
    latch = Latch()
    return latch.mark_ready, new(latch.wait_ready()), None


@scene
def oneshot_send() -> Scene:
    """The value comes."""
    oneshot: Oneshot[int] = Oneshot()
    return lambda: oneshot.send(1), new(oneshot.recv()), None


@scene
def oneshot_close() -> Scene:
    """The receiver learns that none comes."""
    oneshot: Oneshot[int] = Oneshot()
    return oneshot.close, new(oneshot.recv()), Closed


@scene
def oneshot_close_seen_by_the_sender() -> Scene:
    """The sender learns that nobody wants it."""
    oneshot: Oneshot[int] = Oneshot()
    return oneshot.close, new(oneshot.wait_closed()), None


@scene
def broadcast_send() -> Scene:
    """A value for a subscriber."""
    news: Broadcast[int] = Broadcast(2)
    return lambda: news.send(1), new(news.subscribe().recv()), None


@scene
def broadcast_close() -> Scene:
    """No more values."""
    news: Broadcast[int] = Broadcast(2)
    return news.close, new(news.subscribe().recv()), Closed


@scene
def subscription_close() -> Scene:
    """No more for this one."""
    reader = Broadcast[int](2).subscribe()
    return reader.close, new(reader.recv()), Closed


@scene
def watch_set() -> Scene:
    """A new value."""
    watch = Watch(0)
    return lambda: watch.set(1), new(watch.subscribe().changed()), None


@scene
def watch_modify() -> Scene:
    """A new value made of the old one."""
    watch = Watch(0)
    follower = watch.subscribe()
    return lambda: watch.modify(lambda n: n + 1), new(follower.wait_for(lambda n: n == 1)), None


@scene
def watch_close() -> Scene:
    """No new value any more."""
    watch = Watch(0)
    return watch.close, new(watch.subscribe().changed()), Closed


@scene
def sequencer_advance() -> Scene:
    """The turn comes."""
    line = Sequencer()
    return lambda: line.advance(0), new(line.wait_turn(1)), None


@scene
def sequencer_fail() -> Scene:
    """It never comes."""
    line = Sequencer()
    return lambda: line.fail(0, ValueError("x")), new(line.wait_turn(1)), SequenceFailed


@scene
def channel_close_for_a_receiver() -> Scene:
    """Nothing comes any more."""
    channel: Channel[int] = Channel()
    return channel.close, new(channel.recv()), Closed


@scene
def channel_close_for_a_sender() -> Scene:
    """Nothing is taken any more."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)
    return channel.close, new(channel.send(1)), Closed


@scene
def channel_drain() -> Scene:
    """Room, because all was taken out."""
    channel: Channel[int] = Channel(1)
    channel.send_nowait(0)
    return channel.drain, new(channel.send(1)), None


@scene
def slot_send() -> Scene:
    """A value, by way of a slot."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    return lambda: slot.send(1), new(channel.recv()), None


@scene
def slot_release() -> Scene:
    """Room, because a slot was not used."""
    channel: Channel[int] = Channel(1)
    slot = channel.reserve_nowait()
    return slot.release, new(channel.send(1)), None


@scene
def limiter_close() -> Scene:
    """No permit any more."""
    limiter = Limiter(1)
    held = limiter.acquire_nowait()

    async def queue() -> None:
        try:
            await limiter.acquire()
        finally:
            held.release()

    return limiter.close, new(queue()), Closed


@scene
def limiter_resize() -> Scene:
    """One permit more."""
    limiter = Limiter(1)
    held = limiter.acquire_nowait()
    held.hand_over("somebody")

    async def queue() -> None:
        with await limiter.acquire():
            held.release()

    return lambda: limiter.resize(2), new(queue()), None


async def hinted(notify: Notify) -> None:
    """Wait for a bare notification."""
    with notify.notified() as armed:
        await armed


@pytest.mark.parametrize("make", SCENES.values(), ids=SCENES)
async def test_any_change_from_a_foreign_thread_can_be_made_again_in_the_loop(
    make: Callable[[], Scene],
) -> None:
    """Refused there, it has changed nothing; made here, it reaches whoever waits."""
    change, waiter, error = make()
    await quiet()
    check_refused(in_thread(change))
    await quiet()
    assert not waiter.done()
    change()
    await ends_with(waiter, error)


@pytest.mark.parametrize(
    "name",
    [
        "notify_one",
        "notify_waiters",
        "stop",
        "latch",
        "oneshot_send",
        "oneshot_close",
        "broadcast_send",
        "broadcast_close",
        "watch_set",
        "watch_close",
        "sequencer_advance",
        "sequencer_fail",
        "channel_close_for_a_receiver",
    ],
)
def test_a_change_after_the_loop_was_closed_is_refused(name: str) -> None:
    """Whoever waited there is gone, and nobody else can wait for it."""
    scenes: list[Callable[[], object]] = []

    async def main() -> None:
        change, waiter, _ = SCENES[name]()
        scenes.append(change)
        await quiet()
        await end(waiter)

    asyncio.run(main())
    with pytest.raises(UsageError, match="was closed; make a new one for each loop"):
        scenes[0]()


async def test_what_was_refused_does_not_show_in_the_books() -> None:
    """A limiter that is closed or resized, a channel that is closed, drained or sent to."""
    limiter, channel = Limiter(1), Channel[int](1)
    held = limiter.acquire_nowait()
    channel.send_nowait(0)
    tasks = [asyncio.create_task(limiter.acquire()), asyncio.create_task(channel.send(1))]
    await quiet()
    before = (limiter.statistics(), channel.statistics())
    calls: list[Callable[[], object]] = [
        limiter.close,
        lambda: limiter.resize(2),
        held.release,
        channel.close,
        channel.drain,
        channel.recv_nowait,
    ]
    for call in calls:
        check_refused(in_thread(call))
        assert (limiter.statistics(), channel.statistics()) == before
    await end(*tasks)
    held.release()
    assert channel.drain() == [0]


# --- A tree of stops, and several stops at once


async def test_a_stop_that_is_refused_below_has_stopped_nobody() -> None:
    """S1, S3: a tree is stopped as a whole or not at all."""
    root = Stop()
    first, second, last = root.child(), root.child(), root.child()

    async def elsewhere() -> None:
        task = asyncio.create_task(second.wait_stopped())
        await quiet()
        loops.append(asyncio.get_running_loop())
        parked.set()
        await task

    loops: list[asyncio.AbstractEventLoop] = []
    parked = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    assert parked.wait(10)
    with pytest.raises(UsageError, match="another thread"):
        root.stop("too early")
    states = [stop.is_stopped() for stop in (root, first, second, last)]
    loops[0].call_soon_threadsafe(second.stop)
    thread.join()
    assert states == [False] * 4
    root.stop("now")
    assert (first.reason, second.reason, last.reason) == ("now", "", "now")


def test_a_child_whose_loop_is_gone_does_not_save_its_siblings() -> None:
    """Nobody waits there, so nobody can miss it."""
    root = Stop()
    gone, sibling = root.child(), root.child()

    async def main() -> None:
        task = asyncio.create_task(gone.wait_stopped())
        await quiet()
        await end(task)

    asyncio.run(main())
    root.stop("all")
    assert (gone.is_stopped(), sibling.is_stopped()) == (True, True)


async def test_a_park_beside_two_stops_that_one_refuses_leaves_nothing_with_the_other() -> None:
    """One is bound to another loop: an error, and the first one forgets us."""
    here, there = Stop(), Stop()

    async def elsewhere() -> None:
        task = asyncio.create_task(there.wait_stopped())
        await quiet()
        await end(task)

    assert in_thread(lambda: asyncio.run(elsewhere())) is None
    with pytest.raises(UsageError):
        await park(asyncio.get_running_loop().create_future(), either(here, there))
    assert repr(here).endswith("0 waiting>")


async def test_a_bare_wait_that_is_refused_leaves_nobody_armed() -> None:
    """Else the phantom would swallow the next `notify_one`."""
    notify = Notify()
    task = asyncio.create_task(hinted(notify))
    await quiet()

    async def elsewhere() -> None:
        await bounded(notify.notified().wait())

    assert isinstance(in_thread(lambda: asyncio.run(elsewhere())), UsageError)
    assert repr(notify) == "<Notify 1 armed, permit none>"
    notify.notify_one()
    await task
