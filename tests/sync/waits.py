"""Every public wait in one form, so that one table of rows can be run over all of them.

A `Case` owns one primitive and brings it to where a wait has to wait. `ready` makes the
change that is waited for, the way the primitive's own publisher would; `hint` makes a
change that helps nobody; `waiting` asks the primitive how many it believes to wait.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from millpond.errors import Stopped
from millpond.flow import (
    AdmissionGate,
    Inventory,
    Limiter,
    Permit,
    ResourceEnvelope,
    Ticket,
    Watermarks,
)
from millpond.sync import (
    Broadcast,
    Channel,
    Latch,
    Notify,
    Oneshot,
    Sequencer,
    Slot,
    Stop,
    Subscription,
    WaitOutcome,
    Watch,
    WatchSubscription,
    wait_until,
    wait_until_or_stopped,
)
from tests.toolkit import ForeignStop

AnyStop = Stop | ForeignStop

MANY = 20
"""No row has more waiters at once."""


def armed(notify: Notify) -> int:
    """Return how many are armed on *notify*."""
    return int(repr(notify).split()[1])


class Case(ABC):
    """One primitive, and one way to wait for it."""

    takes_stop: ClassVar[bool] = True
    serves: ClassVar[str] = "one"
    """Whom a change serves: "one" waiter, "all", the next "number", or a "single" one ever."""

    def __init__(self) -> None:
        self.got: list[object] = []
        """What the waits that returned have got, in order."""

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Do what only a coroutine can do before the waits begin."""

    @abstractmethod
    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait, and take what there is in the step in which the wait returns."""

    @abstractmethod
    def ready(self) -> None:
        """Make the change that the next wait, or every wait, waits for."""

    @abstractmethod
    def hint(self) -> None:
        """Make a change after which everybody has to wait on. At most three times."""

    @abstractmethod
    def waiting(self) -> int:
        """Return how many wait, as the primitive sees it."""

    def give_back(self) -> None:  # noqa: B027 - most have nothing to give back
        """Return what the waits have got, and see that the books balance."""

    def check_at_rest(self) -> None:
        """Nobody waits, and after giving back nothing is out."""
        assert self.waiting() == 0
        self.give_back()


class HookedCase(Case):
    """A wait that is made of `wait_until`'s loop, so it has hook points."""

    notify: Notify
    """What the wait is armed on."""

    def waiting(self) -> int:
        """Return how many are armed."""
        return armed(self.notify)

    def hint(self) -> None:
        """Say "look again" for nothing."""
        self.notify.notify_waiters()


class PredicateCase(HookedCase):
    """A wait for a predicate, which tells when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.on_look: dict[int, Callable[[], object]] = {}

    def look(self) -> None:
        """Count a look; a test may act in look number n."""
        self.looks += 1
        act = self.on_look.get(self.looks)
        if act is not None:
            act()


class WaitUntil(PredicateCase):
    """`wait_until`."""

    takes_stop = False
    serves = "all"

    def __init__(self) -> None:
        super().__init__()
        self.notify = Notify()
        self.is_ready = False

    def predicate(self) -> bool:
        """Read the state, then let the test act: it comes just after the look."""
        seen = self.is_ready
        self.look()
        return seen

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for the predicate alone."""
        assert stop is None
        await wait_until(self.notify, self.predicate)
        self.got.append(True)

    def ready(self) -> None:
        """The state first, then the hint."""
        self.is_ready = True
        self.notify.notify_waiters()


class WaitUntilOrStopped(WaitUntil):
    """`wait_until_or_stopped`."""

    takes_stop = True

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Turn the outcome STOPPED into the error that the other waits raise."""
        outcome = await wait_until_or_stopped(self.notify, stop or Stop(), self.predicate)
        if outcome is WaitOutcome.STOPPED:
            raise Stopped
        self.got.append(True)


class LatchCase(HookedCase):
    """`Latch.wait_ready`."""

    serves = "all"

    def __init__(self) -> None:
        super().__init__()
        self.latch = Latch()
        self.notify = self.latch._changed

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait until it opens."""
        await self.latch.wait_ready(stop=stop)
        self.got.append(True)

    def ready(self) -> None:
        """Open it."""
        self.latch.mark_ready()


class OneshotCase(HookedCase):
    """`Oneshot.recv`."""

    serves = "single"

    def __init__(self) -> None:
        super().__init__()
        self.oneshot: Oneshot[str] = Oneshot()
        self.notify = self.oneshot._changed

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for the value."""
        self.got.append(await self.oneshot.recv(stop=stop))

    def ready(self) -> None:
        """Send it."""
        assert self.oneshot.send("value") is None


class BroadcastCase(HookedCase):
    """`Subscription.recv`: each wait has a subscription of its own."""

    serves = "all"

    def __init__(self) -> None:
        super().__init__()
        self.news: Broadcast[int] = Broadcast(4)
        self.notify = self.news._changed
        self.readers: list[Subscription[int]] = [self.news.subscribe() for _ in range(MANY + 5)]

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for the next value."""
        reader = self.readers.pop(0)
        try:
            self.got.append(await reader.recv(stop=stop))
        finally:
            self.readers.append(reader)

    def ready(self) -> None:
        """Send one value to all."""
        self.news.send(7)

    def hint(self) -> None:
        """Somebody else leaves, which wakes everybody."""
        self.news.subscribe().close()


