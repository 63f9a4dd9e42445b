"""Scenarios of `millpond.sync`: whoever is cancelled, nothing is lost, nobody sleeps on.

What could rescue a lost sleeper is optional everywhere, or it would hide that it was lost.
"""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Final

from millpond.errors import Closed, Lagged, SequenceFailed, Stopped, UsageError, WouldBlock
from millpond.sync import (
    Broadcast,
    Channel,
    Latch,
    Notify,
    Oneshot,
    Sequencer,
    Stop,
    Subscription,
    WaitOutcome,
    Watch,
    publish_threadsafe,
    wait_until,
    wait_until_or_stopped,
)
from millpond.testing import Actor, Bounds, World
from proofs.catalogue import Proof

# -- what is asked at the end of many scenarios ----------------------------------------------------


def _asleep(*actors: Actor) -> bool:
    """Whether one of them has begun, and waits."""
    return any(one.started and not one.finished for one in actors)


def _takes_permit(notify: Notify) -> bool:
    """Use up the permit that *notify* has stored, and say whether it had one."""
    with notify.notified() as probe:
        return probe.enable()


def _has_no_phantom(notify: Notify) -> bool:
    """Whether a notification finds its way, although nobody waits any more (N4)."""
    notify.notify_one()
    return _takes_permit(notify)


def _hung_on(stop: Stop) -> bool:
    """Whether somebody is still attached to *stop*."""
    return not repr(stop).endswith(" 0 waiting>")


# -- Notify ----------------------------------------------------------------------------------------


def notify_one(world: World) -> None:
    """A notification is used once or kept, whoever it reached has left (N1, N3, N4)."""
    notify = Notify()
    sent = used = 0

    async def wait() -> None:
        nonlocal used
        with notify.notified() as told:
            await told
        used += 1

    async def arm_and_leave() -> None:
        nonlocal used
        with notify.notified() as told:
            used += told.enable()
            await world.io("look")

    def send() -> None:
        nonlocal sent
        sent += 1
        notify.notify_one()

    waiters = [
        world.spawn("A", wait(), cancel=True, daemon=True),
        world.spawn("B", wait(), cancel=True, anytime=True, daemon=True),
    ]
    world.spawn("C", arm_and_leave(), cancel=True)
    world.event("one", send)
    world.event("two", send, optional=True)
    world.invariant("no more wake-ups than notifications", lambda: used <= sent)

    @world.final
    def nothing_is_lost() -> None:
        asleep = _asleep(*waiters)
        kept = _takes_permit(notify)
        assert 1 <= used + kept <= sent, f"sent {sent}, used {used}, kept {kept}"
        if asleep:  # two that came while nobody waited are one, but then nobody sleeps
            assert used == sent, f"asleep, and sent {sent}, used {used}, kept {kept}"
        else:
            assert _has_no_phantom(notify), "something is armed"


def notify_waiters(world: World) -> None:
    """Whoever looked before the call is reached, armed or not; nothing is stored (N2, N3).

    A permit that is stored stays when the call was enough.
    """
    notify = Notify()
    calls = ones = by_one = 0
    must_end: set[str] = set()
    looked: set[str] = set()

    async def wait(name: str) -> None:
        nonlocal by_one
        with notify.notified() as told:
            looked.add(name)
            await world.io("look")  # not armed yet
            await told
            by_one += told.used_one

    def call() -> None:
        nonlocal calls
        calls += 1
        must_end.update(looked)
        notify.notify_waiters()

    def one() -> None:
        nonlocal ones
        ones += 1
        notify.notify_one()

    waiters = {
        name: world.spawn(name, wait(name), cancel=name == "A", anytime=True, daemon=True)
        for name in "AB"
    }
    world.event("call", call, optional=True)
    world.event("one", one, optional=True)

    @world.final
    def everybody_is_reached() -> None:
        asleep = [name for name, one in waiters.items() if _asleep(one)]
        assert not must_end.intersection(asleep), f"called, and still asleep: {asleep}"
        kept = _takes_permit(notify)
        assert by_one + kept == ones, f"{ones} notified, {by_one} used, {kept} kept"


