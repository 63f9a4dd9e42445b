"""Home: the loop and the thread that something belongs to."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from millpond._base import Home
from millpond.errors import UsageError


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


def test_is_bound_by_the_first_wait_and_not_before() -> None:
    """Made anywhere, changed from anywhere, as long as nobody could miss it."""
    home = Home("thing")
    home.check_thread()
    assert in_thread(home.check_thread) is None


async def test_gives_futures_of_the_running_loop() -> None:
    """The first and the later ones."""
    home = Home("thing")
    for _ in range(3):
        assert home.new_parked().get_loop() is asyncio.get_running_loop()
    home.check_thread()


def test_without_a_loop_there_is_nothing_to_park_on() -> None:
    """The error of asyncio; nothing is bound by it."""
    home = Home("thing")
    with pytest.raises(RuntimeError, match="no running event loop"):
        home.new_parked()
    home.check_thread()


async def test_another_thread_is_refused_with_what_to_call() -> None:
    """A change there would be noticed by nobody."""
    home = Home("thing")
    home.new_parked()
    error = in_thread(home.check_thread)
    assert isinstance(error, UsageError)
    assert "this thing belongs to an event loop in another thread" in str(error)
    assert "publish_threadsafe(loop, change, notify)" in str(error)


async def test_another_loop_is_refused() -> None:
    """In a thread of its own, where the first one still runs."""
    home = Home("thing")
    home.new_parked()

    async def wait_elsewhere() -> None:
        home.new_parked()

    error = in_thread(lambda: asyncio.run(wait_elsewhere()))
    assert isinstance(error, UsageError)
    assert "this thing is used in another event loop" in str(error)
    home.new_parked()
    home.check_thread()


def test_after_its_loop_was_closed_everything_is_refused() -> None:
    """A change, and a wait in the next loop."""
    home = Home("thing")

    async def wait() -> None:
        home.new_parked()

    asyncio.run(wait())
    with pytest.raises(UsageError, match="the event loop of this thing was closed"):
        home.check_thread()
    with pytest.raises(UsageError, match="make a new one for each loop"):
        asyncio.run(wait())


async def test_adopts_a_future_that_somebody_else_made() -> None:
    """It binds as a future of its own would; one of another loop is refused."""
    home = Home("thing")
    home.adopt(asyncio.get_running_loop().create_future())
    home.new_parked()
    assert isinstance(in_thread(home.check_thread), UsageError)
    other = asyncio.new_event_loop()
    try:
        with pytest.raises(UsageError, match="used in another event loop"):
            home.adopt(other.create_future())
    finally:
        other.close()


def test_two_loops_that_take_turns_in_one_thread_are_told_apart() -> None:
    """The first one is neither closed nor in another thread, yet it is not the running one."""
    home = Home("thing")

    async def wait() -> None:
        home.new_parked()

    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        first.run_until_complete(wait())
        with pytest.raises(UsageError, match="used in another event loop"):
            second.run_until_complete(wait())
        first.run_until_complete(wait())
    finally:
        first.close()
        second.close()


def test_a_loop_may_move_to_another_thread() -> None:
    """Set up here, run there: whoever runs it may change things, and only that one."""
    home = Home("thing")
    loop = asyncio.new_event_loop()

    async def wait() -> None:
        home.new_parked()
        home.check_thread()

    try:
        loop.run_until_complete(wait())
        assert in_thread(lambda: loop.run_until_complete(wait())) is None
        with pytest.raises(UsageError, match="in another thread"):
            home.check_thread()
        loop.run_until_complete(wait())
    finally:
        loop.close()
