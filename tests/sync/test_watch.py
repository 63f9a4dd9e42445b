"""Watch: the latest value, and who has seen it (L1-L3)."""

import asyncio

import pytest

from millpond.errors import Closed, Stopped, UsageError
from millpond.sync import Stop, Watch
from tests.toolkit import quiet, turns


async def test_a_follower_sees_the_latest_value_and_may_miss_those_between() -> None:
    """L1, L2: three changes, one return."""
    watch = Watch(0)
    follower = watch.subscribe()
    for value in (1, 2, 3):
        watch.set(value)
    await follower.changed()
    assert (follower.borrow(), watch.borrow()) == (3, 3)
    task = asyncio.create_task(follower.changed())
    await quiet()
    assert not task.done()
    watch.set(3)  # the same value, and newer all the same
    await task


async def test_the_value_at_the_subscription_counts_as_seen() -> None:
    """Also when it is not the first one."""
    watch = Watch(0)
    watch.set(1)
    follower = watch.subscribe()
    assert not follower.has_changed()
    watch.set(2)
    assert follower.has_changed()


async def test_a_change_wakes_every_follower() -> None:
    """Ordering: all, in the order in which they wait; each has a mark of its own."""
    watch, record = Watch(0), list[int]()

    async def follow(number: int) -> None:
        follower = watch.subscribe()
        await follower.changed()
        record.append(number)

    tasks = [asyncio.create_task(follow(number)) for number in range(5)]
    await quiet()
    watch.set(1)
    await asyncio.gather(*tasks)
    assert record == [0, 1, 2, 3, 4]


async def test_two_waits_of_one_follower_are_not_both_served_by_one_change() -> None:
    """L2: once for every newer value; the second waits for the next."""
    watch = Watch(0)
    follower = watch.subscribe()
    first, second = (asyncio.create_task(follower.changed()) for _ in range(2))
    await quiet()
    watch.set(1)
    await first
    await quiet()
    assert not second.done()
    watch.set(2)
    await second


def test_marks() -> None:
    """Seen and not seen, by hand; `borrow` leaves the mark, `borrow_and_update` sets it."""
    watch = Watch(0)
    follower = watch.subscribe()
    follower.mark_changed()
    assert follower.has_changed()
    assert follower.borrow() == 0
    assert follower.has_changed()
    assert follower.borrow_and_update() == 0
    assert not follower.has_changed()
    watch.set(1)
    follower.mark_unchanged()
    assert not follower.has_changed()


def test_modify_makes_the_new_value_from_the_old_one() -> None:
    """And counts as a change."""
    watch = Watch(10)
    follower = watch.subscribe()
    watch.modify(lambda value: value + 5)
    assert (watch.borrow(), follower.has_changed()) == (15, True)