class WatchChangedCase(HookedCase):
    """`WatchSubscription.changed`: each wait has a follower of its own."""

    serves = "all"

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch(0)
        self.notify = self.watch._changed
        self.followers: list[WatchSubscription[int]] = [
            self.watch.subscribe() for _ in range(MANY + 5)
        ]

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for a value that was not seen."""
        follower = self.followers.pop(0)
        try:
            await follower.changed(stop=stop)
            self.got.append(follower.borrow())
        finally:
            self.followers.append(follower)

    def ready(self) -> None:
        """Set a new value."""
        self.watch.modify(lambda value: value + 1)


class WatchForCase(PredicateCase):
    """`WatchSubscription.wait_for`."""

    serves = "all"

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch(0)
        self.notify = self.watch._changed

    def predicate(self, value: int) -> bool:
        """Want a positive value."""
        self.look()
        return value > 0

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for a value that fits."""
        self.got.append(await self.watch.subscribe().wait_for(self.predicate, stop=stop))

    def ready(self) -> None:
        """Set a value that fits."""
        self.watch.set(1)

    def hint(self) -> None:
        """Set one that does not."""
        self.watch.set(-1)


class LimiterCase(Case):
    """`Limiter.acquire`: all permits are out, and come back one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = Limiter(MANY)
        self.out: list[Permit] = []
        for _ in range(MANY):
            permit = self.limiter.acquire_nowait()
            permit.hand_over("the publisher")
            self.out.append(permit)

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Acquire one, and keep it."""
        permit = await self.limiter.acquire(stop=stop)
        permit.hand_over("the case")
        self.got.append(permit)
        self.out.append(permit)

    def ready(self) -> None:
        """Release one."""
        self.out[0].release()
        del self.out[0]

    def hint(self) -> None:
        """Serve the line, though nothing is free."""
        self.limiter.resize(MANY)

    def waiting(self) -> int:
        """Return how many queue."""
        return self.limiter.statistics().queued

    def give_back(self) -> None:
        """Everything is free again (F1)."""
        while self.out:
            self.out.pop().release()
        now = self.limiter.statistics()
        assert (now.free, now.held, now.granted) == (MANY, 0, 0)


class ClaimCase(Case):
    """`Inventory.claim_pair`."""

    def __init__(self) -> None:
        super().__init__()
        self.t_slots, self.q_slots = Limiter(MANY + 5), Limiter(MANY + 5)
        self.stock: Inventory[int, int] = Inventory(t_slots=self.t_slots, q_slots=self.q_slots)
        self.t: list[ResourceEnvelope[int]] = []
        self.q: list[ResourceEnvelope[int]] = []

    async def prepare(self) -> None:
        """Make the envelopes: a slot can only be waited for."""
        for number in range(MANY + 5):
            self.t.append(await ResourceEnvelope.create_with_slot(number, self.t_slots))
            self.q.append(await ResourceEnvelope.create_with_slot(number, self.q_slots))

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Claim a pair, and settle it."""
        async with self.stock.claim_pair(stop=stop) as pair:
            self.got.append((pair.t, pair.q))

    def ready(self) -> None:
        """Complete a pair."""
        if self.stock.t_stock == 0:
            self.stock.put_t(self.t[0])
            del self.t[0]
        self.stock.put_q(self.q[0])
        del self.q[0]

    def hint(self) -> None:
        """Half a pair is none."""
        self.stock.put_t(self.t.pop(0))

    def waiting(self) -> int:
        """Return how many claims are in line."""
        return self.stock.statistics().waiting

    def give_back(self) -> None:
        """Both ledgers balance, and all slots are free."""
        self.stock.check_invariants()
        self.stock.clear()
        for envelope in (*self.t, *self.q):
            envelope.release()
        self.t.clear()
        self.q.clear()
        for slots in (self.t_slots, self.q_slots):
            assert slots.statistics().free == MANY + 5


class GateCase(Case):
    """`AdmissionGate.admit_t`: as many are out as may be."""

    def __init__(self) -> None:
        super().__init__()
        marks = Watermarks(high=MANY, low=MANY)
        self.stock: Inventory[int, int] = Inventory(t_slots=Limiter(1), q_slots=Limiter(1))
        self.gate = AdmissionGate(self.stock, t=marks, q=marks)
        self.out: list[Ticket] = []

    async def prepare(self) -> None:
        """Take all tickets."""
        for _ in range(MANY):
            self.out.append(await self.gate.admit_t())

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Be let in, and keep the ticket."""
        ticket = await self.gate.admit_t(stop)
        self.got.append(ticket)
        self.out.append(ticket)

    def ready(self) -> None:
        """Give one back."""
        self.out[0].release()
        del self.out[0]

    def hint(self) -> None:
        """The stock tells of a change that changed nothing."""
        self.stock.clear()

    def waiting(self) -> int:
        """Return how many are held back."""
        return self.gate.statistics().t_waiting

    def give_back(self) -> None:
        """No ticket is out."""
        while self.out:
            self.out.pop().release()
        assert self.gate.statistics().t_out == 0


