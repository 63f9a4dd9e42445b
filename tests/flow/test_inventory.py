"""Inventory: the atomic claim, the give-back, lazy expiry, and books that balance (I1-I6)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest

from millpond.errors import Expired, InvariantViolated, Stopped, UsageError
from millpond.flow import (
    Admission,
    Disposer,
    Inventory,
    InventoryStatistics,
    Limiter,
    Owner,
    PairLease,
    ResourceEnvelope,
)
from millpond.sync import Stop
from tests.flow.conftest import quiet, turns

pytestmark = pytest.mark.virtual_time


class Stock:
    """An inventory with its slots, and what was disposed of."""

    opened: ClassVar[list["Stock"]] = []

    def __init__(self, t_slots: int = 4, q_slots: int = 4, stop: Stop | None = None) -> None:
        self.t_slots, self.q_slots = Limiter(t_slots, name="t"), Limiter(q_slots, name="q")
        self.expired: list[str] = []
        self.discarded: Counter[str] = Counter()
        self.inventory: Inventory[str, str] = Inventory(
            t_slots=self.t_slots,
            q_slots=self.q_slots,
            stop=stop,
            on_expired=lambda envelope: self.expired.append(envelope.resource),
        )
        self._disposer: Disposer[str] = Disposer(self._discard)
        self.pairs: list[tuple[str, str]] = []
        self.opened.append(self)

    def _discard(self, resource: str) -> None:
        self.discarded[resource] += 1

    async def envelope(self, name: str, ttl: float | None = None) -> ResourceEnvelope[str]:
        """Bind *name* to a slot of its side."""
        slots = self.t_slots if name.startswith("T") else self.q_slots
        return await ResourceEnvelope.create_with_slot(name, slots, ttl=ttl, discard=self._disposer)

    async def put(self, *names: str, ttl: float | None = None) -> list[Admission]:
        """Put each of *names* on its side."""
        answers: list[Admission] = []
        for name in names:
            envelope = await self.envelope(name, ttl)
            put = self.inventory.put_t if name.startswith("T") else self.inventory.put_q
            answers.append(put(envelope))
            self.inventory.check_invariants()
        return answers

    async def claim(self, seconds: float = 0) -> None:
        """Claim a pair and use it for a while."""
        async with self.inventory.claim_pair() as pair:
            self.pairs.append((pair.t, pair.q))
            await asyncio.sleep(seconds)

    def claims(self, count: int) -> list["asyncio.Task[None]"]:
        """Start *count* claims."""
        return [asyncio.create_task(self.claim()) for _ in range(count)]

    def free(self) -> tuple[int, int]:
        """Return how many slots of each side are free."""
        return self.t_slots.statistics().free, self.q_slots.statistics().free

    def numbers(self) -> InventoryStatistics:
        """Check the books, and return them."""
        self.inventory.check_invariants()
        return self.inventory.statistics()


@pytest.fixture(autouse=True)
def _balanced() -> Iterator[None]:
    """After each test nobody holds a pair; what is in stock leaves, and every slot is free."""
    yield
    while Stock.opened:
        stock = Stock.opened.pop()
        stock.inventory.clear()
        free = stock.free()
        assert free == (stock.t_slots.capacity, stock.q_slots.capacity)


async def ended(*tasks: "asyncio.Task[None]") -> None:
    """Cancel *tasks* and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("names", [("T1",), ("Q1",), ("T1", "T2"), ("Q1", "Q2")])
async def test_a_claim_waits_for_both_sides(names: tuple[str, ...]) -> None:
    """I1, I2: one side alone is no pair, and waiting removes nothing."""
    stock = Stock()
    await stock.put(*names)
    (claim,) = stock.claims(1)
    await quiet()
    now = stock.numbers()
    assert (now.t.stocked + now.q.stocked, now.waiting, stock.pairs) == (len(names), 1, [])
    await stock.put("Q9" if names[0].startswith("T") else "T9")
    await claim
    assert len(stock.pairs) == 1


