"""tokio's tests of `watch`, by name: `sync_watch.rs` and its loom models."""

import asyncio

import pytest

from millpond.errors import Closed
from millpond.sync import Watch, WatchSubscription
from tests.conformance.tokio.support import (
    Scenario,
    drop,
    in_every_order,
    pending,
    ready,
    spawn,
)
from tests.toolkit import turns


async def unchanged(*followers: "WatchSubscription[str]") -> None:
    """Expect that all *followers* would wait for a change."""
    waiting = [await spawn(follower.changed()) for follower in followers]
    await pending(*waiting)
    await drop(*waiting)


async def test_single_rx_recv() -> None:
    """The first value is no change; a new one is, and then the close."""
    level = Watch("one")
    follower = level.subscribe()
    await unchanged(follower)
    assert follower.borrow() == "one"

    waiting = await spawn(follower.changed())
    level.set("two")
    await ready(waiting)
    assert follower.borrow() == "two"

    waiting = await spawn(follower.changed())
    await pending(waiting)
    level.close()
    with pytest.raises(Closed):
        await ready(waiting)
    assert follower.borrow() == "two"


async def test_rx_version_underflow() -> None:
    """Counted as not seen twice, a value is a change once."""
    follower = Watch("one").subscribe()
    follower.mark_changed()
    follower.mark_changed()
    assert follower.has_changed()
    await ready(await spawn(follower.changed()))
    await unchanged(follower)


async def test_rx_mark_changed() -> None:
    """It makes a change for this follower only, until it has looked."""
    level = Watch("one")
    first, second, third, fourth = [level.subscribe() for _ in range(4)]
    first.mark_changed()
    assert first.has_changed()
    await ready(await spawn(first.changed()))

    assert not second.has_changed()
    await unchanged(second)

    third.mark_changed()
    assert third.borrow() == "one"
    assert third.has_changed()
    assert third.borrow_and_update() == "one"
    assert not third.has_changed()
    await unchanged(third)

    level.set("two")
    assert fourth.has_changed()
    assert fourth.borrow_and_update() == "two"
    fourth.mark_changed()
    assert fourth.has_changed()
    assert fourth.borrow_and_update() == "two"
    assert first.borrow() == "two"


async def test_rx_mark_unchanged() -> None:
    """It takes a change back, whether there was a new value or not."""
    level = Watch("one")
    first, second = level.subscribe(), level.subscribe()
    assert not first.has_changed()
    first.mark_changed()
    first.mark_unchanged()
    assert not first.has_changed()
    await unchanged(first)

    level.set("two")
    assert second.has_changed()
    second.mark_unchanged()
    assert not second.has_changed()
    assert second.borrow_and_update() == "two"
    assert first.borrow() == "two"


async def test_multi_rx() -> None:
    """Each of two gets each change, or the last of several."""
    level = Watch("one")
    first, second = level.subscribe(), level.subscribe()
    await unchanged(first, second)

    one, two = await spawn(first.changed()), await spawn(second.changed())
    level.set("two")
    await ready(one)
    await ready(two)
    assert first.borrow() == second.borrow() == "two"

    one = await spawn(first.changed())
    level.set("three")
    await ready(one)
    level.set("four")  # the second one comes late and sees only this
    await ready(await spawn(second.changed()))
    assert second.borrow() == "four"
    await unchanged(second)
    await ready(await spawn(first.changed()))
    await unchanged(first)


async def test_rx_observes_final_value() -> None:
    """A value that was set just before the close is a change, the close comes after it."""
    level = Watch("one")
    follower = level.subscribe()
    level.close()
    with pytest.raises(Closed):
        await ready(await spawn(follower.changed()))
    assert follower.borrow() == "one"

    level = Watch("one")
    follower = level.subscribe()
    level.set("two")
    await ready(await spawn(follower.changed()))
    assert follower.borrow() == "two"

    waiting = await spawn(follower.changed())
    level.set("three")
    level.close()
    await ready(waiting)
    assert follower.borrow() == "three"
    with pytest.raises(Closed):
        await ready(await spawn(follower.changed()))
    assert follower.borrow() == "three"


