"""Stop: invariants S1-S3, the tree, and what waits leave behind: nothing."""

import asyncio
import gc
import weakref

import pytest

from millpond.sync import Stop
from tests.toolkit import end, quiet


def waiting(stop: Stop) -> int:
    """Return how many futures hang on *stop*."""
    return int(repr(stop).split(", ")[-1].split()[0])


def test_is_sticky_and_keeps_the_first_reason() -> None:
    """S1: stopping again changes nothing."""
    stop = Stop()
    assert (stop.is_stopped(), stop.reason) == (False, "")
    assert repr(stop) == "<Stop not stopped, 0 waiting>"
    stop.stop("first")
    stop.stop("second")
    stop.stop()
    assert (stop.is_stopped(), stop.reason) == (True, "first")
    assert repr(stop) == "<Stop stopped: 'first', 0 waiting>"


async def test_wakes_everybody_and_late_waiters_return_at_once() -> None:
    """S2: repeated stop, then one who comes late."""
    stop = Stop()
    tasks = [asyncio.create_task(stop.wait_stopped()) for _ in range(3)]
    await quiet()
    assert waiting(stop) == 3
    stop.stop()
    stop.stop()
    await asyncio.gather(*tasks)
    await stop.wait_stopped()
    assert waiting(stop) == 0


async def test_a_wait_may_be_dropped_and_started_again() -> None:
    """100 times; nobody is left on the list."""
    stop = Stop()
    for _ in range(100):
        task = asyncio.create_task(stop.wait_stopped())
        await asyncio.sleep(0)
        assert waiting(stop) == 1
        await end(task)
        assert task.cancelled()
        assert waiting(stop) == 0
    task = asyncio.create_task(stop.wait_stopped())
    await quiet()
    stop.stop()
    await task


async def test_attach_and_detach_leave_nothing() -> None:
    """In any order, also twice, also after the stop."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    one, two = loop.create_future(), loop.create_future()
    stop.attach(one)
    stop.attach(two)
    stop.detach(one)
    stop.detach(one)
    assert waiting(stop) == 1
    stop.stop()
    assert (one.done(), two.done(), waiting(stop)) == (False, True, 0)
    stop.detach(two)
    stop.attach(one)
    assert (one.done(), waiting(stop)) == (True, 0)


async def test_survives_a_future_that_was_completed_elsewhere() -> None:
    """Cancelled in the same tick, before its waiter could detach it."""
    stop = Stop()
    tasks = [asyncio.create_task(stop.wait_stopped()) for _ in range(3)]
    await quiet()
    tasks[1].cancel()
    stop.stop()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [False, True, False]


def test_reaches_every_child_and_no_parent() -> None:
    """S3: and the reason goes along."""
    root = Stop()
    left, right = root.child(), root.child()
    below = left.child()
    left.stop("left only")
    assert [node.is_stopped() for node in (root, left, right, below)] == [False, True, False, True]
    root.stop("all")
    assert right.reason == "all"
    assert (left.reason, below.reason) == ("left only", "left only")


def test_a_child_of_a_stopped_one_is_born_stopped() -> None:
    """S3: with the reason."""
    root = Stop()
    root.stop("over")
    child = root.child()
    assert (child.is_stopped(), child.reason) == (True, "over")


async def test_waiters_of_children_wake() -> None:
    """S3: through two generations, in the order of birth."""
    root = Stop()
    record: list[str] = []
    nodes = {"root": root, "a": root.child(), "b": root.child()}
    nodes["aa"] = nodes["a"].child()

    async def wait(name: str) -> None:
        await nodes[name].wait_stopped()
        record.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in reversed(nodes)]
    await quiet()
    root.stop()
    await asyncio.gather(*tasks)
    assert record == ["root", "a", "b", "aa"]


def test_dropped_children_are_forgotten() -> None:
    """A run-long parent does not collect what its items left behind."""
    root = Stop()
    children = [root.child() for _ in range(1000)]
    seen = [weakref.ref(child) for child in children]
    del children
    gc.collect()
    assert not [child for child in seen if child() is not None]
    last = root.child()
    root.stop()
    assert last.is_stopped()


def test_a_child_may_outlive_its_parent() -> None:
    """It then is a stop of its own."""
    root = Stop()
    child = root.child()
    del root
    gc.collect()
    assert not child.is_stopped()
    child.stop("alone")
    assert child.reason == "alone"


def test_a_grandchild_is_reached_through_a_child_that_was_dropped() -> None:
    """S3: whoever made the stop in between need not keep it."""
    root = Stop()
    grandchild = root.child().child()
    gc.collect()
    root.stop("all")
    assert (grandchild.is_stopped(), grandchild.reason) == (True, "all")


def test_a_deep_tree_does_not_exhaust_the_stack() -> None:
    """Ten thousand generations."""
    nodes = [Stop()]
    for _ in range(10_000):
        nodes.append(nodes[-1].child())
    nodes[0].stop()
    assert nodes[-1].is_stopped()


@pytest.mark.parametrize("order", ["stop first", "wait first"])
async def test_a_stop_during_the_registration_is_not_lost(order: str) -> None:
    """In the same tick, in both orders in the ready queue."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    if order == "stop first":
        loop.call_soon(stop.stop)
        task = asyncio.create_task(stop.wait_stopped())
    else:
        task = asyncio.create_task(stop.wait_stopped())
        loop.call_soon(stop.stop)
    await task
    assert waiting(stop) == 0