async def test_a_claim_takes_both_in_one_step() -> None:
    """I1: the oldest T goes with the oldest Q."""
    stock = Stock()
    await stock.put("T1", "T2", "Q1", "Q2")
    async with stock.inventory.claim_pair() as pair:
        assert (pair.t, pair.q) == ("T1", "Q1")
        assert (pair.t_envelope.owner, pair.q_envelope.owner) == (Owner.LEASE, Owner.LEASE)
        now = stock.numbers()
        assert (now.t.stocked, now.q.stocked, now.leased, now.claimed) == (1, 1, 1, 1)
        assert stock.free() == (2, 2)
    assert stock.free() == (3, 3)
    assert stock.discarded == {"T1": 1, "Q1": 1}
    assert stock.numbers().leased == 0


async def test_claims_are_served_in_their_order() -> None:
    """Ordering: first come, first served, and nobody gets a pair twice."""
    stock = Stock()
    claims = stock.claims(3)
    await quiet()
    await stock.put("T1", "T2", "T3", "Q1", "Q2", "Q3")
    await asyncio.gather(*claims)
    assert stock.pairs == [("T1", "Q1"), ("T2", "Q2"), ("T3", "Q3")]
    assert stock.free() == (4, 4)


async def test_a_newcomer_does_not_overtake_a_granted_claim() -> None:
    """Ordering: between hand-over and wake-up a newcomer queues, and is served all the same."""
    stock = Stock()
    (first,) = stock.claims(1)
    await quiet()
    await stock.put("T1", "T2", "Q1")
    assert stock.numbers().granted == 1
    stock.inventory.put_q(await stock.envelope("Q2"))
    second = stock.claim()
    await second
    await first
    assert stock.pairs == [("T1", "Q1"), ("T2", "Q2")]


@pytest.mark.parametrize("fails", ["not at all", "raises", "is cancelled"])
async def test_the_lease_settles_both_whatever_happens(fails: str) -> None:
    """I3: on success, on an error, on a cancel, exactly once."""
    stock = Stock()
    await stock.put("T1", "Q1")

    async def use() -> None:
        async with stock.inventory.claim_pair():
            if fails == "raises":
                raise OSError(fails)
            await asyncio.sleep(5)

    task = asyncio.create_task(use())
    await quiet()
    if fails == "is cancelled":
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert stock.free() == (4, 4)
    assert stock.discarded == {"T1": 1, "Q1": 1}
    assert (stock.numbers().leased, stock.numbers().claimed) == (0, 1)


async def test_waiting_then_cancelled_touches_nothing() -> None:
    """I2: the stock is as if the claim had never been."""
    stock = Stock()
    await stock.put("T1")
    (claim,) = stock.claims(1)
    await quiet()
    before = stock.inventory.statistics()
    await ended(claim)
    now = stock.numbers()
    assert (now.t, now.q, before.waiting, now.waiting) == (before.t, before.q, 1, 0)
    assert (stock.discarded, stock.free()) == ({}, (3, 4))


async def test_a_granted_pair_goes_back_to_the_front() -> None:
    """I2: granted and cancelled before it ran: order kept, nothing burnt."""
    stock = Stock()
    (claim,) = stock.claims(1)
    await quiet()
    await stock.put("T1", "Q1", "T2", "Q2")
    claim.cancel()
    await quiet()
    assert claim.cancelled()
    now = stock.numbers()
    assert (now.t.stocked, now.q.stocked, now.granted, now.claimed) == (2, 2, 0, 0)
    assert stock.discarded == {}
    await stock.claim()
    await stock.claim()
    assert stock.pairs == [("T1", "Q1"), ("T2", "Q2")]


