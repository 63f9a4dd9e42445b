"""tokio's tests of `Notify`, by name: `sync_notify.rs`, its unit tests, its loom models."""

import asyncio

import pytest

from millpond.sync import Notify, Watch
from tests.conformance.tokio.support import (
    Scenario,
    cancelled_at_every_turn,
    drop,
    in_every_order,
    pending,
    ready,
    spawn,
)
from tests.toolkit import quiet, turns

MANY = 33
"""More waiters than tokio wakes in one go; here it is just many."""


async def wait(notify: Notify) -> None:
    """Make a `Notified` and wait for it."""
    with notify.notified() as armed:
        await armed


async def has_permit(notify: Notify) -> bool:
    """Whether a permit is stored; it is used up then."""
    with notify.notified() as armed:
        return armed.enable()


def stored(notify: Notify) -> bool:
    """Whether a permit is stored; it stays."""
    return "permit stored" in repr(notify)


def armed(notify: Notify) -> int:
    """How many are armed."""
    return int(repr(notify).split()[1])


async def test_notify_notified_one() -> None:
    """A permit that was stored lets the next waiter pass."""
    notify = Notify()
    notify.notify_one()
    await ready(await spawn(wait(notify)))
    assert not await has_permit(notify)


async def test_notify_multi_notified_one() -> None:
    """One notification wakes one of two, the one that came first."""
    notify = Notify()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    await pending(first, second)
    notify.notify_one()
    await ready(first)
    await pending(second)
    await drop(second)


async def test_notified_one_notify() -> None:
    """A waiter that sleeps is woken."""
    notify = Notify()
    waiter = await spawn(wait(notify))
    await pending(waiter)
    notify.notify_one()
    await ready(waiter)
    assert not stored(notify)


async def test_notified_multi_notify() -> None:
    """The second of two sleeps on, and is still in line afterwards."""
    notify = Notify()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    notify.notify_one()
    await ready(first)
    await pending(second)
    assert armed(notify) == 1
    notify.notify_one()
    await ready(second)


async def test_notify_notified_multi() -> None:
    """A stored permit serves one; the other needs a notification of its own."""
    notify = Notify()
    notify.notify_one()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    await ready(first)
    await pending(second)
    notify.notify_one()
    await ready(second)


async def test_notified_drop_notified_notify() -> None:
    """Who left before the notification does not get it."""
    notify = Notify()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    await drop(first)
    await pending(second)
    notify.notify_one()
    await ready(second)


async def test_notified_multi_notify_drop_one() -> None:
    """Who was notified and left before it ran passes the notification on."""
    notify = Notify()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    notify.notify_one()
    await drop(first)
    await ready(second)
    assert not stored(notify)


async def test_notified_multi_notify_one_drop() -> None:
    """The notification is passed to the next in line, not to the last."""
    notify = Notify()
    first, second, third = [await spawn(wait(notify)) for _ in range(3)]
    notify.notify_one()
    await drop(first)
    await ready(second)
    await pending(third)
    await drop(third)


async def test_notify_in_drop_after_wake() -> None:
    """Whoever leaves may notify again from its clean-up: nothing is locked."""
    notify = Notify()

    async def notify_on_the_way_out() -> None:
        try:
            await wait(notify)
        finally:
            notify.notify_waiters()

    first, second = [await spawn(notify_on_the_way_out()) for _ in range(2)]
    late = await spawn(wait(notify))
    await drop(first)
    await ready(second)
    await ready(late)


async def test_notify_one_after_dropped_all() -> None:
    """A waiter that `notify_waiters` reached leaves a later permit alone."""
    notify = Notify()
    first = await spawn(wait(notify))
    notify.notify_waiters()
    notify.notify_one()
    await drop(first)
    await ready(await spawn(wait(notify)))


async def test_notify_one_not_enabled() -> None:
    """Made but not armed, it finds the permit later."""
    notify = Notify()
    with notify.notified() as early:
        notify.notify_one()
        assert stored(notify)
        assert early.enable()
    assert not stored(notify)


async def test_notify_one_after_enable() -> None:
    """Armed, it is notified before anybody awaits it, and stays so."""
    notify = Notify()
    with notify.notified() as early:
        assert not early.enable()
        notify.notify_one()
        assert not stored(notify)
        await ready(await spawn(early.wait()))
        assert early.enable()
    assert not stored(notify)


async def test_poll_after_enable() -> None:
    """Arming alone does not end the wait."""
    notify = Notify()
    with notify.notified() as early:
        assert not early.enable()
        waiter = await spawn(early.wait())
        await pending(waiter)
        assert armed(notify) == 1
        await drop(waiter)


async def test_enable_after_poll() -> None:
    """Arming what already waits says "not notified", and does not queue twice."""
    notify = Notify()
    with notify.notified() as early:
        waiter = await spawn(early.wait())
        assert not early.enable()
        assert armed(notify) == 1
        await drop(waiter)
    assert armed(notify) == 0


async def test_enable_consumes_permit() -> None:
    """Arming takes a stored permit; the next one finds none."""
    notify = Notify()
    notify.notify_one()
    with notify.notified() as first, notify.notified() as second:
        assert first.enable()
        assert not second.enable()


async def test_waker_update() -> None:
    """The task that awaits is woken, whichever task armed before."""
    notify = Notify()
    with notify.notified() as shared:

        async def arm() -> bool:
            return shared.enable()

        assert not await ready(await spawn(arm()))
        waiter = await spawn(shared.wait())
        await pending(waiter)
        notify.notify_one()
        await ready(waiter)