async def test_poll_close() -> None:
    """Once it is closed, a setter can see it, and its value is refused."""
    level = Watch("one")
    assert not level.is_closed()
    level.close()
    level.close()  # once more changes nothing
    assert level.is_closed()
    with pytest.raises(Closed):
        level.set("two")
    with pytest.raises(Closed):
        level.modify(str.upper)
    assert level.borrow() == "one"


async def test_borrow_and_update() -> None:
    """Looking counts as seen: no change is told for it, before the close or after it."""
    level = Watch("one")
    follower = level.subscribe()
    assert not follower.has_changed()
    level.set("two")
    assert follower.has_changed()
    await ready(await spawn(follower.changed()))
    await unchanged(follower)
    assert not follower.has_changed()

    level.set("three")
    assert follower.has_changed()
    assert follower.borrow_and_update() == "three"
    await unchanged(follower)
    assert not follower.has_changed()

    level.close()
    assert follower.borrow_and_update() == "three"
    with pytest.raises(Closed):
        await ready(await spawn(follower.changed()))
    with pytest.raises(Closed):
        follower.has_changed()


async def test_send_modify_panic() -> None:
    """A modifier that raises changes nothing and wakes nobody; the next one does."""
    level = Watch(["one"])
    level.modify(lambda old: [*old, "two"])
    follower = level.subscribe()
    waiting = await spawn(follower.changed())

    def fail(_: list[str]) -> list[str]:
        msg = "no value"
        raise OSError(msg)

    with pytest.raises(OSError, match="no value"):
        level.modify(fail)
    await pending(waiting)
    assert not follower.has_changed()
    assert follower.borrow() == ["one", "two"]
    level.modify(lambda old: [*old, "three"])
    await ready(waiting)
    assert follower.borrow_and_update() == ["one", "two", "three"]


async def test_multiple_sender() -> None:
    """Set from two places, each value is a change for who looks in between."""
    level = Watch(0)
    follower = level.subscribe()

    async def two_changes() -> tuple[int, int]:
        await follower.changed()
        first = follower.borrow_and_update()
        await follower.changed()
        return first, follower.borrow_and_update()

    waiting = await spawn(two_changes())
    level.set(1)
    await pending(waiting)
    level.modify(lambda old: old + 1)
    assert await ready(waiting) == (1, 2)


async def test_receiver_is_notified_when_last_sender_is_dropped() -> None:
    """A close wakes whoever waits, and only the close does."""
    level = Watch(0)
    waiting = await spawn(level.subscribe().changed())
    fitting = await spawn(level.subscribe().wait_for(lambda number: number > 0))
    await pending(waiting, fitting)
    level.close()
    for task in (waiting, fitting):
        with pytest.raises(Closed):
            await ready(task)


async def lets_others_run(*, fits: bool, close: bool) -> bool:
    """Whether a loop of waits that never have to sleep gives way to another task."""
    level = Watch(0)
    follower = level.subscribe()
    others: list[int] = []

    async def other() -> None:
        others.append(1)

    task = asyncio.create_task(other())
    if close:
        level.close()
    for _ in range(1000):
        if not close:
            level.set(1)
        try:
            if fits:
                await follower.wait_for(lambda number: number == 1)
            else:
                await follower.changed()
        except Closed:
            assert close
        else:
            assert not close
        if others:
            break
    gave_way = bool(others)
    await task
    return gave_way


async def test_receiver_changed_is_cooperative() -> None:
    """Waiting for a change of a closed one, again and again, stalls nobody."""
    assert await lets_others_run(fits=False, close=True)


async def test_receiver_changed_is_cooperative_ok() -> None:
    """Nor does waiting for changes that are there already."""
    assert await lets_others_run(fits=False, close=False)


