"""Notify and Notified: invariants N1-N4, row by row, in every order that matters."""

import asyncio
import gc
import weakref

import pytest

from millpond.errors import Stopped, UsageError
from millpond.sync import Notified, Notify, Stop
from tests.toolkit import ForeignStop, end, quiet


def state(notify: Notify) -> str:
    """Return what there is to see of *notify*."""
    return repr(notify)


IDLE = "<Notify 0 armed, permit none>"
STORED = "<Notify 0 armed, permit stored>"


async def parked(notify: Notify, count: int) -> list[asyncio.Task[None]]:
    """Start *count* waiters, and return once they sleep."""

    async def wait() -> None:
        with notify.notified() as armed:
            await armed

    tasks = [asyncio.create_task(wait()) for _ in range(count)]
    await quiet()
    return tasks


def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    """Tell which of *tasks* are done."""
    return [task.done() for task in tasks]


# --- The phantom ------------------------------------------------------------------------


async def test_an_early_return_after_arming_leaves_no_phantom() -> None:
    """N4: check, arm, recheck, return; the next `notify_one` reaches a real waiter."""
    notify = Notify()
    with notify.notified() as armed:
        assert not armed.enable()
        # The recheck succeeds: the block is left without a wait.
    assert state(notify) == IDLE
    (waiter,) = await parked(notify, 1)
    notify.notify_one()
    await waiter


async def test_an_error_after_arming_leaves_no_phantom() -> None:
    """N4: also on the way of an exception."""
    notify = Notify()

    def fail(armed: Notified) -> None:
        armed.enable()
        msg = "recheck"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="recheck"), notify.notified() as armed:
        fail(armed)
    assert state(notify) == IDLE


# --- The first enable or await ----------------------------------------------------------


async def test_first_look_finds_a_generation_and_leaves_the_permit() -> None:
    """R19: created, `notify_waiters`, `notify_one`: the one who was served eats nothing."""
    notify = Notify()
    with notify.notified() as first, notify.notified() as second:
        notify.notify_waiters()
        notify.notify_one()
        await first
        assert not first.used_one
        assert state(notify) == STORED
        await second
        assert not second.used_one
    assert state(notify) == STORED
    with notify.notified() as third:
        await third
        assert third.used_one
    assert state(notify) == IDLE


@pytest.mark.parametrize("how", ["enable", "await"])
async def test_first_look_takes_a_stored_permit(how: str) -> None:
    """N1: the one permit is used up, and leaving forwards nothing."""
    notify = Notify()
    notify.notify_one()
    with notify.notified() as armed:
        if how == "enable":
            assert armed.enable()
        else:
            await armed
        assert armed.used_one
    assert state(notify) == IDLE


async def test_first_look_joins_the_line() -> None:
    """Nothing is stored, nobody notified: armed, oldest first."""
    notify = Notify()
    with notify.notified() as armed:
        assert not armed.enable()
        assert not armed.enable()
        assert state(notify) == "<Notify 1 armed, permit none>"
        assert repr(armed) == "<Notified armed>"


async def test_a_permit_is_never_doubled() -> None:
    """N1: notified twice, one goes through, the next one sleeps."""
    notify = Notify()
    notify.notify_one()
    notify.notify_one()
    first, second = await parked(notify, 2)
    assert done([first, second]) == [True, False]
    await end(second)
    await first
    assert state(notify) == IDLE


async def test_a_stored_permit_does_not_wait_for_notify_waiters() -> None:
    """N2: `notify_waiters` touches no permit and stores nothing."""
    notify = Notify()
    notify.notify_waiters()
    assert state(notify) == IDLE
    notify.notify_one()
    notify.notify_waiters()
    assert state(notify) == STORED
    (waiter,) = await parked(notify, 1)
    await waiter


# --- notify_one -------------------------------------------------------------------------


async def test_notify_one_wakes_the_oldest_and_only_it() -> None:
    """In the order of arming, not of creation."""
    notify = Notify()
    young, old = notify.notified(), notify.notified()
    with young, old:
        old.enable()
        young.enable()
        notify.notify_one()
        assert old.enable()
        assert not young.enable()


async def test_k_notify_one_for_n_waiters() -> None:
    """Each wakes one, in order; what is too much leaves one permit."""
    notify = Notify()
    tasks = await parked(notify, 4)
    notify.notify_one()
    notify.notify_one()
    await quiet()
    assert done(tasks) == [True, True, False, False]
    for _ in range(5):
        notify.notify_one()
    await asyncio.gather(*tasks)
    assert state(notify) == STORED


# --- notify_waiters ---------------------------------------------------------------------


