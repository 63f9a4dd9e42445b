"""AdmissionGate: hysteresis between fixed marks, and tickets that come back (G1-G3)."""

import asyncio
from collections.abc import Iterator
from typing import ClassVar

import pytest

from millpond.errors import AlreadyReleased, Stopped
from millpond.flow import AdmissionGate, Inventory, Limiter, ResourceEnvelope, Ticket, Watermarks
from millpond.sync import Stop
from tests.flow.conftest import quiet

pytestmark = pytest.mark.virtual_time


class Yard:
    """An inventory behind a gate."""

    opened: ClassVar[list["Yard"]] = []

    def __init__(self, t: tuple[int, int] = (6, 3), q: tuple[int, int] = (4, 1)) -> None:
        self.t_slots, self.q_slots = Limiter(20, name="t"), Limiter(20, name="q")
        self.inventory: Inventory[str, str] = Inventory(t_slots=self.t_slots, q_slots=self.q_slots)
        self.gate = AdmissionGate(
            self.inventory,
            t=Watermarks(high=t[0], low=t[1]),
            q=Watermarks(high=q[0], low=q[1]),
        )

        self.opened.append(self)

    async def produce_t(self, count: int = 1) -> None:
        """Put *count* T through the gate."""
        for _ in range(count):
            with await self.gate.admit_t():
                envelope = await ResourceEnvelope.create_with_slot("T", self.t_slots)
                self.inventory.put_t(envelope)

    async def produce_q(self, count: int = 1) -> None:
        """Put *count* Q into the stock, past the gate."""
        for _ in range(count):
            self.inventory.put_q(await ResourceEnvelope.create_with_slot("Q", self.q_slots))

    async def consume(self) -> None:
        """Take one pair out."""
        async with self.inventory.claim_pair():
            pass


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    """After each test all tickets are back; what is in stock leaves."""
    yield
    while Yard.opened:
        yard = Yard.opened.pop()
        yard.inventory.clear()
        now = yard.gate.statistics()
        assert (now.t_out, now.q_out, now.t_waiting, now.q_waiting) == (0, 0, 0, 0)


async def test_it_blocks_at_high_and_resumes_at_low() -> None:
    """G1, G2: six pass at 6/3, the seventh waits at 4 still, and at 3 three pass at once."""
    yard = Yard()
    await yard.produce_t(6)
    waiting = [asyncio.create_task(yard.gate.admit_t()) for _ in range(5)]
    await quiet()
    await yard.produce_q(3)
    for stock in (5, 4):
        await yard.consume()
        await quiet()
        assert yard.inventory.t_stock == stock
        assert not any(task.done() for task in waiting)
    await yard.consume()
    await quiet()
    assert [task.done() for task in waiting] == [True, True, True, False, False]
    now = yard.gate.statistics()
    assert (now.t_out, now.t_waiting, now.t_paused) == (3, 2, True)
    for task in waiting[:3]:
        task.result().release()
    for task in waiting[3:]:
        (await task).release()
    assert yard.gate.statistics().t_out == 0


async def test_reaching_high_unseen_does_not_pause_t() -> None:
    """T pauses when a producer finds it at the mark, not before: here the stock fell in between."""
    yard = Yard(t=(2, 0))
    await yard.produce_t(2)
    await yard.produce_q(1)
    await yard.consume()
    assert not yard.gate.statistics().t_paused
    (await yard.gate.admit_t()).release()


async def test_q_pauses_in_the_moment_it_reaches_high() -> None:
    """G2: the last grant pauses the side, although nobody looked since."""
    yard = Yard(q=(4, 1))
    tickets = [await yard.gate.admit_q() for _ in range(4)]
    assert yard.gate.statistics().q_paused
    waiting = asyncio.create_task(yard.gate.admit_q())
    await quiet()
    tickets.pop().release()
    tickets.pop().release()
    await quiet()
    assert not waiting.done()
    tickets.pop().release()
    await quiet()
    assert waiting.done()
    for ticket in (*tickets, waiting.result()):
        ticket.release()


