"""Cancel sweep over every wait: at every turn, in both orders, alone and with an heir.

As in test_sync_races.py: a victim waits, perhaps an heir behind it, and a publisher makes
one change, before or behind the victim in the ready queue. The victim is cancelled after k
turns, for every k until all is over: once, twice in one step, or again a turn later. What
the change brought is with the victim, with the heir, or still there; nobody waits any more.
"""

import asyncio
import gc
import itertools
import weakref
from collections.abc import Callable

import pytest

from millpond.errors import Closed, Stopped
from millpond.sync import Channel, Sequencer, Stop
from tests.sync.waits import CASES, AnyStop, Case, check_stop, made, start
from tests.toolkit import ForeignStop, end, quiet, turns

LAST_TURN = 6
"""By then the slowest wait is over; each sweep checks that it saw both ends."""

POSITIONS = list(
    itertools.product(
        range(LAST_TURN), range(LAST_TURN), ("publisher", "victim"), (1, 2, "again"), (False, True)
    )
)
"""Turn of the cancel, turn of the change, who is first in the queue, how often, an heir?"""

STOPS: dict[str, Callable[[], AnyStop | None]] = {
    "no stop": lambda: None,
    "stop": Stop,
    "foreign stop": ForeignStop,
}

SWEPT = [
    pytest.param(kind, make_stop, id=f"{name}-{stop}")
    for name, kind in CASES.items()
    for stop, make_stop in STOPS.items()
    if kind.takes_stop or stop == "no stop"
]

STOPPED = [
    pytest.param(kind, make_stop, id=f"{name}-{make_stop.__name__}")
    for name, kind in CASES.items()
    for make_stop in (Stop, ForeignStop)
    if kind.takes_stop
]


async def act_after(turn: int, act: Callable[[], None]) -> None:
    """Call *act* after *turn* turns."""
    await turns(turn)
    act()


def begin(
    case: Case, stop: AnyStop | None, turn: int, first: str
) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
    """Start a wait, and what it waits for after *turn* turns, in the order that was asked for."""
    if first == "victim":
        victim = start(case, stop)
    publisher = asyncio.create_task(act_after(turn, case.ready))
    if first != "victim":
        victim = start(case, stop)
    return victim, publisher


async def cancel_after(task: asyncio.Task[None], turn: int, times: object) -> None:
    """Cancel *task* after *turn* turns: once, twice in one step, or again a turn later."""
    await turns(turn)
    task.cancel()
    if times == 2:
        task.cancel()
    elif times == "again":
        await asyncio.sleep(0)
        task.cancel()


@pytest.mark.parametrize(("kind", "make_stop"), SWEPT)
@pytest.mark.deadline(30)
async def test_cancelled_at_any_turn_nothing_is_lost(
    kind: type[Case], make_stop: Callable[[], AnyStop | None]
) -> None:
    """R01, R03, R05, R17, R22, R27: one change, and exactly one who has it or finds it."""
    before = asyncio.all_tasks()
    cancelled = served = 0
    for cancel_turn, change_turn, first, times, with_heir in POSITIONS:
        case, stop = await made(kind), make_stop()
        victim, publisher = begin(case, stop, change_turn, first)
        heir = start(case, stop) if with_heir and case.serves in {"one", "all"} else None
        await cancel_after(victim, cancel_turn, times)
        await asyncio.wait([victim, publisher])
        victim_has_it = not victim.cancelled()
        if victim_has_it:
            served += 1
            await victim
        else:
            cancelled += 1
        await check_heir(case, heir, stop, victim_has_it=victim_has_it)
        await quiet()
        case.check_at_rest()
        check_stop(stop)
        assert asyncio.all_tasks() == before
    assert cancelled
    assert served


async def check_heir(
    case: Case, heir: asyncio.Task[None] | None, stop: AnyStop | None, *, victim_has_it: bool
) -> None:
    """Whoever waits after the victim, or behind it, has what the victim does not have."""
    shared = case.serves == "all"
    if heir is None:
        if not victim_has_it:
            await case.wait(stop)  # what was brought is there, without another change
        assert len(case.got) == 1
    elif victim_has_it and not shared:
        await quiet()
        assert not heir.done()
        await end(heir)
        assert len(case.got) == 1
    else:
        await heir
        assert len(case.got) == victim_has_it + 1


@pytest.mark.parametrize(("kind", "make_stop"), STOPPED)
@pytest.mark.deadline(30)
async def test_stopped_at_any_turn_nothing_is_lost(
    kind: type[Case], make_stop: Callable[[], AnyStop]
) -> None:
    """The same with a stop in place of the cancel, and with both in one step."""
    before = asyncio.all_tasks()
    stopped = served = 0
    for stop_turn, change_turn, first, times, _ in POSITIONS:
        if times == "again":
            continue
        case, stop = await made(kind), make_stop()
        victim, publisher = begin(case, stop, change_turn, first)
        await turns(stop_turn)
        stop.stop()
        if times == 2:
            victim.cancel()
        await asyncio.wait([victim, publisher])
        if victim.cancelled() or isinstance(victim.exception(), Stopped):
            stopped += 1
            await case.wait()
        else:
            served += 1
            await victim
        assert len(case.got) == 1
        await quiet()
        case.check_at_rest()
        check_stop(stop)
        assert asyncio.all_tasks() == before
    assert stopped
    assert served


