"""Disposer: exactly once, bounded, and loud (D1-D3)."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

import pytest

from millpond.flow import Disposer
from tests.flow.conftest import quiet

pytestmark = pytest.mark.virtual_time


async def test_a_plain_function_is_called_at_once() -> None:
    """D1, D2: and what follows comes after it."""
    events: list[str] = []
    disposer: Disposer[str] = Disposer(events.append)
    disposer.dispose("T", lambda: events.append("then"))
    assert events == ["T", "then"]
    assert (disposer.statistics().done, disposer.statistics().running) == (1, 0)


async def test_nothing_to_do_is_done() -> None:
    """D2: without a function the slot still goes back, and the books count it."""
    events: list[str] = []
    disposer: Disposer[str] = Disposer(None)
    disposer.dispose("T", lambda: events.append("then"))
    assert (events, disposer.statistics().ended) == (["then"], 1)


async def test_an_async_function_runs_in_a_task_of_its_own() -> None:
    """D1, D2: `dispose` does not wait, so no cancel can fall into it."""
    events: list[str] = []

    async def discard(resource: str) -> None:
        await asyncio.sleep(1)
        events.append(resource)

    disposer: Disposer[str] = Disposer(discard)
    disposer.dispose("T", lambda: events.append("then"))
    now = disposer.statistics()
    assert (events, now.running, now.holding_slots, now.ended) == ([], 1, 1, 0)
    await disposer.idle()
    assert events == ["T", "then"]
    now = disposer.statistics()
    assert (now.running, now.done, now.failed) == (0, 1, 0)


async def test_a_disposal_without_a_slot_holds_none() -> None:
    """The count of slots under disposal is that of slots, not of disposals."""
    disposer: Disposer[str] = Disposer(lambda _: asyncio.sleep(1))
    disposer.dispose("T")
    assert (disposer.statistics().running, disposer.statistics().holding_slots) == (1, 0)
    await disposer.idle()


async def fails_late(_: str) -> None:
    """Raise after a turn."""
    await asyncio.sleep(0)
    msg = "cannot stop the box"
    raise OSError(msg)


def fails_at_once(_: str) -> Awaitable[object] | None:
    """Raise in the call."""
    msg = "cannot stop the box"
    raise OSError(msg)


@pytest.mark.parametrize("discard", [fails_late, fails_at_once])
async def test_a_disposal_that_raises_is_counted_and_loud(
    discard: Callable[[str], Awaitable[object] | None], caplog: pytest.LogCaptureFixture
) -> None:
    """D2, D3: plain or async, the slot goes back once."""
    events: list[str] = []
    disposer: Disposer[str] = Disposer(discard, name="box")
    with caplog.at_level(logging.ERROR, "millpond.flow"):
        disposer.dispose("T", lambda: events.append("then"))
        await disposer.idle()
    now = disposer.statistics()
    assert (now.done, now.failed, now.given_up, events) == (0, 1, 0, ["then"])
    assert "disposing of a box failed: OSError('cannot stop the box')" in caplog.text


async def test_a_disposal_that_hangs_is_cancelled_and_counted() -> None:
    """D3 (R51): bounded by its time; the slot is free again."""
    loop, events = asyncio.get_running_loop(), list[str]()
    disposer: Disposer[str] = Disposer(lambda _: asyncio.sleep(1000), timeout=2)
    disposer.dispose("T", lambda: events.append("then"))
    await disposer.idle()
    now = disposer.statistics()
    assert (loop.time(), now.failed, now.given_up, events) == (2, 1, 0, ["then"])


@pytest.mark.parametrize("late", ["returns", "raises"])
async def test_a_disposal_that_ignores_its_cancel_is_given_up(late: str) -> None:
    """D2, D3 (R51): its slot goes back once, and its late end disturbs nobody."""
    loop, events, going = asyncio.get_running_loop(), list[str](), asyncio.Event()

    async def discard(_: str) -> None:
        while not going.is_set():
            try:
                await going.wait()
            except asyncio.CancelledError:
                events.append("ignored")
        if late == "raises":
            raise OSError(late)

    disposer: Disposer[str] = Disposer(discard, timeout=2)
    disposer.dispose("T", lambda: events.append("then"))
    await disposer.idle()
    now = disposer.statistics()
    assert loop.time() == 3
    assert events == ["ignored", "then"]
    assert (now.running, now.failed, now.given_up) == (0, 1, 1)
    going.set()
    await quiet()
    assert events == ["ignored", "then"]
    assert disposer.statistics() == now


async def test_disposals_run_side_by_side() -> None:
    """One that hangs does not hold up the others."""
    loop = asyncio.get_running_loop()
    disposer: Disposer[float] = Disposer(asyncio.sleep, timeout=10)
    for seconds in (4.0, 2.0, 3.0):
        disposer.dispose(seconds)
    await disposer.idle()
    assert (loop.time(), disposer.statistics().done) == (4, 3)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_disposal_does_not_see_the_context_of_its_cause(plain: bool) -> None:
    """It belongs to the run, not to the item that happened to cause it."""
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="run")
    seen: list[str] = []

    async def later(_: str) -> None:
        seen.append(trace.get())

    def now(_: str) -> None:
        seen.append(trace.get())

    disposer: Disposer[str] = Disposer(now if plain else later)
    trace.set("item")
    disposer.dispose("T")
    await disposer.idle()
    assert seen == ["run"]


async def test_a_cancelled_wait_for_idle_cancels_no_disposal() -> None:
    """Waiting is only looking."""
    disposer: Disposer[str] = Disposer(lambda _: asyncio.sleep(1))
    disposer.dispose("T")
    waiter = asyncio.create_task(disposer.idle())
    await quiet()
    waiter.cancel()
    await quiet()
    assert disposer.statistics().running == 1
    await disposer.idle()
    assert disposer.statistics().done == 1