async def test_notify_waiters_reaches_all_that_exist_armed_or_not() -> None:
    """N2: and none that is made later."""
    notify = Notify()
    tasks = await parked(notify, 3)
    with notify.notified() as unarmed:
        notify.notify_waiters()
        with notify.notified() as late:
            assert unarmed.enable()
            assert not late.enable()
            await asyncio.gather(*tasks)
            await quiet()
            assert not late.enable()


async def test_one_broadcast_does_not_serve_two_waits_in_a_row() -> None:
    """R20: the second wait sleeps until the second broadcast."""
    notify = Notify()
    seen: list[int] = []

    async def twice() -> None:
        for number in (1, 2):
            with notify.notified() as armed:
                await armed
            seen.append(number)

    task = asyncio.create_task(twice())
    await quiet()
    notify.notify_waiters()
    await quiet()
    assert seen == [1]
    notify.notify_waiters()
    await task


async def test_notify_one_after_notify_waiters_goes_to_a_newcomer() -> None:
    """Who is woken already does not take it: it is kept."""
    notify = Notify()
    (waiter,) = await parked(notify, 1)
    notify.notify_waiters()
    notify.notify_one()
    await waiter
    assert state(notify) == STORED


async def test_notify_waiters_after_notify_one_does_not_save_the_one() -> None:
    """The waiter keeps its mark, so that a cancel still forwards it."""
    notify = Notify()
    first, second = await parked(notify, 2)
    notify.notify_one()
    notify.notify_waiters()
    first.cancel()
    await asyncio.wait([first, second])
    assert first.cancelled()
    assert state(notify) == STORED


# --- Leaving unfinished -----------------------------------------------------------------


@pytest.mark.parametrize("order", ["notify, cancel", "cancel, notify"])
async def test_a_cancelled_waiter_forwards_its_one(order: str) -> None:
    """N3, R03, R17: in the same tick, in both orders, the next one gets it."""
    notify = Notify()
    first, second = await parked(notify, 2)
    if order == "notify, cancel":
        notify.notify_one()
        first.cancel()
    else:
        first.cancel()
        notify.notify_one()
    await second
    assert first.cancelled()
    assert state(notify) == IDLE


async def test_a_cancelled_waiter_with_nobody_behind_stores_the_permit() -> None:
    """N3: and whoever comes next has it."""
    notify = Notify()
    (waiter,) = await parked(notify, 1)
    notify.notify_one()
    waiter.cancel()
    await asyncio.wait([waiter])
    assert state(notify) == STORED


async def test_a_cancelled_waiter_drops_a_broadcast() -> None:
    """A `notify_waiters` is forwarded to nobody."""
    notify = Notify()
    (waiter,) = await parked(notify, 1)
    notify.notify_waiters()
    late = notify.notified()
    late.enable()
    waiter.cancel()
    await asyncio.wait([waiter])
    with late:
        assert not late.enable()
    assert state(notify) == IDLE


async def test_a_waiter_cancelled_in_line_is_unlinked() -> None:
    """From the middle; the order of the others stays."""
    notify = Notify()
    tasks = await parked(notify, 3)
    await end(tasks[1])
    assert state(notify) == "<Notify 2 armed, permit none>"
    notify.notify_one()
    await tasks[0]
    assert not tasks[2].done()
    notify.notify_one()
    await tasks[2]


async def test_leaving_the_block_forwards_a_one_that_nobody_looked_at() -> None:
    """N3: armed, notified, left."""
    notify = Notify()
    with notify.notified() as armed:
        armed.enable()
        notify.notify_one()
        assert not armed.used_one
    assert state(notify) == STORED


async def test_enable_that_returned_true_is_delivery() -> None:
    """Nothing is forwarded by leaving afterwards."""
    notify = Notify()
    with notify.notified() as armed:
        armed.enable()
        notify.notify_one()
        assert armed.enable()
        assert armed.used_one
    assert state(notify) == IDLE


async def test_two_notifications_to_two_who_leave_serve_one_or_two() -> None:
    """R21: the accepted oddity, pinned: both go to those who armed meanwhile."""
    notify = Notify()
    one, two = notify.notified(), notify.notified()
    one.enable()
    two.enable()
    notify.notify_one()
    notify.notify_one()
    three, four = notify.notified(), notify.notified()
    three.enable()
    four.enable()
    with one, two, three, four:
        with one:
            pass
        with two:
            pass
        assert three.enable()
        assert four.enable()
    assert state(notify) == IDLE