class RecvCase(Case):
    """`Channel.recv`."""

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel[int] = Channel()
        self.sent = 0

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Receive one."""
        self.got.append(await self.channel.recv(stop=stop))

    def ready(self) -> None:
        """Send one."""
        self.channel.send_nowait(self.sent)
        self.sent += 1

    def hint(self) -> None:
        """Reserve room, and do not use it."""
        self.channel.reserve_nowait().release()

    def waiting(self) -> int:
        """Return how many receivers wait."""
        return self.channel.statistics().receivers

    def give_back(self) -> None:
        """C2: every value was received once, or is still there; in order (C3)."""
        assert [*self.got, *self.channel.drain()] == list(range(self.sent))
        assert self.channel.statistics().reserved == 0


class SendCase(Case):
    """`Channel.send`: the channel is full, partly with slots."""

    HINTS = 3

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel[str] = Channel(MANY + self.HINTS)
        self.slots: list[Slot[str]] = [self.channel.reserve_nowait() for _ in range(self.HINTS)]
        for _ in range(MANY):
            self.channel.send_nowait("old")
        self.received: list[str] = []

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Send one more."""
        await self.channel.send("new", stop=stop)
        self.got.append("new")

    def ready(self) -> None:
        """Make room for one."""
        self.received.append(self.channel.recv_nowait())

    def hint(self) -> None:
        """Use up room that was reserved: there is no more of it than before."""
        self.slots.pop().send("old")

    def waiting(self) -> int:
        """Return how many senders wait."""
        return self.channel.statistics().senders

    def give_back(self) -> None:
        """C1, C2, C4: what was sent is there, what was not sent is not."""
        now = self.channel.statistics()
        assert now.buffered + now.reserved <= MANY + self.HINTS
        assert now.reserved == len(self.slots)
        while self.slots:
            self.slots.pop().send("old")
        everything = [*self.received, *self.channel.drain()]
        assert everything.count("old") == MANY + self.HINTS
        assert everything.count("new") == len(self.got)
        assert self.channel.statistics().reserved == 0


class ReserveCase(SendCase):
    """`Channel.reserve`."""

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Reserve, then send."""
        with await self.channel.reserve(stop=stop) as slot:
            slot.send("new")
        self.got.append("new")


class TurnCase(Case):
    """`Sequencer.wait_turn`: the waits take the numbers from 1 on; it is the turn of 0."""

    serves = "number"

    def __init__(self) -> None:
        super().__init__()
        self.line = Sequencer()
        self.turn = 0
        self.numbers = list(range(1, 1 + MANY + 5))

    async def wait(self, stop: AnyStop | None = None) -> None:
        """Wait for the next number's turn; a number that did not get it is waited for again."""
        number = self.numbers.pop(0)
        try:
            report = await self.line.wait_turn(number, stop)
        except BaseException:
            self.numbers.insert(0, number)
            raise
        self.got.append(report.sequence)

    def ready(self) -> None:
        """End the present turn."""
        self.line.advance(self.turn)
        self.turn += 1

    def hint(self) -> None:
        """The one in the way says what it does."""
        self.line.note(self.turn, "work")

    def waiting(self) -> int:
        """Return how many wait for their turn."""
        return len(self.line.statistics().waiting)


CASES: dict[str, type[Case]] = {
    "wait_until": WaitUntil,
    "wait_until_or_stopped": WaitUntilOrStopped,
    "Limiter.acquire": LimiterCase,
    "Inventory.claim_pair": ClaimCase,
    "AdmissionGate.admit_t": GateCase,
    "Channel.recv": RecvCase,
    "Channel.send": SendCase,
    "Channel.reserve": ReserveCase,
    "Subscription.recv": BroadcastCase,
    "Watch.changed": WatchChangedCase,
    "Watch.wait_for": WatchForCase,
    "Sequencer.wait_turn": TurnCase,
    "Latch.wait_ready": LatchCase,
    "Oneshot.recv": OneshotCase,
}


async def made(kind: type[Case]) -> Case:
    """Return a case of that kind, ready to be waited on."""
    case = kind()
    await case.prepare()
    return case


def start(case: Case, stop: AnyStop | None = None) -> asyncio.Task[None]:
    """Wait in a task of its own."""
    return asyncio.create_task(case.wait(stop))


def check_stop(stop: AnyStop | None) -> None:
    """Nobody hangs on *stop*."""
    if isinstance(stop, Stop):
        assert repr(stop).endswith("0 waiting>")
    elif stop is not None:
        assert stop.waiting == 0
