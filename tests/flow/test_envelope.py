"""ResourceEnvelope: one slot, one owner, one end (E1-E3)."""

import asyncio
from collections.abc import Callable

import pytest

from millpond.errors import AlreadyReleased, Closed, Stopped, UsageError
from millpond.flow import Disposer, Inventory, Limiter, Owner, ResourceEnvelope
from millpond.sync import Stop
from tests.flow.conftest import quiet

pytestmark = pytest.mark.virtual_time

MOMENTS = ["while it queues", "just before the hand-over", "just after it"]


async def test_the_slot_comes_with_the_envelope() -> None:
    """E1: taken with it, and back with its release."""
    slots, discarded = Limiter(1, name="t"), list[str]()
    envelope = await ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append)
    assert slots.statistics().held == 1
    assert [holder.label for holder in slots.holders()] == ["envelope"]
    envelope.release()
    assert slots.statistics().free == 1
    assert (discarded, envelope.owner) == (["T"], Owner.SETTLED)


async def test_a_second_release_is_an_error() -> None:
    """E1: the slot goes back exactly once, and so does the resource."""
    slots, discarded = Limiter(2, name="t"), list[str]()
    envelope = await ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append)
    other = await ResourceEnvelope.create_with_slot("T2", slots)
    envelope.release()
    with pytest.raises(AlreadyReleased, match="release it exactly once"):
        envelope.release()
    assert (slots.statistics().free, discarded) == (1, ["T"])
    other.release()


async def test_only_the_present_owner_acts() -> None:
    """E2: what was put away is no longer the worker's, neither to release nor to put again."""
    slots = Limiter(1, name="t")
    inventory: Inventory[str, str] = Inventory(t_slots=slots, q_slots=Limiter(1, name="q"))
    envelope = await ResourceEnvelope.create_with_slot("T", slots)
    inventory.put_t(envelope)
    assert envelope.owner is Owner.INVENTORY
    with pytest.raises(UsageError, match="belongs to the inventory, not to the worker"):
        envelope.release()
    with pytest.raises(UsageError, match="belongs to the inventory"):
        inventory.put_t(envelope)
    inventory.check_invariants()
    assert inventory.clear() == 1
    assert slots.statistics().free == 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_cancelled_while_waiting_for_its_slot(moment: str) -> None:
    """E1, E3: the resource is disposed of once, and the slot is not taken (R14, R44)."""
    slots, discarded = Limiter(1, name="t"), list[str]()
    first = await ResourceEnvelope.create_with_slot("first", slots)
    task = asyncio.create_task(
        ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append)
    )
    await quiet()
    if moment == "just after it":
        first.release()
    task.cancel()
    if moment == "while it queues":
        await quiet()
        assert (discarded, slots.statistics().queued) == (["T"], 0)
    if moment != "just after it":
        first.release()
    await quiet()
    assert task.cancelled()
    assert discarded == ["T"]
    assert slots.statistics().free == 1


async def test_a_task_cancelled_before_its_first_step_owns_nothing() -> None:
    """R57: neither body nor clean-up of such a task ever runs, so its maker still owns T."""
    slots, discarded = Limiter(1, name="t"), list[str]()
    task = asyncio.create_task(
        ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append)
    )
    task.cancel()
    await quiet()
    assert task.cancelled()
    assert (discarded, slots.statistics().free) == ([], 1)


@pytest.mark.parametrize("when", ["before", "while it queues", "with the grant"])
async def test_a_stop_ends_the_wait(when: str) -> None:
    """E1: stop beats grant; the resource is disposed of and the slot is free."""
    slots, discarded, stop = Limiter(1, name="t"), list[str](), Stop()
    first = await ResourceEnvelope.create_with_slot("first", slots)
    if when == "before":
        stop.stop("enough")
    task = asyncio.create_task(
        ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append, stop=stop)
    )
    await quiet()
    if when == "with the grant":
        first.release()
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await task
    if when != "with the grant":
        first.release()
    assert (discarded, slots.statistics().free) == (["T"], 1)


async def test_closed_slots_dispose_of_the_resource() -> None:
    """E1: also when the wait ends with an error."""
    slots, discarded = Limiter(1, name="t"), list[str]()
    slots.close()
    with pytest.raises(Closed):
        await ResourceEnvelope.create_with_slot("T", slots, discard=discarded.append)
    assert discarded == ["T"]


async def test_it_ages_from_production_the_wait_included() -> None:
    """A T ages while it waits for its slot; the test is strict."""
    slots = Limiter(1, name="t")
    first = await ResourceEnvelope.create_with_slot("first", slots)
    asyncio.get_running_loop().call_later(3, first.release)
    envelope = await ResourceEnvelope.create_with_slot("T", slots, ttl=3)
    assert (envelope.created_at, envelope.expires_at, envelope.age) == (0, 3, 3)
    assert not envelope.is_expired()
    assert envelope.is_expired(3.001)
    envelope.release()


async def test_the_wall_clock_expires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect row 10: a clock at 0 is not missing, and a step of the wall clock is nothing."""
    now = 0.0
    slots = Limiter(2, name="t")
    envelope = await ResourceEnvelope.create_with_slot("T", slots, ttl=0, clock=lambda: now)
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert not envelope.is_expired()
    assert not envelope.is_expired(0.0)
    now = 0.5
    assert envelope.is_expired()
    assert not envelope.is_expired(0.0)
    envelope.release()


async def test_without_a_ttl_it_never_expires() -> None:
    """None is for ever."""
    envelope = await ResourceEnvelope.create_with_slot("T", Limiter(1, name="t"))
    assert not envelope.is_expired(1e18)
    envelope.release()


async def test_the_slot_returns_when_the_disposal_has_ended() -> None:
    """E1: disposal counts as use of the slot, so that T cannot outnumber the slots."""
    slots, going = Limiter(1, name="t"), asyncio.Event()

    async def discard(_: str) -> None:
        await going.wait()

    disposer: Disposer[str] = Disposer(discard)
    envelope = await ResourceEnvelope.create_with_slot("T", slots, discard=disposer)
    envelope.release()
    await quiet()
    assert slots.statistics().held == 1
    assert disposer.statistics().holding_slots == 1
    going.set()
    await disposer.idle()
    assert slots.statistics().free == 1


def raising(error: Exception) -> Callable[[object], None]:
    """Return a disposal that fails."""

    def discard(_: object) -> None:
        raise error

    return discard


async def test_a_failed_disposal_loses_no_slot() -> None:
    """E1: it is loud, and the slot is back."""
    slots = Limiter(1, name="t")
    envelope = await ResourceEnvelope.create_with_slot("T", slots, discard=raising(OSError("gone")))
    envelope.release()
    assert slots.statistics().free == 1
