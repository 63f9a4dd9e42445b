"""Latch: opens once and stays open (A1, A2)."""

import asyncio

import pytest

from millpond.errors import Stopped
from millpond.sync import Latch, Stop
from tests.sync.waits import armed
from tests.toolkit import ForeignStop, quiet


def test_is_one_way() -> None:
    """A1: opened again, it stays as it is."""
    latch = Latch()
    assert (latch.is_ready(), repr(latch)) == (False, "<Latch not ready>")
    latch.mark_ready()
    latch.mark_ready()
    assert (latch.is_ready(), repr(latch)) == (True, "<Latch ready>")


async def test_only_the_first_call_notifies() -> None:
    """A second call wakes nobody who waits for something else to happen."""
    latch = Latch()
    latch.mark_ready()
    with latch._changed.notified() as hint:
        latch.mark_ready()
        assert not hint.enable()


async def test_opens_for_all_in_the_order_in_which_they_came() -> None:
    """Ordering: all waiters return, the oldest first; one who comes later does not sleep."""
    latch, record = Latch(), list[int]()

    async def wait(number: int) -> None:
        await latch.wait_ready()
        record.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(5)]
    await quiet()
    latch.mark_ready()
    await wait(5)  # A2: returns from its check, before those who sleep have run
    await asyncio.gather(*tasks)
    assert record == [5, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("make_stop", [Stop, ForeignStop])
async def test_stop_beats_ready_and_tells_its_reason(make_stop: type[Stop | ForeignStop]) -> None:
    """Raises: `Stopped`, with the reason where the signal has one."""
    latch, stop = Latch(), make_stop()
    latch.mark_ready()
    if isinstance(stop, Stop):
        stop.stop("enough")
    else:
        stop.stop()
    with pytest.raises(Stopped) as stopped:
        await latch.wait_ready(stop=stop)
    assert stopped.value.reason == ("enough" if isinstance(stop, Stop) else "")
    await latch.wait_ready()
    assert armed(latch._changed) == 0