async def test_a_granted_pair_of_a_cancelled_claim_goes_to_the_next_in_line() -> None:
    """I2, I5 (defect row 9): a woken claim that is cancelled wakes the next."""
    stock = Stock()
    first, second = stock.claims(2)
    await quiet()
    await stock.put("T1", "Q1")
    first.cancel()
    await second
    assert first.cancelled()
    assert stock.pairs == [("T1", "Q1")]


async def test_notify_all_per_put() -> None:
    """Defect row 9: a put wakes at most as many claims as there are pairs, the oldest first."""
    stock = Stock()
    claims = stock.claims(5)
    await quiet()
    await stock.put("T1", "T2", "Q1")
    now = stock.numbers()
    assert (now.granted, now.waiting) == (1, 4)
    await stock.put("Q2")
    assert (stock.numbers().granted, stock.numbers().waiting) == (2, 3)
    await quiet()
    assert [claim.done() for claim in claims] == [True, True, False, False, False]
    await ended(*claims)


@pytest.mark.parametrize("whose", ["its own", "the inventory's"])
@pytest.mark.parametrize("when", ["before", "while it waits", "with the grant"])
async def test_a_stop_ends_a_claim(whose: str, when: str) -> None:
    """Stop beats grant; a pair that was granted is back in stock."""
    general, own = Stop(), Stop()
    stop = own if whose == "its own" else general
    stock = Stock(stop=general)
    if when == "before":
        await stock.put("T1", "Q1")
        stop.stop("enough")

    async def claim() -> None:
        async with stock.inventory.claim_pair(stop=own):
            pytest.fail("stop beats grant")

    task = asyncio.create_task(claim())
    await quiet()
    if when == "with the grant":
        await stock.put("T1", "Q1")
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await task
    now = stock.numbers()
    expected = 0 if when == "while it waits" else 1
    assert (now.t.stocked, now.q.stocked, now.granted, now.waiting) == (expected, expected, 0, 0)


async def test_what_is_put_after_the_stop_is_settled() -> None:
    """Defect row 11: and says *stopped*, not *admitted*."""
    stop = Stop()
    stock = Stock(stop=stop)
    stop.stop()
    assert await stock.put("T1", "Q1") == [Admission.STOPPED, Admission.STOPPED]
    assert (stock.free(), stock.discarded) == ((4, 4), {"T1": 1, "Q1": 1})


async def test_expired_put_looks_like_success() -> None:
    """Defect row 11: admitted, expired and stopped are told apart, and counted apart."""
    stock = Stock()
    fresh, old = await stock.envelope("T1", ttl=9), await stock.envelope("T2", ttl=1)
    await asyncio.sleep(2)
    assert stock.inventory.put_t(fresh) is Admission.ADMITTED
    assert stock.inventory.put_t(old) is Admission.EXPIRED
    now = stock.numbers()
    assert (now.t.admitted, now.t.expired_at_put, now.t.stocked) == (1, 1, 1)
    assert (stock.free(), stock.expired, old.owner) == ((3, 4), ["T2"], Owner.SETTLED)


@pytest.mark.parametrize("old", ["T", "Q"])
async def test_an_expired_item_is_never_paired(old: str) -> None:
    """I4: item 2 of 3 is expired; the survivors keep their order and the slots are exact."""
    stock = Stock()
    for number, ttl in ((1, 9.0), (2, 1.0), (3, None)):
        await stock.put(f"{old}{number}", ttl=ttl)
    await asyncio.sleep(2)
    other = "Q" if old == "T" else "T"
    await stock.put(f"{other}1", f"{other}2")
    await stock.claim()
    await stock.claim()
    taken = [pair["TQ".index(old)] for pair in stock.pairs]
    assert taken == [f"{old}1", f"{old}3"]
    assert (stock.expired, stock.discarded[f"{old}2"], stock.free()) == ([f"{old}2"], 1, (4, 4))
    now = stock.numbers()
    assert (now.t if old == "T" else now.q).expired_in_stock == 1


