"""publish_threadsafe: the state and the hint from another thread, in this order."""

import asyncio
import threading

import pytest

from millpond.errors import UsageError
from millpond.sync import Notify, publish_threadsafe, wait_until
from tests.toolkit import loop_errors, quiet


async def test_the_change_is_made_in_the_thread_of_the_loop_before_anybody_wakes() -> None:
    """Where no task can look in between."""
    loop, notify, where = asyncio.get_running_loop(), Notify(), list[int]()
    task = asyncio.create_task(wait_until(notify, lambda: where))
    await quiet()
    thread = threading.Thread(
        target=publish_threadsafe,
        args=(loop, lambda: where.append(threading.get_ident()), notify),
    )
    thread.start()
    await task
    thread.join()
    assert where == [threading.get_ident()]


async def test_returns_at_once_and_makes_the_change_soon() -> None:
    """Also when it is called in the loop's own thread."""
    notify, done = Notify(), list[int]()
    publish_threadsafe(asyncio.get_running_loop(), lambda: done.append(1), notify)
    assert not done
    await wait_until(notify, lambda: done)


async def test_many_threads_publish_and_nothing_is_lost() -> None:
    """Eight threads, a hundred changes each."""
    loop, notify, done = asyncio.get_running_loop(), Notify(), list[int]()

    def work() -> None:
        for number in range(100):
            publish_threadsafe(loop, lambda number=number: done.append(number), notify)  # type: ignore[misc] # bound early

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    await wait_until(notify, lambda: len(done) == 800)
    for thread in threads:
        thread.join()


async def test_the_loop_is_woken_from_its_sleep() -> None:
    """In debug mode asyncio refuses what would leave a sleeping loop asleep."""
    loop, notify, done, errors = asyncio.get_running_loop(), Notify(), list[int](), list[object]()
    loop.set_debug(True)

    def work() -> None:
        try:
            publish_threadsafe(loop, lambda: done.append(1), notify)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
    await wait_until(notify, lambda: done)


async def test_a_change_that_raises_wakes_nobody_and_is_not_silent() -> None:
    """It goes to the loop's exception handler."""
    notify = Notify()

    def change() -> None:
        msg = "cannot publish"
        raise LookupError(msg)

    with notify.notified() as hint:
        hint.enable()
        with loop_errors() as seen:
            publish_threadsafe(asyncio.get_running_loop(), change, notify)
            await quiet()
        assert [str(context["exception"]) for context in seen] == ["cannot publish"]
        assert not hint.enable()


def test_a_closed_loop_is_told_of() -> None:
    """Raises: `UsageError`; nothing was published."""
    loop, done = asyncio.new_event_loop(), list[int]()
    loop.close()
    with pytest.raises(UsageError, match="the event loop was closed"):
        publish_threadsafe(loop, lambda: done.append(1), Notify())
    assert not done