async def test_stock_and_work_under_way_count_together() -> None:
    """G1: T in stock + being produced; Q in stock + in flight."""
    yard = Yard(t=(2, 1), q=(2, 1))
    await yard.produce_t()
    await yard.produce_q()
    t, q = await yard.gate.admit_t(), await yard.gate.admit_q()
    waiting = [asyncio.create_task(yard.gate.admit_t()), asyncio.create_task(yard.gate.admit_q())]
    await quiet()
    assert not any(task.done() for task in waiting)
    t.release()
    q.release()
    for task in waiting:
        (await task).release()


async def test_admission_is_first_come_first_served() -> None:
    """Ordering, and a newcomer does not overtake a ticket that is under way."""
    yard = Yard(t=(1, 0))
    order: list[int] = []

    async def produce(number: int) -> None:
        with await yard.gate.admit_t():
            order.append(number)
            await asyncio.sleep(0)

    first = await yard.gate.admit_t()
    tasks = [asyncio.create_task(produce(number)) for number in range(3)]
    await quiet()
    first.release()
    late = asyncio.create_task(produce(3))
    await asyncio.gather(*tasks, late)
    assert order == [0, 1, 2, 3]


async def test_a_ticket_comes_back_once() -> None:
    """G3: the second release is an error, and lets nobody in."""
    yard = Yard(t=(1, 0))
    ticket = await yard.gate.admit_t()
    ticket.release()
    with pytest.raises(AlreadyReleased):
        ticket.release()
    assert yard.gate.t_out == 0


@pytest.mark.parametrize("moment", ["while it waits", "after the grant"])
async def test_async_release_that_marks_first(moment: str) -> None:
    """G3 (defect row 3): two cancels, and the count returns to 0 and the next producer passes."""
    yard = Yard(t=(1, 0))
    first = await yard.gate.admit_t()
    waiting = asyncio.create_task(yard.gate.admit_t())
    next_one = asyncio.create_task(yard.gate.admit_t())
    await quiet()
    if moment == "after the grant":
        first.release()
    waiting.cancel()
    waiting.cancel()
    if moment == "while it waits":
        await quiet()
        first.release()
    ticket = await next_one
    assert waiting.cancelled()
    assert yard.gate.t_out == 1
    ticket.release()
    assert yard.gate.statistics().t_out == 0


@pytest.mark.parametrize("when", ["before", "while it waits", "with the grant"])
async def test_a_stop_ends_the_wait(when: str) -> None:
    """Stop beats grant, and a granted ticket goes back."""
    yard, stop = Yard(t=(1, 0), q=(1, 0)), Stop()
    tickets = [await yard.gate.admit_t(), await yard.gate.admit_q()]
    if when == "before":
        stop.stop("enough")
    tasks: list[asyncio.Task[Ticket]] = [
        asyncio.create_task(yard.gate.admit_t(stop)),
        asyncio.create_task(yard.gate.admit_q(stop)),
    ]
    await quiet()
    if when == "with the grant":
        for ticket in tickets:
            ticket.release()
    stop.stop("enough")
    for task in tasks:
        with pytest.raises(Stopped, match="enough"):
            await task
    if when != "with the grant":
        for ticket in tickets:
            ticket.release()
    now = yard.gate.statistics()
    assert (now.t_out, now.q_out, now.t_waiting, now.q_waiting) == (0, 0, 0, 0)


async def test_expiry_lets_producers_in() -> None:
    """The stock falls by expiry too, as soon as an event cleans up."""
    yard = Yard(t=(1, 0))
    yard.inventory.put_t(await ResourceEnvelope.create_with_slot("T", yard.t_slots, ttl=1))
    waiting = asyncio.create_task(yard.gate.admit_t())
    await asyncio.sleep(2)
    assert not waiting.done()
    await yard.produce_q()
    (await waiting).release()


@pytest.mark.parametrize(("high", "low"), [(0, 0), (1, 2), (1, -1), (-1, -1)])
def test_marks_that_make_no_sense_are_refused(high: int, low: int) -> None:
    """0 <= low <= high and high >= 1."""
    with pytest.raises(ValueError, match="0 <= low <= high"):
        Watermarks(high=high, low=low)