@pytest.mark.parametrize("event", ["put", "claim"])
async def test_nothing_is_cleaned_up_until_something_happens(event: str) -> None:
    """Lazy: the system may be silent; looking changes nothing; the next event cleans up."""
    stock = Stock()
    await stock.put("T1", "T2", "Q1", ttl=1)
    await asyncio.sleep(5)
    for _ in range(3):
        now = stock.numbers()
        assert (now.t.stocked, now.t.expired_in_place, now.q.expired_in_place) == (2, 2, 1)
    assert stock.expired == []
    claim = None
    if event == "put":
        await stock.put("T3")
    else:
        (claim,) = stock.claims(1)
        await quiet()
    now = stock.numbers()
    assert (now.t.expired_in_place, now.q.expired_in_place) == (0, 0)
    assert sorted(stock.expired) == ["Q1", "T1", "T2"]
    if claim is not None:
        await ended(claim)


async def test_silent_stall() -> None:
    """Defect row 7: a producer that waits for the slot of an item that will expire comes unstuck.

    By its own wait: no event comes, and no timer exists while nobody waits.
    """
    loop, stock = asyncio.get_running_loop(), Stock(t_slots=1)
    await stock.put("T1", ttl=10)
    await asyncio.sleep(1)
    await stock.put("T2")
    assert loop.time() == pytest.approx(10, abs=0.01)
    assert stock.expired == ["T1"]
    assert stock.numbers().t.stocked == 1


async def test_a_producer_takes_the_slot_of_what_is_expired_already() -> None:
    """Defect row 7: queueing for a slot triggers the clean-up, so there is nothing to wait for."""
    loop, stock = asyncio.get_running_loop(), Stock(q_slots=1)
    await stock.put("Q1", ttl=10)
    await asyncio.sleep(20)
    await stock.put("Q2")
    assert (loop.time(), stock.expired) == (20, ["Q1"])


async def test_two_producers_come_unstuck_one_after_the_other() -> None:
    """Defect row 7: the watch goes on while anybody waits."""
    loop, stock = asyncio.get_running_loop(), Stock(t_slots=2)
    await stock.put("T1", ttl=10)
    await stock.put("T2", ttl=20)
    tasks = [asyncio.create_task(stock.put(name)) for name in ("T3", "T4")]
    await tasks[0]
    assert loop.time() == pytest.approx(10, abs=0.01)
    await tasks[1]
    assert loop.time() == pytest.approx(20, abs=0.01)
    assert stock.expired == ["T1", "T2"]


async def test_no_timer_is_left_by_a_producer_that_went_away() -> None:
    """Nothing wakes the loop for nobody: what expires then stays in place."""
    stock = Stock(t_slots=1)
    await stock.put("T1", ttl=10)
    waiting = asyncio.create_task(stock.put("T2"))
    await quiet()
    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.sleep(50)
    assert stock.expired == []
    assert stock.numbers().t.expired_in_place == 1
    assert stock.discarded == {"T2": 1}


async def test_a_pair_ages_while_it_is_held() -> None:
    """Defect row 13: fresh at the claim is not fresh at the use."""
    stock = Stock()
    await stock.put("T1")
    await stock.put("Q1", ttl=3)
    async with stock.inventory.claim_pair() as pair:
        pair.ensure_fresh()
        await asyncio.sleep(3)
        pair.ensure_fresh()
        await asyncio.sleep(1)
        with pytest.raises(Expired, match="Q expired: 4 s old, allowed 3 s") as caught:
            pair.ensure_fresh()
    assert (caught.value.age, caught.value.ttl) == (4, 3)


async def test_lease_exit_awaits_after_releasing() -> None:
    """Defect row 14: two cancels into the exit; who waits for a slot of either side still wakes."""
    stock = Stock(t_slots=1, q_slots=1)
    await stock.put("T1", "Q1")
    user = asyncio.create_task(stock.claim(seconds=100))
    await quiet()
    waiting = [asyncio.create_task(stock.put(name)) for name in ("T2", "Q2")]
    await quiet()
    assert stock.free() == (0, 0)
    user.cancel()
    await turns(1)
    user.cancel()
    await asyncio.gather(*waiting)
    assert (stock.numbers().t.stocked, stock.numbers().q.stocked) == (1, 1)