async def test_two_notifications_to_two_who_leave_coalesce_without_waiters() -> None:
    """R21, N1: with nobody armed meanwhile, one permit is what remains."""
    notify = Notify()
    with notify.notified() as one, notify.notified() as two:
        one.enable()
        two.enable()
        notify.notify_one()
        notify.notify_one()
    assert state(notify) == STORED


# --- After the end ----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["notify_one", "notify_waiters", "permit"])
async def test_a_finished_wait_is_fused(by: str) -> None:
    """Awaiting again returns at once, and takes nothing more."""
    notify = Notify()
    with notify.notified() as armed:
        if by == "permit":
            notify.notify_one()
        else:
            armed.enable()
            getattr(notify, by)()
        await armed
        notify.notify_one()
        await armed
        assert armed.enable()
        assert armed.used_one == (by != "notify_waiters")
    assert state(notify) == STORED


async def test_a_wait_that_was_left_cannot_be_used_again() -> None:
    """It would never be woken: an error instead of a hang."""
    notify = Notify()
    with notify.notified() as armed:
        armed.enable()
    with pytest.raises(UsageError, match="make a new one"):
        armed.enable()
    with pytest.raises(UsageError, match="make a new one"):
        await armed
    assert repr(armed) == "<Notified left>"


async def test_a_second_task_on_one_notified_is_refused() -> None:
    """Only one of them could be woken; the first one still is."""
    notify = Notify()
    with notify.notified() as armed:
        first = asyncio.create_task(armed.wait())
        await quiet()
        with pytest.raises(UsageError, match=r"each needs a notify\.notified\(\)"):
            await armed
        notify.notify_one()
        await first
        assert armed.used_one
    assert state(notify) == IDLE


async def test_leaving_twice_is_leaving_once() -> None:
    """Nothing is forwarded a second time."""
    notify = Notify()
    armed = notify.notified()
    with armed:
        armed.enable()
        notify.notify_one()
    with notify.notified() as used:
        assert used.enable()
    with armed:
        pass
    assert state(notify) == IDLE


async def test_a_dropped_one_warns() -> None:
    """Without the ``with`` it swallows a notification; so much can be said about it."""
    notify = Notify()

    def careless() -> None:
        notify.notified().enable()
        notify.notify_one()

    with pytest.warns(ResourceWarning, match="use it in a `with`"):
        careless()


# --- With a stop ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Stop, ForeignStop])
async def test_stop_ends_a_wait(kind: type[Stop | ForeignStop]) -> None:
    """Before it and during it."""
    notify, stop = Notify(), kind()
    with notify.notified() as armed:
        task = asyncio.create_task(armed.wait(stop=stop))
        await quiet()
        stop.stop()
        with pytest.raises(Stopped):
            await task
    with notify.notified() as armed, pytest.raises(Stopped):
        await armed.wait(stop=stop)
    assert state(notify) == IDLE


@pytest.mark.parametrize("order", ["notify, stop", "stop, notify"])
async def test_stop_beats_a_notification_and_passes_it_on(order: str) -> None:
    """N3: in the same tick, in both orders."""
    notify, stop = Notify(), Stop()

    async def wait() -> None:
        with notify.notified() as armed:
            await armed.wait(stop=stop)

    first = asyncio.create_task(wait())
    await quiet()
    (second,) = await parked(notify, 1)
    for what in order.split(", "):
        if what == "stop":
            stop.stop("enough")
        else:
            notify.notify_one()
    with pytest.raises(Stopped, match="enough"):
        await first
    await second
    assert state(notify) == IDLE


async def test_a_stop_before_the_wait_passes_an_unseen_one_on() -> None:
    """N3: armed, notified, and then the wait refuses."""
    notify, stop = Notify(), Stop()
    stop.stop()
    with notify.notified() as armed:
        armed.enable()
        notify.notify_one()
        with pytest.raises(Stopped):
            await armed.wait(stop=stop)
    assert state(notify) == STORED


async def test_300_waits_that_time_out_leave_nobody() -> None:
    """R25: by count, and by what the collector finds."""
    notify = Notify()
    seen: list[weakref.ref[Notified]] = []

    async def wait() -> None:
        with notify.notified() as armed:
            seen.append(weakref.ref(armed))
            await armed

    async def time_out() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await wait()

    for _ in range(300):
        await time_out()
    assert state(notify) == IDLE
    await quiet()  # the loop lets go of what it ran last
    gc.collect()
    assert [armed() for armed in seen] == [None] * 300


async def test_a_parked_waiter_does_not_spin() -> None:
    """Quiet after the turn in which it went to sleep."""
    notify = Notify()
    tasks = await parked(notify, 3)
    assert await quiet() == 1
    notify.notify_waiters()
    await asyncio.gather(*tasks)