# -- waiting for a state ---------------------------------------------------------------------------


def wait_for_state(world: World) -> None:
    """Each item is taken once, and nobody sleeps beside one, whoever was woken for it.

    Also when that one is cancelled, or cannot read the state any more (N3, N4).
    """
    changed = Notify()
    items = taken = put = 0
    broken = False

    def there_is_one() -> bool:
        if broken:
            raise OSError
        return items > 0

    async def take(predicate: Callable[[], bool]) -> None:
        nonlocal items, taken
        await wait_until(changed, predicate)
        assert items > 0, "woken, and nothing is there"
        items -= 1
        taken += 1

    def bring() -> None:
        nonlocal items, put
        items += 1
        put += 1
        changed.notify_one()

    def fail() -> None:
        nonlocal broken
        broken = True

    takers = [
        world.spawn("A", take(there_is_one), cancel=True, daemon=True, may_raise=(OSError,)),
        world.spawn("B", take(lambda: items > 0), cancel=True, anytime=True, daemon=True),
    ]
    world.event("put", bring)
    world.event("false-alarm", changed.notify_one, optional=True)
    world.event("break", fail, optional=True)
    world.invariant("each once", lambda: items + taken == put)
    world.final("nobody sleeps beside an item", lambda: not (items and _asleep(*takers)))
    world.final("nothing stays armed", lambda: _asleep(*takers) or _has_no_phantom(changed))


def matrix_of_waits(world: World) -> None:
    """Ready, stop, a second stop and a wake-up for nothing, at any moment, with one cancel.

    Stop beats ready; a wake-up is never trusted; what had reached somebody who left, cancelled
    or stopped, goes on (N3, N4, S1, S2).
    """
    changed, stop = Notify(), Stop()
    items = 0

    async def wait() -> None:
        nonlocal items
        outcome = await wait_until_or_stopped(changed, stop, lambda: items > 0)
        if outcome is WaitOutcome.READY:
            assert not stop.is_stopped(), "ready, although it was stopped"
            assert items > 0, "ready, although nothing is there"
            items -= 1
        else:
            assert stop.is_stopped(), "stopped, although nobody asked"

    def put() -> None:
        nonlocal items
        items += 1
        changed.notify_one()

    waiters = [
        world.spawn(name, wait(), cancel=name == "A", anytime=True, daemon=True) for name in "AB"
    ]
    world.event("put", put)
    world.event("stop", stop.stop, optional=True)
    world.event("stop-again", stop.stop, optional=True, after=("stop",))
    world.event("false-alarm", changed.notify_one, optional=True)

    @world.final
    def nobody_sleeps_on() -> None:
        if _asleep(*waiters):
            assert not stop.is_stopped(), "asleep beside a stop"
            assert not items, "asleep beside an item"
        else:
            assert _has_no_phantom(changed), "something is armed"
            assert not _hung_on(stop), "somebody hangs on the stop"