async def test_put_waits_for_a_lock() -> None:
    """Defect rows 1 and 2: a put is one synchronous step, so no cancel can fall into it."""
    stock = Stock()
    envelope = await stock.envelope("T1")

    async def produce() -> Admission:
        asyncio.current_task().cancel()  # type: ignore[union-attr] # a coroutine of a task
        answer = stock.inventory.put_t(envelope)
        await asyncio.sleep(0)
        return answer

    task = asyncio.create_task(produce())
    await asyncio.wait({task})
    assert task.cancelled()
    assert (stock.numbers().t.stocked, stock.free(), envelope.owner) == (1, (3, 4), "inventory")


async def test_clearing_settles_what_is_left() -> None:
    """I6: and counts it as left over."""
    stock = Stock()
    await stock.put("T1", "T2", "Q1")
    assert stock.inventory.clear() == 3
    assert (stock.free(), stock.discarded) == ((4, 4), {"T1": 1, "T2": 1, "Q1": 1})
    now = stock.numbers()
    assert (now.t.left_over, now.q.left_over, now.t.stocked) == (2, 1, 0)
    assert stock.inventory.clear() == 0


async def test_looking_changes_nothing() -> None:
    """Statistics, checks and repr leave every figure as it was, expired items included."""
    stock = Stock()
    await stock.put("T1", "Q1", ttl=1)
    await asyncio.sleep(5)
    before = stock.numbers()
    assert repr(stock.inventory) == "<Inventory T 1, Q 1, 0 waiting, 0 leased>"
    assert stock.numbers() == before


async def test_the_books_notice_a_slot_that_is_missing() -> None:
    """The check is not for show: an envelope without its slot is found."""
    stock = Stock()
    envelope = await stock.envelope("T1")
    stock.inventory.put_t(envelope)
    slot, envelope._slot = envelope._slot, stock.t_slots.acquire_nowait()
    slot.release()
    envelope._slot.release()  # what no public call can do
    with pytest.raises(InvariantViolated, match="every envelope holds a slot"):
        stock.inventory.check_invariants()
    envelope._slot = stock.t_slots.acquire_nowait()
    stock.inventory.check_invariants()


async def test_listeners_hear_of_every_change() -> None:
    """Gate and supply live by it: put, claim, settle, clear."""
    stock, heard = Stock(), list[tuple[int, int]]()
    stock.inventory.subscribe(
        lambda: heard.append((stock.inventory.t_stock, stock.inventory.q_stock))
    )
    await stock.put("T1")
    assert heard[-1] == (1, 0)
    await stock.put("Q1")
    assert heard[-1] == (1, 1)
    async with stock.inventory.claim_pair():
        assert heard[-1] == (0, 0)
        count = len(heard)
    assert len(heard) > count
    await stock.put("T2")
    stock.inventory.clear()
    assert heard[-1] == (0, 0)


async def test_misuse_is_refused() -> None:
    """With what to do instead."""
    slots = Limiter(1, name="both")
    with pytest.raises(UsageError, match="two limiters"):
        Inventory(t_slots=slots, q_slots=slots)
    stock = Stock()
    with pytest.raises(UsageError, match="serves another inventory"):
        Inventory(t_slots=stock.t_slots, q_slots=Limiter(1, name="q"))
    lease: PairLease[str, str] = stock.inventory.claim_pair()
    with pytest.raises(UsageError, match="no pair yet"):
        _ = lease.t
    await stock.put("T1", "Q1", "T2", "Q2")
    async with lease:
        with pytest.raises(UsageError, match="for each pair"):
            async with lease:
                pass
    assert stock.numbers().claimed == 1