async def test_unpolled_future_completed_by_notify_waiters_preserves_notify_one_permit() -> None:
    """Reached by `notify_waiters` before it was armed, it leaves the permit for the next."""
    notify = Notify()
    with notify.notified() as early:
        notify.notify_waiters()
        notify.notify_one()
        assert early.enable()
        assert not early.used_one
    assert await has_permit(notify)


async def test_notify_waiters_handles_panicking_waker() -> None:
    """One woken task that fails at once keeps no other from being woken."""
    notify = Notify()

    async def fail() -> None:
        await wait(notify)
        msg = "woken"
        raise OSError(msg)

    bad = await spawn(fail())
    good = [await spawn(wait(notify)) for _ in range(MANY)]
    notify.notify_waiters()
    with pytest.raises(OSError, match="woken"):
        await ready(bad)
    for waiter in good:
        await ready(waiter)
    assert armed(notify) == 0


async def test_notify_simple() -> None:
    """`notify_waiters` wakes all who wait, and stores nothing."""
    notify = Notify()
    first, second = await spawn(wait(notify)), await spawn(wait(notify))
    notify.notify_waiters()
    await ready(first)
    await ready(second)
    assert not await has_permit(notify)


async def test_watch_test() -> None:
    """A watch, which is made of it, wakes its follower from another task."""
    level = Watch(0)
    follower = level.subscribe()

    async def publish() -> None:
        level.set(1)

    publisher = asyncio.create_task(publish())
    await follower.changed()
    await publisher
    assert follower.borrow() == 1


async def test_notify_one() -> None:
    """Waiter and notifier in every order: the waiter comes through, nothing is left."""

    def make() -> Scenario:
        notify = Notify()

        async def call() -> None:
            notify.notify_one()

        def check() -> None:
            assert not stored(notify)
            assert armed(notify) == 0

        return Scenario([wait(notify), call()], check)

    await in_every_order(make)


async def test_notify_waiters() -> None:
    """Two made before the call are both reached, whether they sleep already or not."""

    def make() -> Scenario:
        notify = Notify()
        first, second = notify.notified(), notify.notified()

        async def both() -> None:
            with first, second:
                await first
                await second

        async def call() -> None:
            notify.notify_waiters()

        return Scenario([both(), call()], lambda: None)

    await in_every_order(make)


async def test_notify_waiters_and_one() -> None:
    """With a call of each kind a waiter made at any time comes through."""

    def make() -> Scenario:
        notify = Notify()

        async def call_all() -> None:
            notify.notify_waiters()

        async def call_one() -> None:
            notify.notify_one()

        def check() -> None:
            assert armed(notify) == 0

        return Scenario([call_all(), call_one(), wait(notify)], check)

    await in_every_order(make)


async def test_notify_multi() -> None:
    """A permit that each waiter hands on serves them all and is there at the end."""

    def make() -> Scenario:
        notify = Notify()

        async def pass_on() -> None:
            await wait(notify)
            notify.notify_one()

        async def call() -> None:
            notify.notify_one()

        def check() -> None:
            assert stored(notify)

        return Scenario([pass_on(), pass_on(), call()], check)

    await in_every_order(make)


async def test_notify_drop() -> None:
    """Cancelled at any moment, a waiter keeps no notification for itself."""

    def make() -> Scenario:
        notify = Notify()

        async def pass_on() -> None:
            await wait(notify)
            notify.notify_one()

        async def twice() -> None:
            await wait(notify)
            notify.notify_one()
            await wait(notify)

        async def call() -> None:
            await turns(2)
            notify.notify_one()

        return Scenario([pass_on(), twice(), call()], lambda: None)

    await cancelled_at_every_turn(make)


@pytest.mark.parametrize("asleep", [(), (0,), (1,), (0, 1)])
async def test_notify_waiters_poll_consistency(asleep: tuple[int, ...]) -> None:
    """Of two made before the call never only one is notified, asleep or not."""
    notify = Notify()
    both = [notify.notified(), notify.notified()]
    for place in asleep:
        assert not both[place].enable()
    notify.notify_waiters()
    assert [one.enable() for one in both] == [True, True]


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
async def test_notify_waiters_poll_consistency_many(ends: tuple[int, int]) -> None:
    """The same with many in line between the two."""
    notify = Notify()
    line = [notify.notified() for _ in range(MANY)]
    for place in (ends[0], *range(2, MANY), ends[1]):
        assert not line[place].enable()
    notify.notify_waiters()
    assert all(one.enable() for one in line)
    assert armed(notify) == 0


@pytest.mark.parametrize("place", [0, MANY - 1])
async def test_notify_waiters_is_atomic(place: int) -> None:
    """When one of those in line has been woken, all have: none takes a later `notify_one`."""
    notify = Notify()
    line = [await spawn(wait(notify)) for _ in range(MANY)]
    notify.notify_waiters()
    await line[place]
    new = asyncio.create_task(wait(notify))
    await turns(1)
    notify.notify_one()
    await ready(new)
    assert all(task.done() for task in line)
    assert not stored(notify)


async def test_notify_waiters_sequential_notified_await() -> None:
    """One call does not get through two waits in a row."""
    notify = Notify()

    async def twice() -> None:
        await wait(notify)
        await wait(notify)

    waiter = await spawn(twice())
    crowd = [await spawn(wait(notify)) for _ in range(MANY)]
    notify.notify_waiters()
    await quiet()
    assert all(task.done() for task in crowd)
    await pending(waiter)
    notify.notify_waiters()
    await ready(waiter)