class _Foreign:
    """A stop signal of somebody else: two methods, and it wakes for nothing once."""

    def __init__(self) -> None:
        self._asked = False
        self._changed = asyncio.Event()

    def is_stopped(self) -> bool:
        return self._asked

    async def wait_stopped(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def stop(self) -> None:
        self._asked = True
        self._changed.set()

    def wake_for_nothing(self) -> None:
        self._changed.set()


def foreign_stop(world: World) -> None:
    """A foreign stop ends the wait, though it woke for nothing before; its task ends too.

    Stop beats ready here as well, and what had reached the one who left goes on (N3).
    """
    changed, stop = Notify(), _Foreign()
    items = 0

    async def wait() -> None:
        nonlocal items
        outcome = await wait_until_or_stopped(changed, stop, lambda: items > 0)
        if outcome is WaitOutcome.READY:
            assert not stop.is_stopped(), "ready, although it was stopped"
            assert items > 0, "ready, although nothing is there"
            items -= 1
        else:
            assert stop.is_stopped(), "stopped, although nobody asked"

    async def take() -> None:
        nonlocal items
        await wait_until(changed, lambda: items > 0)
        items -= 1

    def put() -> None:
        nonlocal items
        items += 1
        changed.notify_one()

    # Not a daemon: the helper of a wait that has ended has to end as well, or it is stuck.
    waiter = world.spawn("A", wait(), cancel=True)
    heir = world.spawn("B", take(), daemon=True)
    world.event("put", put, optional=True)
    world.event("stop", stop.stop, after=("early",))
    world.event("early", stop.wake_for_nothing)
    world.final("it has ended", lambda: waiter.finished)
    world.final("nobody sleeps beside an item", lambda: not (items and _asleep(heir)))


def latch(world: World) -> None:
    """Whoever waits for a latch, before or after, is let through or stopped; stop beats ready."""
    latch, stop = Latch(), Stop()

    async def wait() -> None:
        try:
            await latch.wait_ready(stop=stop)
        except Stopped:
            assert stop.is_stopped()
        else:
            assert latch.is_ready()
            assert not stop.is_stopped()

    waiters = [world.spawn(n, wait(), cancel=True, anytime=n == "B", daemon=True) for n in "AB"]
    world.event("ready", latch.mark_ready, optional=True)
    world.event("ready-again", latch.mark_ready, optional=True, after=("ready",))
    world.event("stop", stop.stop, optional=True)

    @world.final
    def nobody_sleeps_on() -> bool:
        over = latch.is_ready() or stop.is_stopped()
        return not (over and _asleep(*waiters))

    world.final("nobody hangs on the stop", lambda: _asleep(*waiters) or not _hung_on(stop))


def stop_tree(world: World) -> None:
    """A stop reaches everything below, at once and for good, and nothing above (S1, S2, S3).

    Also through one in the middle that nobody else holds.
    """
    root = Stop()
    leaf = root.child().child()
    late: list[Stop] = []
    heard = {"R": "", "L": ""}

    async def wait(name: str, stop: Stop) -> None:
        await stop.wait_stopped()
        assert stop.is_stopped()
        heard[name] = stop.reason

    waiters = {
        "R": world.spawn("R", wait("R", root), cancel=True, daemon=True),
        "L": world.spawn("L", wait("L", leaf), cancel=True, anytime=True, daemon=True),
    }
    first = ""

    def stop(what: Stop, reason: str) -> None:
        nonlocal first
        first = first or reason
        what.stop(reason)

    world.event("stop-leaf", lambda: stop(leaf, "leaf"), optional=True)
    world.event("stop-root", lambda: stop(root, "root"), optional=True)
    world.event("stop-root-again", lambda: root.stop("again"), optional=True, after=("stop-root",))
    world.event("bear", lambda: late.append(root.child()), optional=True)
    world.invariant("downward", lambda: leaf.is_stopped() or not root.is_stopped())
    world.invariant(
        "born stopped", lambda: all(one.is_stopped() == root.is_stopped() for one in late)
    )
    world.invariant("the first reason stays", lambda: root.reason in ("", "root"))
    world.invariant("not upward", lambda: not root.is_stopped() or bool(root.reason))
    world.invariant("of the leaf too", lambda: not leaf.is_stopped() or leaf.reason == first)

    @world.final
    def whoever_waits_hears() -> None:
        assert not (root.is_stopped() and _asleep(waiters["R"]))
        assert not (leaf.is_stopped() and _asleep(waiters["L"]))
        assert heard["L"] in ("", first)
        assert not (heard["R"] and not root.is_stopped())


# -- Sequencer -------------------------------------------------------------------------------------


def sequencer(world: World) -> None:
    """Turns come in order; a number whose waiter was cancelled is waited for again (Q1, Q4).

    One that fails in its turn ends all later ones instead of hanging them (Q3).
    """
    line = Sequencer()
    committed = 0

    async def commit(number: int) -> None:
        nonlocal committed
        try:
            await line.wait_turn(number)
        except asyncio.CancelledError:
            asyncio.create_task(once_more(number))  # noqa: RUF006 - the loop of the kit keeps all
            raise
        assert committed == number, f"{number} came after {committed}"
        try:
            await world.io("write")
        except asyncio.CancelledError as error:
            line.fail(number, error)
            raise
        committed = number + 1
        line.advance(number)

    async def once_more(number: int) -> None:
        with contextlib.suppress(SequenceFailed):
            await commit(number)

    for number in (1, 0):
        world.spawn(
            f"N{number}",
            commit(number),
            cancel=True,
            anytime=number == 0,
            may_raise=(SequenceFailed,),
        )

    @world.final
    def all_have_come_or_one_has_failed() -> bool:
        now = line.statistics()
        return not now.waiting and (committed == 2 or now.failed is not None)


def sequencer_stops(world: World) -> None:
    """Stop beats failure, failure beats turn, and both are told to everybody (Q2, Q3)."""
    line, stop = Sequencer(), Stop()
    failed = False

    async def wait(number: int) -> None:
        try:
            await line.wait_turn(number, stop)
        except Stopped:
            assert stop.is_stopped()
        except SequenceFailed:
            assert failed
            assert not stop.is_stopped()
        else:
            assert not failed
            assert not stop.is_stopped()
            line.advance(number)

    def fail() -> None:
        nonlocal failed
        failed = True
        line.fail(0, OSError("disk full"))

    waiters = [
        world.spawn(f"N{number}", wait(number), cancel=number == 1, anytime=True, daemon=True)
        for number in (2, 1)
    ]
    world.event("stop", stop.stop, optional=True)
    world.event("fail", fail, optional=True)
    world.event("advance", lambda: line.advance(0), optional=True)

    @world.final
    def nobody_sleeps_on() -> None:
        now = line.statistics()
        assert not (_asleep(*waiters) and (stop.is_stopped() or failed)), "asleep beside an end"
        assert now.next not in now.waiting, f"{now.next} sleeps in its turn"
        assert not _hung_on(stop) or _asleep(*waiters)


# -- Channel ---------------------------------------------------------------------------------------


def _in_bounds(pipe: Channel[int]) -> None:
    now = pipe.statistics()
    full = now.capacity is not None and now.buffered + now.reserved > now.capacity
    assert not full, f"more than its capacity is in a channel: {now}"


def channel(capacity: int | None, senders: int, receivers: int) -> Callable[[World], None]:  # noqa: C901 - one scenario, with all that must hold
    """Return: each value is received once, in the order of sending; nobody sleeps beside one.

    Nor beside room (C1, C2, C3, C4, C6). The first in line is served first.
    """

    def scenario(world: World) -> None:
        pipe: Channel[int] = Channel(capacity)
        sent = taken = 0

        async def send() -> None:
            nonlocal sent
            with await pipe.reserve() as slot:
                slot.send(sent)
                sent += 1

        async def send_plainly() -> None:
            nonlocal sent
            await pipe.send(sent)  # only one does: what is sent stays in order
            sent += 1

        def take(value: int) -> None:
            nonlocal taken
            assert value == taken, f"{value} came instead of {taken}"
            taken += 1

        async def recv() -> None:
            take(await pipe.recv())

        def newcomer() -> None:
            with contextlib.suppress(WouldBlock):
                take(pipe.recv_nowait())

        readers = [world.spawn(f"R{n}", recv(), cancel=True, daemon=True) for n in range(receivers)]
        writers = [
            world.spawn(
                f"S{n}",
                send() if n or senders > 1 else send_plainly(),
                cancel=n < 2,
                anytime=n == 0,
                daemon=True,
            )
            for n in range(senders)
        ]
        world.event("newcomer", newcomer, optional=True)
        world.invariant("the books", functools.partial(_in_bounds, pipe))

        @world.final
        def nothing_is_lost() -> None:
            now = pipe.statistics()
            assert sent == taken + now.buffered, f"sent {sent}, taken {taken}, {now}"
            assert now.reserved == 0, f"{now}"

        @world.final
        def nobody_sleeps_on() -> None:
            now = pipe.statistics()
            assert not (now.buffered and _asleep(*readers)), f"a receiver: {now}"
            room = capacity is None or now.buffered + now.reserved < capacity
            assert not (room and _asleep(*writers)), f"a sender: {now}"

        @world.final
        def the_first_one_is_served_first() -> None:
            for before, after in itertools.pairwise(readers):
                assert before.finished or not after.finished or after.cancelled

    return scenario


def channel_of_plain_sends(world: World) -> None:
    """A send that waits for room has happened when it returns, else not (C1, C4, C6)."""
    pipe: Channel[int] = Channel(1)
    done = taken = 0

    async def send() -> None:
        nonlocal done
        await pipe.send(0)
        done += 1

    async def recv() -> None:
        nonlocal taken
        await pipe.recv()
        taken += 1

    writers = [world.spawn(f"S{n}", send(), cancel=n < 2, daemon=True) for n in range(3)]
    reader = world.spawn("R", recv(), cancel=True, anytime=True, daemon=True)
    world.event("drain", lambda: world_takes(pipe), optional=True)

    def world_takes(pipe: Channel[int]) -> None:
        nonlocal taken
        taken += len(pipe.drain())

    world.invariant("the books", functools.partial(_in_bounds, pipe))

    @world.final
    def nobody_sleeps_on() -> None:
        now = pipe.statistics()
        assert done == taken + now.buffered, f"{done} sent, {taken} taken, {now}"
        assert not (now.buffered and _asleep(reader)), f"a receiver: {now}"
        assert not (now.buffered + now.reserved < 1 and _asleep(*writers)), f"a sender: {now}"
        assert writers[1].finished or not writers[2].finished, "overtaken"


def channel_closes(world: World) -> None:
    """After a close the rest is received, then everybody hears of the end (C5).

    A slot that is out stays good, a sender that waits is sent away, a timeout loses nothing.
    """
    pipe: Channel[int] = Channel(1)
    sent = taken = 0

    async def send() -> None:
        nonlocal sent
        try:
            async with asyncio.timeout(5):
                slot = await pipe.reserve()
        except (Closed, TimeoutError):
            return
        with slot:
            await world.io("compute")
            slot.send(1)
            sent += 1

    async def recv() -> None:
        nonlocal taken
        async for _ in pipe:
            taken += 1

    world.spawn("S1", send(), cancel=True)
    world.spawn("S2", send())
    world.spawn("R1", recv(), cancel=True)
    world.spawn("R2", recv())
    world.event("close", pipe.close)
    world.invariant("the books", functools.partial(_in_bounds, pipe))
    world.final("what was sent is received", lambda: sent == taken)


def channel_stops(world: World) -> None:
    """A receiver or sender that is stopped leaves no value and no room behind (C1, C2, C6).

    Stop beats value, room, and close.
    """
    pipe: Channel[int] = Channel(1)
    stop = Stop()
    sent = taken = 0

    async def recv(stop: Stop | None) -> None:
        nonlocal taken
        try:
            await pipe.recv(stop=stop)
        except Closed:
            assert stop is None or not stop.is_stopped()
        except Stopped:
            assert stop is not None
            assert stop.is_stopped()
        else:
            taken += 1
            assert stop is None or not stop.is_stopped()

    async def send(stop: Stop | None) -> None:
        nonlocal sent
        try:
            await pipe.send(0, stop=stop)
        except Closed:
            assert stop is None or not stop.is_stopped()
        except Stopped:
            assert stop is not None
            assert stop.is_stopped()
        else:
            sent += 1
            assert stop is None or not stop.is_stopped()

    readers = [
        world.spawn("R0", recv(stop), cancel=True, daemon=True),
        world.spawn("R1", recv(None), daemon=True),
    ]
    writers = [
        world.spawn("S0", send(None), anytime=True, daemon=True),
        world.spawn("S1", send(stop), anytime=True, daemon=True),
    ]
    world.event("stop", stop.stop, optional=True)
    world.event("close", pipe.close, optional=True)
    world.invariant("the books", functools.partial(_in_bounds, pipe))

    @world.final
    def nobody_sleeps_on() -> None:
        now = pipe.statistics()
        assert sent == taken + now.buffered, f"sent {sent}, taken {taken}, {now}"
        over = now.closed or now.buffered
        assert not (over and _asleep(*readers)), f"a receiver: {now}"
        assert not ((now.closed or not now.buffered) and _asleep(*writers)), f"a sender: {now}"


# -- Broadcast, Watch, Oneshot ---------------------------------------------------------------------


def broadcast(world: World) -> None:
    """A subscriber gets each value in order, or is told how many it missed (X1, X2, X3)."""
    radio: Broadcast[int] = Broadcast(1)
    ears = {"A": radio.subscribe(), "B": radio.subscribe()}
    heard = dict.fromkeys(ears, 0)
    sent = 0

    async def listen(name: str, ear: Subscription[int]) -> None:
        while True:
            try:
                value = await ear.recv()
            except Lagged as lag:
                heard[name] += lag.missed
                continue
            except Closed:
                return
            assert value == heard[name], f"{value} came instead of {heard[name]}"
            heard[name] += 1

    def send() -> None:
        nonlocal sent
        radio.send(sent)
        sent += 1

    listeners = [
        world.spawn(name, listen(name, ear), cancel=name == "A", anytime=name == "B", daemon=True)
        for name, ear in ears.items()
    ]
    world.event("one", send)
    world.event("two", send, optional=True)
    world.event("close", radio.close, optional=True, after=("one", "two"))
    world.event("leave", ears["B"].close, optional=True)

    @world.final
    def everything_is_accounted_for() -> None:
        now = radio.statistics()
        for (name, ear), listener in zip(ears.items(), listeners, strict=True):
            behind = sent - heard[name]
            if _asleep(listener):
                assert not now.closed, f"{name} sleeps on after the end"
                assert not behind, f"{name} sleeps beside a value"
            elif listener.cancelled:
                assert ear.pending == min(behind, 1), f"{name}: {ear}, {behind} behind"
        assert now.kept == min(sent, 1)


def watch(world: World) -> None:  # noqa: C901 - the same
    """A follower ends with the last value, whatever it missed in between (L1, L2).

    Cancelled, it has not seen what it did not return. Closed, it is told; stop beats value.
    """
    value, stop = Watch(0), Stop()
    eye, other = value.subscribe(), value.subscribe()
    last = 0

    async def look() -> None:
        nonlocal last
        with contextlib.suppress(Closed):
            while True:
                await eye.changed()
                assert not eye.has_changed() or value.is_closed()
                assert eye.borrow() > last, "it had been seen"
                last = eye.borrow()

    async def wait() -> None:
        try:
            found = await other.wait_for(lambda n: n == 2, stop=stop)
        except Closed:
            assert value.borrow() != 2
            assert not stop.is_stopped()
        except Stopped:
            assert stop.is_stopped()
        else:
            assert found == 2
            assert not stop.is_stopped()

    looker = world.spawn("L", look(), cancel=True, anytime=True, daemon=True)
    waiter = world.spawn("W", wait(), cancel=True, daemon=True)
    world.event("one", lambda: value.set(1))
    world.event("two", lambda: value.modify(lambda n: n + 1), optional=True, after=("one",))
    world.event("close", value.close, optional=True, after=("one", "two"))
    world.event("stop", stop.stop, optional=True)

    @world.final
    def nobody_sleeps_beside_news() -> None:
        now = value.borrow()
        if looker.finished and not value.is_closed():
            assert looker.cancelled
            assert eye.has_changed() is (last != now), "cancelled, it counts as seen"
        if _asleep(looker):
            assert last == now, f"it saw {last}, and the value is {now}"
            assert not value.is_closed()
        if _asleep(waiter):
            assert now != 2
            assert not value.is_closed()
            assert not stop.is_stopped()


def oneshot(world: World) -> None:
    """The one value is received, refused, or still there; never two of them (O1, O2).

    Whoever waits for it, or for the close, hears of it.
    """
    reply: Oneshot[int] = Oneshot()
    got = refused = sends = 0

    async def recv() -> None:
        nonlocal got
        with contextlib.suppress(Closed, UsageError):  # the other one got it
            await reply.recv()
            got += 1

    async def make() -> None:
        await reply.wait_closed()
        assert reply.is_closed()

    def send() -> None:
        nonlocal sends, refused
        sends += 1
        back = reply.send(1)
        refused += back is not None
        assert reply.is_closed() or back is None

    receivers = [
        world.spawn(name, recv(), cancel=True, anytime=name == "B", daemon=True) for name in "AB"
    ]
    maker = world.spawn("M", make(), cancel=True, daemon=True)
    world.event("send", send, optional=True)
    world.event("close", reply.close, optional=True)
    world.invariant("at most one end", lambda: got + refused <= sends)

    @world.final
    def it_is_somewhere() -> None:
        kept = 0
        with contextlib.suppress(WouldBlock, Closed, UsageError):
            reply.recv_nowait()
            kept = 1
        assert got + refused + kept == sends, f"got {got}, refused {refused}, kept {kept}"
        over = reply.is_closed() or sends
        assert not (over and _asleep(*receivers)), "a receiver sleeps beside the end"
        assert not (reply.is_closed() and _asleep(maker)), "the maker sleeps beside the close"


# -- from a thread ---------------------------------------------------------------------------------


def publish_from_a_thread(world: World) -> None:
    """A state that a thread publishes is seen by all, whenever the thread runs."""
    changed = Notify()
    ready = False

    async def wait() -> None:
        await wait_until(changed, lambda: ready)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        world.thread("publisher", lambda: publish_threadsafe(loop, publish, changed))

    def publish() -> None:
        nonlocal ready
        ready = True

    for name in "AB":
        world.spawn(name, wait(), cancel=name == "A", anytime=True)
    world.spawn("M", main())


_ONE: Final = Bounds(preemptions=None, cancels=1)
_TWO: Final = Bounds(preemptions=None, cancels=2)
# A warning timer is set again for ever, so time alone has no end.
_TURNS: Final = Bounds(preemptions=None, cancels=2, deviations=4)

PROOFS: Final = (
    Proof(name="Notify: one of two", scenario=notify_one, bounds=_ONE),
    Proof(name="Notify: all", scenario=notify_waiters, bounds=_ONE),
    Proof(name="wait_until: two takers", scenario=wait_for_state, bounds=_TWO),
    Proof(name="wait_until_or_stopped: the matrix", scenario=matrix_of_waits, bounds=_ONE),
    Proof(name="wait_until_or_stopped: a foreign stop", scenario=foreign_stop, bounds=_TWO),
    Proof(name="Latch", scenario=latch, bounds=_TWO),
    Proof(name="Stop: a tree", scenario=stop_tree, bounds=_ONE),
    Proof(name="Sequencer: turns", scenario=sequencer, bounds=_TURNS),
    Proof(name="Sequencer: stop and failure", scenario=sequencer_stops, bounds=_TURNS),
    Proof(name="Channel: unbounded, 2 to 2", scenario=channel(None, 2, 2), bounds=_TWO),
    Proof(name="Channel: capacity 1, 1 to 2", scenario=channel(1, 1, 2), bounds=_TWO),
    Proof(name="Channel: capacity 1, 3 to 1", scenario=channel(1, 3, 1), bounds=_TWO),
    Proof(name="Channel: capacity 1, 2 to 2", scenario=channel(1, 2, 2), bounds=_TWO),
    Proof(name="Channel: plain sends", scenario=channel_of_plain_sends, bounds=_TWO),
    Proof(name="Channel: close and reserve", scenario=channel_closes, bounds=_TWO),
    Proof(name="Channel: stop", scenario=channel_stops, bounds=_ONE),
    Proof(name="Broadcast: lag", scenario=broadcast, bounds=_ONE),
    Proof(name="Watch", scenario=watch, bounds=_ONE),
    Proof(name="Oneshot", scenario=oneshot, bounds=_ONE),
    Proof(name="publish_threadsafe", scenario=publish_from_a_thread, bounds=_ONE),
)