async def test_receiver_wait_for_is_cooperative() -> None:
    """Nor does waiting for a value that a closed one will never have."""
    assert await lets_others_run(fits=True, close=True)


async def test_receiver_wait_for_is_cooperative_ok() -> None:
    """Nor does waiting for a value that fits already."""
    assert await lets_others_run(fits=True, close=False)


async def test_changed_succeeds_on_closed_channel_with_unseen_value() -> None:
    """A value that was not seen is a change, closed or not."""
    level = Watch("one")
    follower = level.subscribe()
    level.set("two")
    level.close()
    await ready(await spawn(follower.changed()))
    assert follower.borrow() == "two"


async def test_changed_errors_on_closed_channel_with_seen_value() -> None:
    """Closed and seen: there will be no change."""
    level = Watch("one")
    follower = level.subscribe()
    level.close()
    with pytest.raises(Closed):
        await ready(await spawn(follower.changed()))


def test_has_changed_errors_on_closed_channel_with_unseen_value() -> None:
    """The question is refused on a closed one, even with a value that was not seen."""
    level = Watch("one")
    follower = level.subscribe()
    level.set("two")
    level.close()
    with pytest.raises(Closed):
        follower.has_changed()


def test_has_changed_errors_on_closed_channel_with_seen_value() -> None:
    """And with one that was."""
    level = Watch("one")
    follower = level.subscribe()
    level.close()
    with pytest.raises(Closed):
        follower.has_changed()


async def test_wait_for_errors_on_closed_channel_true_predicate() -> None:
    """The last value of a closed one may still fit; if it does not, nothing will."""
    level = Watch("one")
    follower = level.subscribe()
    level.set("two")
    level.close()
    assert await ready(await spawn(follower.wait_for(lambda _: True))) == "two"
    with pytest.raises(Closed):
        await ready(await spawn(follower.wait_for(lambda text: text == "three")))


# -- every order


async def test_smoke() -> None:
    """Set at any time, five followers each see the change."""

    def make() -> Scenario:
        level = Watch(1)
        followers = [level.subscribe() for _ in range(5)]

        async def follow_all() -> None:
            for follower in followers:
                await follower.changed()
                assert follower.borrow() == 2

        async def publish() -> None:
            level.set(2)

        return Scenario([follow_all(), publish()], lambda: None)

    await in_every_order(make)


async def test_wait_for_test() -> None:
    """A value that fits is found among changes that leave it as it is."""

    def make() -> Scenario:
        level = Watch(False)  # noqa: FBT003 - the value that is watched
        follower = level.subscribe()

        async def follow() -> None:
            assert await follower.wait_for(bool) is True

        async def touch() -> None:
            for _ in range(2):
                level.modify(lambda same: same)
                await turns(1)

        async def publish() -> None:
            level.set(True)

        return Scenario([follow(), touch(), publish()], lambda: None)

    await in_every_order(make)


async def test_wait_for_returns_correct_value() -> None:
    """What is returned is what the predicate was last asked about."""

    def make() -> Scenario:
        level = Watch(0)
        follower = level.subscribe()

        async def follow() -> None:
            asked: list[int] = []

            def fits(number: int) -> bool:
                asked.append(number)
                return number > 0

            assert await follower.wait_for(fits) == asked[-1]

        async def publish() -> None:
            for number in (1, 2, 3):
                level.set(number)
                await turns(number % 2)

        return Scenario([follow(), publish()], lambda: None)

    await in_every_order(make)


async def test_multiple_sender_drop_concurrently() -> None:
    """Closed from two places at any time: open before, closed afterwards."""

    def make() -> Scenario:
        level = Watch(0)
        follower = level.subscribe()
        assert not follower.has_changed()

        async def leave() -> None:
            level.close()

        def check() -> None:
            with pytest.raises(Closed):
                follower.has_changed()

        return Scenario([leave(), leave()], check)

    await in_every_order(make)