async def test_a_modifier_that_raises_changes_nothing() -> None:
    """L3: neither value nor version, and nobody is woken."""
    watch = Watch(10)
    follower = watch.subscribe()
    task = asyncio.create_task(follower.changed())
    await quiet()
    before = repr(watch)
    with pytest.raises(ZeroDivisionError):
        watch.modify(lambda value: value // 0)
    await quiet()
    assert (repr(watch), follower.has_changed(), task.done()) == (before, False, False)
    watch.set(1)
    await task


async def test_close_wakes_followers_who_have_seen_the_last_value() -> None:
    """Raises: `Closed`; whoever has not seen it gets it first."""
    watch = Watch(0)
    behind, up_to_date = watch.subscribe(), watch.subscribe()
    task = asyncio.create_task(up_to_date.changed())
    await quiet()
    behind.mark_changed()
    watch.close()
    watch.close()
    assert watch.is_closed()
    with pytest.raises(Closed, match="watch is closed"):
        await task
    await behind.changed()  # a value beats closed
    with pytest.raises(Closed):
        await behind.changed()
    for follower in (behind, up_to_date):
        with pytest.raises(Closed):
            follower.has_changed()
        assert follower.borrow() == 0


def test_a_closed_watch_takes_no_value() -> None:
    """Raises: `Closed`, and the value stays readable."""
    watch = Watch(0)
    watch.close()
    with pytest.raises(Closed):
        watch.set(1)
    with pytest.raises(Closed):
        watch.modify(lambda value: value + 1)
    assert watch.borrow() == 0


async def test_wait_for_looks_at_the_present_value_first() -> None:
    """Seen or not, on an open and on a closed watch; it counts as seen afterwards."""
    watch = Watch(5)
    follower = watch.subscribe()
    assert await follower.wait_for(lambda value: value == 5) == 5
    watch.set(6)
    assert await follower.wait_for(lambda value: value == 6) == 6
    assert not follower.has_changed()
    watch.close()
    assert await follower.wait_for(lambda value: value == 6) == 6
    with pytest.raises(Closed):
        await follower.wait_for(lambda value: value == 7)


async def test_wait_for_waits_through_values_that_do_not_fit() -> None:
    """And ends with `Closed` when the last one does not fit either."""
    watch = Watch(0)
    fits = asyncio.create_task(watch.subscribe().wait_for(lambda value: value > 2))
    never = asyncio.create_task(watch.subscribe().wait_for(lambda value: value > 9))
    for value in (1, 2, 3):
        await quiet()
        assert not fits.done()
        watch.set(value)
    assert await fits == 3
    watch.close()
    with pytest.raises(Closed):
        await never


async def test_wait_for_passes_on_what_the_predicate_raises() -> None:
    """At once, and after a change."""
    watch = Watch(1)
    follower = watch.subscribe()
    with pytest.raises(ZeroDivisionError):
        await follower.wait_for(lambda value: 1 // (value - 1))
    task = asyncio.create_task(follower.wait_for(lambda value: 1 // value > 1))
    await quiet()
    watch.set(0)
    with pytest.raises(ZeroDivisionError):
        await task


async def test_wait_for_refuses_a_predicate_that_must_be_awaited() -> None:
    """It would always hold."""

    async def fits(_: int) -> bool:
        return True

    with pytest.raises(UsageError, match="plain function"):
        await Watch(0).subscribe().wait_for(fits)


async def test_stop_beats_value_and_closed() -> None:
    """Ordering: and the value is still not seen."""
    watch, stop = Watch(0), Stop()
    follower = watch.subscribe()
    watch.set(1)
    watch.close()
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await follower.changed(stop=stop)
    with pytest.raises(Stopped, match="enough"):
        await follower.wait_for(lambda value: value == 1, stop=stop)
    await follower.changed()
    assert follower.borrow() == 1


@pytest.mark.parametrize("wait", ["changed", "wait_for"])
async def test_a_tight_loop_gives_way_now_and_then(wait: str) -> None:
    """Where there is always something new, others run in between all the same."""
    watch, seen = Watch(0), list[str]()
    follower = watch.subscribe()
    asyncio.get_running_loop().call_soon(seen.append, "another")
    for number in range(1, 1000):
        watch.set(number)
        if wait == "changed":
            await follower.changed()
        else:
            await follower.wait_for(lambda value: value > 0)
    assert seen == ["another"]


async def test_a_cancelled_wait_leaves_the_value_unseen() -> None:
    """Cancelled in the tick of the change, in both orders."""
    for order in ("set, cancel", "cancel, set"):
        watch = Watch(0)
        follower = watch.subscribe()
        task = asyncio.create_task(follower.changed())
        await turns(2)
        for what in order.split(", "):
            if what == "set":
                watch.set(1)
            else:
                task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert follower.has_changed()


def test_repr_tells_the_whole_state() -> None:
    """Value, version, closed; and whether a follower is behind."""
    watch = Watch("a")
    follower = watch.subscribe()
    watch.set("b")
    assert repr(watch) == "<Watch 'b', version 1>"
    assert repr(follower) == "<WatchSubscription of <Watch 'b', version 1>, behind>"
    follower.mark_unchanged()
    watch.close()
    assert repr(follower) == ("<WatchSubscription of <Watch 'b', version 1, closed>, up to date>")