class ClosingScene:
    """A channel of one place, two who use one side of it, and one who uses the other."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.channel: Channel[str] = Channel(1)
        self.stop = Stop()
        self.drained: list[str] = []
        if side != "recv":
            self.channel.send_nowait("old")

    async def use(self, stop: Stop | None) -> str:
        """Receive one, or send one."""
        if self.side == "recv":
            return await self.channel.recv(stop=stop)
        if self.side == "send":
            await self.channel.send("new", stop=stop)
        else:
            with await self.channel.reserve(stop=stop) as slot:
                slot.send("new")
        return "new"

    def change(self) -> None:
        """Send one, or make room for one."""
        if self.side != "recv":
            self.drained += self.channel.drain()
        elif not self.channel.statistics().closed:
            self.channel.send_nowait("new")

    async def check_over(self, tasks: list[asyncio.Task[str]]) -> None:
        """Nobody waits, nothing is reserved; what was sent was received, or is there, once."""
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        got = [value for value in ends if isinstance(value, str)]
        errors = {type(error) for error in ends if not isinstance(error, str)}
        assert errors <= {Closed, Stopped, asyncio.CancelledError}
        left = self.channel.drain()
        now = self.channel.statistics()
        assert (now.reserved, now.receivers, now.senders) == (0, 0, 0)
        if self.side == "recv":
            assert len([*got, *left]) <= 1
        else:
            assert [*self.drained, *left].count("new") == len(got)
        with pytest.raises(Closed):
            await self.channel.recv()
        check_stop(self.stop)


@pytest.mark.parametrize("ending", ["close", "close, stop", "stop, close", "close, cancel"])
@pytest.mark.parametrize("side", ["recv", "send", "reserve"])
async def test_a_channel_that_is_closed_at_any_turn_says_so_to_everybody(
    side: str, ending: str
) -> None:
    """C5, R26: beside a stop or a cancel of one who waits, in both orders."""
    for end_turn, change_turn, first in itertools.product(
        range(LAST_TURN), range(LAST_TURN), (False, True)
    ):
        scene = ClosingScene(side)
        if first:
            changing = asyncio.create_task(act_after(change_turn, scene.change))
        tasks = [asyncio.create_task(scene.use(scene.stop))]
        if not first:
            changing = asyncio.create_task(act_after(change_turn, scene.change))
        tasks.append(asyncio.create_task(scene.use(None)))
        await turns(end_turn)
        acts: dict[str, Callable[[], object]] = {
            "close": scene.channel.close,
            "stop": scene.stop.stop,
            "cancel": tasks[0].cancel,
        }
        for what in ending.split(", "):
            acts[what]()
        await changing
        await scene.check_over(tasks)


async def test_a_number_cancelled_at_any_turn_may_be_waited_for_again() -> None:
    """Q1: with a neighbour on each side, whose turns come in order all the same."""
    for cancel_turn, advance_turn, again_turn in itertools.product(range(LAST_TURN), repeat=3):
        line, record = Sequencer(), list[int]()

        async def work(number: int, line: Sequencer = line, record: list[int] = record) -> None:
            await line.wait_turn(number)
            record.append(number)
            line.advance(number)

        tasks = [asyncio.create_task(work(number)) for number in (3, 1, 2)]
        starting = asyncio.create_task(act_after(advance_turn, lambda line=line: line.advance(0)))  # type: ignore[misc] # bound early
        await turns(cancel_turn)
        tasks[2].cancel()
        await asyncio.wait([tasks[2], starting])
        await turns(again_turn)
        if tasks[2].cancelled():
            await work(2)
        await asyncio.gather(*tasks[:2])
        assert record == [1, 2, 3]
        assert line.statistics().waiting == ()


@pytest.mark.parametrize("ending", ["timeout", "cancel"])
@pytest.mark.parametrize("make_stop", [lambda: None, Stop], ids=["no stop", "stop"])
@pytest.mark.parametrize("kind", CASES.values(), ids=CASES)
async def test_300_waits_that_ran_out_of_time_leave_nothing(
    kind: type[Case], make_stop: Callable[[], AnyStop | None], ending: str
) -> None:
    """R25: no waiter by the primitive's own count, no future and no task by reference."""
    stop = make_stop()
    if stop is not None and not kind.takes_stop:
        return  # the table of the matrix says why
    case = await made(kind)
    seen: list[weakref.ref[asyncio.Task[None]]] = []

    async def once() -> None:
        task = start(case, stop)
        seen.append(weakref.ref(task))
        if ending == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await task
        else:
            await asyncio.sleep(0)
            await end(task)

    await once()
    await quiet()
    gc.collect()
    futures = count_futures()
    for _ in range(300):
        await once()
    assert case.waiting() == 0
    check_stop(stop)
    await quiet()
    gc.collect()
    assert not [task for task in seen if task() is not None]
    assert count_futures() <= futures
    case.check_at_rest()


def count_futures() -> int:
    """Return how many futures exist, tasks among them."""
    return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())


# --- Cases that cannot occur here


@pytest.mark.skip(reason="R18: no wait of ours takes a lock, so none is taken again on leaving")
def test_a_cancel_during_the_re_acquire() -> None:
    """R18: there is no `Condition`; its place is taken by state and `wait_until`."""


@pytest.mark.skip(reason="R31: nothing of ours shields a call, so no call outlives its limit")
def test_a_shielded_call_that_outlives_its_limit() -> None:
    """R31: a request that runs out of time is cancelled, and its end is awaited."""
