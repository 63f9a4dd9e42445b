"""tokio's tests of `CancellationToken`, by name, on a `Stop`: `sync_cancellation_token.rs`.

A clone of a token is the same `Stop`.
"""

import asyncio
import gc

import pytest

from millpond.sync import Stop
from tests.conformance.tokio.support import drop, pending, ready, spawn


def waiting(stop: Stop) -> int:
    """How many wait for it."""
    return int(repr(stop).split()[-2])


async def asked(stop: Stop) -> None:
    """Expect that *stop* was asked for, for those who wait and for those who look."""
    assert stop.is_stopped()
    await ready(await spawn(stop.wait_stopped()))


async def test_cancel_token() -> None:
    """It wakes who waits, and lets pass who comes later."""
    stop = Stop()
    assert not stop.is_stopped()
    early = await spawn(stop.wait_stopped())
    await pending(early)
    late = stop.wait_stopped()  # made before, begun after
    stop.stop()
    await ready(early)
    await late
    await asked(stop)


async def test_cancel_token_owned() -> None:
    """It may be asked for and waited for wherever a reference to it went."""
    stop = Stop()
    waits = [stop.wait_stopped()]
    early = await spawn(waits.pop())
    await pending(early)
    asyncio.get_running_loop().call_soon(stop.stop, "from elsewhere")
    await ready(early)
    await asked(stop)
    assert stop.reason == "from elsewhere"


async def test_cancel_token_owned_drop_test() -> None:
    """Nothing is left of a wait that was dropped."""
    stop = Stop()
    waiter = await spawn(stop.wait_stopped())
    assert waiting(stop) == 1
    await drop(waiter)
    assert waiting(stop) == 0


async def test_cancel_child_token_through_parent() -> None:
    """Asking the parent asks the child, and wakes who waits for either."""
    parent = Stop()
    child = parent.child()
    waiters = [await spawn(stop.wait_stopped()) for stop in (child, parent)]
    await pending(*waiters)
    parent.stop()
    for waiter in waiters:
        await ready(waiter)
    await asked(parent)
    await asked(child)


async def test_cancel_grandchild_token_through_parent_if_child_was_dropped() -> None:
    """A stop in between that nobody holds any more still passes it on."""
    parent = Stop()
    middle = parent.child()
    child = middle.child()
    del middle
    gc.collect()
    waiters = [await spawn(stop.wait_stopped()) for stop in (child, parent)]
    await pending(*waiters)
    parent.stop()
    for waiter in waiters:
        await ready(waiter)
    await asked(child)


async def test_cancel_child_token_without_parent() -> None:
    """Asking a child leaves the parent and the other children alone."""
    parent = Stop()
    child = parent.child()
    of_child, of_parent = await spawn(child.wait_stopped()), await spawn(parent.wait_stopped())
    await pending(of_child, of_parent)
    child.stop()
    await ready(of_child)
    await pending(of_parent)
    assert not parent.is_stopped()

    other = parent.child()
    of_other = await spawn(other.wait_stopped())
    await pending(of_other, of_parent)
    parent.stop()
    await ready(of_other)
    await ready(of_parent)
    await asked(other)


@pytest.mark.parametrize("child_first", [True, False])
async def test_create_child_token_after_parent_was_cancelled(child_first: bool) -> None:
    """A child that is made late is stopped, and stays so in whichever order they go."""
    parent = Stop()
    parent.stop("enough")
    child = parent.child()
    await asked(child)
    assert child.reason == "enough"
    if child_first:
        del child
        gc.collect()
        await asked(parent)
    else:
        del parent
        gc.collect()
        await asked(child)


@pytest.mark.parametrize("first_first", [True, False])
def test_drop_multiple_child_tokens(first_first: bool) -> None:
    """Children go in either order: nothing is asked for, the others are still reached."""
    parent = Stop()
    children = [parent.child() for _ in range(3)]
    while len(children) > 1:
        children.pop(0 if first_first else -1)
        gc.collect()
        assert not parent.is_stopped()
    parent.stop()
    assert children[0].is_stopped()


async def test_cancel_only_all_descendants() -> None:
    """Everything below it is asked, and nothing beside or above it."""
    parent = Stop()
    stop, sibling = parent.child(), parent.child()
    children = [stop.child(), stop.child()]
    grandchildren = [children[0].child(), children[0].child()]
    great_grandchild = grandchildren[0].child()
    below = [stop, *children, *grandchildren, great_grandchild]
    outside = [await spawn(other.wait_stopped()) for other in (parent, sibling)]
    inside = [await spawn(one.wait_stopped()) for one in below]
    await pending(*outside, *inside)
    stop.stop()
    for waiter in inside:
        await ready(waiter)
    for one in below:
        await asked(one)
    await pending(*outside)
    assert not parent.is_stopped()
    assert not sibling.is_stopped()
    await drop(*outside)


def test_drop_parent_before_child_tokens() -> None:
    """Dropping the parent asks for nothing; its children can still be asked."""
    parent = Stop()
    children = [parent.child(), parent.child()]
    del parent
    gc.collect()
    assert not any(child.is_stopped() for child in children)
    children[0].stop()
    assert [child.is_stopped() for child in children] == [True, False]


def test_cloned_cancellation_tokens_are_considered_equal() -> None:
    """It is equal to itself under any name."""
    stop = Stop()
    clone = stop
    assert stop == clone


def test_child_cancellation_tokens_are_not_considered_equal() -> None:
    """A child is another one, stopped or not."""
    stop = Stop()
    assert stop != stop.child()
    stop.stop()
    assert stop != stop.child()


def test_independent_cancellation_tokens_are_not_considered_equal() -> None:
    """Two in the same state are two."""
    assert Stop() != Stop()


def test_cloned_cancellation_tokens_have_same_hash() -> None:
    """It is found in a set, and its state does not matter to that."""
    stop = Stop()
    kept = {stop}
    stop.stop()
    assert stop in kept


def test_different_cancellation_tokens_have_different_hash() -> None:
    """Two in the same state have two places in a set."""
    assert len({Stop(), Stop()}) == 2
