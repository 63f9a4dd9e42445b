"""The matrix: what can happen around a wait, for every public wait that has a loop of its own.

The rows are those of the contract (the first nine) and those that it lacks. A test's id is
its row and its wait; a row that cannot apply to a wait carries its reason in `REASONS`.
Stops are tried as our own and as a foreign one. The deadline of each test is the bound.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from millpond._base import listening
from millpond.errors import Stopped
from millpond.sync import Stop, publish_threadsafe
from tests.sync.waits import (
    CASES,
    MANY,
    AnyStop,
    Case,
    HookedCase,
    PredicateCase,
    WaitUntil,
    check_stop,
    made,
    start,
)
from tests.toolkit import ForeignStop, RaisingStop, end, quiet, turns

Row = Callable[[type[Case]], Awaitable[None]]
ROWS: dict[str, Row] = {}

POINTS = ("before_arm", "after_arm")
"""Between the first check and arming; between arming and the recheck."""

MOST_TURNS_TO_STOP = 8


def row(name: str) -> Callable[[Row], Row]:
    """Put a function into the table."""

    def put(function: Row) -> Row:
        ROWS[name] = function
        return function

    return put


def stops_of(kind: type[Case]) -> tuple[type[AnyStop] | None, ...]:
    """Return the stops with which *kind* can wait, none among them."""
    return (None, Stop, ForeignStop) if kind.takes_stop else (None,)


def finish_at_once(case: Case, stop: AnyStop | None = None) -> None:
    """Run a wait that must not suspend; raise what it raises."""
    waiting = case.wait(stop)
    try:
        waiting.send(None)
    except StopIteration:
        return
    waiting.close()
    pytest.fail("the wait suspended")


def act_once_at(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a listener that acts when *point* is reached for the first time."""
    acted: list[str] = []

    def listener(name: str) -> None:
        if name == point and not acted:
            acted.append(name)
            act()

    return listener


# --- The nine rows of the contract


@row("ready-before")
async def ready_before(kind: type[Case]) -> None:
    """State ready before the wait: it returns at once, without a turn of the loop."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        case.ready()
        finish_at_once(case, stop)
        assert len(case.got) == 1
        case.check_at_rest()
        check_stop(stop)


@row("terminal-before")
async def terminal_before(kind: type[Case]) -> None:
    """Stopped before the wait: it ends at once, with the reason."""
    for make_stop in (Stop, ForeignStop):
        case, stop = await made(kind), make_stop()
        stop.stop()
        with pytest.raises(Stopped):
            finish_at_once(case, stop)
        assert not case.got
        case.check_at_rest()


@row("change-between-check-and-arm")
async def change_between_check_and_arm(kind: type[Case]) -> None:
    """No lost wake-up: by the hook point between the two."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        with listening(act_once_at("before_arm", case.ready)):
            finish_at_once(case, stop)
        assert len(case.got) == 1
        case.check_at_rest()
        check_stop(stop)


@row("change-after-arming")
async def change_after_arming(kind: type[Case]) -> None:
    """The notification wakes the sleeper."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        task = start(case, stop)
        await quiet()
        assert not task.done()
        assert case.waiting() == 1
        case.ready()
        await task
        assert len(case.got) == 1
        case.check_at_rest()
        check_stop(stop)


@row("stop-during")
async def stop_during(kind: type[Case]) -> None:
    """Ends the wait within a few turns of the loop; nothing is consumed."""
    for make_stop in (Stop, ForeignStop):
        case, stop = await made(kind), make_stop()
        task = start(case, stop)
        await quiet()
        stop.stop()
        await turns(MOST_TURNS_TO_STOP)
        assert task.done()
        with pytest.raises(Stopped):
            await task
        assert not case.got
        assert case.waiting() == 0
        case.ready()
        finish_at_once(case)
        case.check_at_rest()
        check_stop(stop)


@row("change-and-stop-together")
async def change_and_stop_together(kind: type[Case]) -> None:
    """Stop beats ready, in both orders; what was granted goes to the next wait."""
    for make_stop in (Stop, ForeignStop):
        for order in ("ready, stop", "stop, ready"):
            case, stop = await made(kind), make_stop()
            task = start(case, stop)
            await quiet()
            for what in order.split(", "):
                if what == "ready":
                    case.ready()
                else:
                    stop.stop()
            with pytest.raises(Stopped):
                await task
            assert not case.got
            finish_at_once(case)
            assert len(case.got) == 1
            case.check_at_rest()
            check_stop(stop)


@row("many-waiters")
async def many_waiters(kind: type[Case]) -> None:
    """Every waiter observes the state, or gets its own part of it; none twice."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        tasks = [start(case, stop) for _ in range(MANY)]
        await quiet()
        assert case.waiting() == MANY
        if case.serves == "all":
            case.ready()
        elif case.serves == "one":
            for _ in range(MANY):
                case.ready()
        else:
            for count in range(1, MANY + 1):
                case.ready()
                await quiet()
                assert len(case.got) == count
        await asyncio.gather(*tasks)
        assert len(case.got) == MANY
        case.check_at_rest()
        check_stop(stop)


@row("false-notification")
async def false_notification(kind: type[Case]) -> None:
    """A change that helps nobody: looked at, and waited on; then the real one."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        task = start(case, stop)
        await quiet()
        for _ in range(3):
            case.hint()
            await quiet()
            assert not task.done()
            assert case.waiting() == 1
        case.ready()
        await task
        case.check_at_rest()
        check_stop(stop)


@row("repeated-stop")
async def repeated_stop(kind: type[Case]) -> None:
    """Idempotent; a wait that begins later still sees it."""
    for make_stop in (Stop, ForeignStop):
        case, stop = await made(kind), make_stop()
        task = start(case, stop)
        await quiet()
        stop.stop()
        stop.stop()
        with pytest.raises(Stopped):
            await task
        stop.stop()
        with pytest.raises(Stopped):
            finish_at_once(case, stop)
        case.check_at_rest()
        check_stop(stop)


# --- The rows beyond


@row("change-between-arm-and-recheck")
async def change_between_arm_and_recheck(kind: type[Case]) -> None:
    """Seen by the recheck; nothing stays armed behind a wait that returned early."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        with listening(act_once_at("after_arm", case.ready)):
            finish_at_once(case, stop)
        assert len(case.got) == 1
        case.check_at_rest()
        check_stop(stop)


@row("stop-between-check-and-arm")
async def stop_between_check_and_arm(kind: type[Case]) -> None:
    """Seen by the recheck, ready or not."""
    await _stop_at("before_arm", kind)


@row("stop-between-arm-and-recheck")
async def stop_between_arm_and_recheck(kind: type[Case]) -> None:
    """The same behind the arming."""
    await _stop_at("after_arm", kind)


async def _stop_at(point: str, kind: type[Case]) -> None:
    for make_stop in (Stop, ForeignStop):
        for ready_too in (False, True):
            case, stop = await made(kind), make_stop()

            def act(case: Case = case, stop: AnyStop = stop, ready_too: bool = ready_too) -> None:
                if ready_too:
                    case.ready()
                stop.stop()

            with listening(act_once_at(point, act)), pytest.raises(Stopped):
                finish_at_once(case, stop)
            assert not case.got
            assert case.waiting() == 0
            if not ready_too:
                case.ready()
            finish_at_once(case)
            case.check_at_rest()
            check_stop(stop)


@row("ready-and-stopped-before")
async def ready_and_stopped_before(kind: type[Case]) -> None:
    """Stop beats ready at the first check too; what is there stays for the next."""
    for make_stop in (Stop, ForeignStop):
        case, stop = await made(kind), make_stop()
        case.ready()
        stop.stop()
        with pytest.raises(Stopped):
            finish_at_once(case, stop)
        assert not case.got
        finish_at_once(case)
        case.check_at_rest()


@row("change-in-the-turn-of-the-wait")
async def change_in_the_turn_of_the_wait(kind: type[Case]) -> None:
    """Wait and change begin in the same turn, in both orders in the ready queue."""
    loop = asyncio.get_running_loop()
    for make_stop in stops_of(kind):
        for change_first in (False, True):
            case = await made(kind)
            stop = make_stop() if make_stop else None
            if change_first:
                loop.call_soon(case.ready)
            task = start(case, stop)
            if not change_first:
                loop.call_soon(case.ready)
            await task
            assert len(case.got) == 1
            case.check_at_rest()
            check_stop(stop)


@row("dropped-and-restarted")
async def dropped_and_restarted(kind: type[Case]) -> None:
    """100 times: nobody is left each time, and the next one is served."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        before = asyncio.all_tasks()
        for _ in range(100):
            task = start(case, stop)
            await turns(3)
            await end(task)
            assert task.cancelled()
            assert case.waiting() == 0
            check_stop(stop)
        assert asyncio.all_tasks() == before
        task = start(case, stop)
        await quiet()
        case.ready()
        await task
        case.check_at_rest()


@row("cancelled-beside-the-change")
async def cancelled_beside_the_change(kind: type[Case]) -> None:
    """R17, R28: in one tick, in both orders: the cancel comes out, the next one has it."""
    for make_stop in stops_of(kind):
        for order in ("change, cancel", "cancel, change"):
            case = await made(kind)
            stop = make_stop() if make_stop else None
            first, second = start(case, stop), start(case, stop)
            await quiet()
            for what in order.split(", "):
                if what == "cancel":
                    first.cancel()
                else:
                    case.ready()
            await second
            await asyncio.wait([first])
            assert first.cancelled()
            assert len(case.got) == 1
            case.check_at_rest()
            check_stop(stop)


@row("predicate-raises")
async def predicate_raises(kind: type[Case]) -> None:
    """At the first check, the recheck, after a wake-up: it passes through, nobody is armed."""

    def fail() -> None:
        msg = "cannot read the state"
        raise LookupError(msg)

    for make_stop in stops_of(kind):
        for look in (1, 2, 3):
            case = await made(kind)
            assert isinstance(case, PredicateCase)
            stop = make_stop() if make_stop else None
            case.on_look[look] = fail
            task = start(case, stop)
            await quiet()
            assert task.done() == (look < 3)
            case.hint()
            with pytest.raises(LookupError, match="cannot read the state"):
                await task
            case.check_at_rest()
            check_stop(stop)


@row("publisher-in-a-thread")
async def publisher_in_a_thread(kind: type[Case]) -> None:
    """A real thread hands the change to the loop."""
    loop = asyncio.get_running_loop()
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        task = start(case, stop)
        if isinstance(case, WaitUntil):
            arguments = (loop, lambda case=case: setattr(case, "is_ready", True), case.notify)
            thread = threading.Thread(target=publish_threadsafe, args=arguments)
        else:
            thread = threading.Thread(target=loop.call_soon_threadsafe, args=(case.ready,))
        thread.start()
        await task
        thread.join()
        case.check_at_rest()
        check_stop(stop)


@row("n-waiters-k-changes")
async def n_waiters_k_changes(kind: type[Case]) -> None:
    """Each change brings one home, in the order in which they came."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        record: list[int] = []

        async def waiter(
            number: int,
            case: Case = case,
            stop: AnyStop | None = stop,
            record: list[int] = record,
        ) -> None:
            await case.wait(stop)
            record.append(number)

        tasks = [asyncio.create_task(waiter(number)) for number in range(5)]
        await quiet()
        for _ in range(3):
            _change_for_one(case)
        await quiet()
        assert record == [0, 1, 2]
        assert case.waiting() == 2
        for _ in range(2):
            _change_for_one(case)
        await asyncio.gather(*tasks)
        assert record == [0, 1, 2, 3, 4]
        case.check_at_rest()
        check_stop(stop)


def _change_for_one(case: Case) -> None:
    if isinstance(case, WaitUntil):
        case.is_ready = True
        case.notify.notify_one()
    else:
        case.ready()


@row("fast-return-leaves-nothing")
async def fast_return_leaves_nothing(kind: type[Case]) -> None:
    """After a wait that returned without sleeping, nobody is armed; a later one is served."""
    for make_stop in stops_of(kind):
        for point in POINTS if issubclass(kind, HookedCase) else ("none",):
            case = await made(kind)
            stop = make_stop() if make_stop else None
            with listening(act_once_at(point, case.ready)):
                if point == "none":
                    case.ready()
                finish_at_once(case, stop)
            assert case.waiting() == 0
            case.check_at_rest()
            check_stop(stop)


@row("foreign-stop-raises")
async def foreign_stop_raises(kind: type[Case]) -> None:
    """Its error comes out of the wait; nobody waits on, nothing is lost."""
    for change_too in (False, True):
        case, stop = await made(kind), RaisingStop()
        task = start(case, stop)
        await asyncio.sleep(0)  # it sleeps now; the signal's own wait has not begun
        if change_too:
            case.ready()
        with pytest.raises(OSError, match="the line is dead"):
            await task
        assert case.waiting() == 0
        if not change_too:
            case.ready()
        finish_at_once(case)
        case.check_at_rest()


@row("foreign-stop-cannot-be-asked")
async def foreign_stop_cannot_be_asked(kind: type[Case]) -> None:
    """After the change woke the wait: the error comes out, the change is for the next one."""
    case, stop = await made(kind), BreakingStop()
    task = start(case, stop)
    await quiet()
    stop.broken = True
    case.ready()
    with pytest.raises(OSError, match="nobody answers"):
        await task
    assert case.waiting() == 0
    finish_at_once(case)
    assert len(case.got) == 1
    case.check_at_rest()
    check_stop(stop)


class BreakingStop(ForeignStop):
    """A foreign signal that cannot be asked any more."""

    broken = False

    def is_stopped(self) -> bool:
        """Fail, once it is broken."""
        if self.broken:
            msg = "nobody answers"
            raise OSError(msg)
        return super().is_stopped()


@row("no-spin")
async def no_spin(kind: type[Case]) -> None:
    """Not one turn of the loop while nothing happens."""
    for make_stop in stops_of(kind):
        case = await made(kind)
        stop = make_stop() if make_stop else None
        task = start(case, stop)
        await quiet()
        for _ in range(20):
            assert await quiet() == 1
        await end(task)
        case.check_at_rest()
        check_stop(stop)


# --- What does not apply, and why

NO_STOP = "takes no stop: `wait_until` waits for the predicate alone"
NO_HOOK = (
    "looks and joins the line in one synchronous step, so nothing can come in between; the"
    " nearest there is, a change in the same turn, is the row change-in-the-turn-of-the-wait"
)
NO_PREDICATE = "takes no predicate"
NO_SECOND = "one value for one receiver; what a second one is told is in test_oneshot.py"
SERVES_ALL = "one change serves every waiter, so changes cannot be counted: many-waiters"
BY_NUMBER = (
    "a turn belongs to its number and nobody inherits it; that a cancelled number can be"
    " waited for again is in test_sequencer.py and in the sweep"
)
TURNS_END = "a turn ends when its owner advances, so k changes at once would be out of turn"

WITHOUT_HOOKS = [name for name, kind in CASES.items() if not issubclass(kind, HookedCase)]
WITHOUT_PREDICATE = [name for name, kind in CASES.items() if not issubclass(kind, PredicateCase)]
STOP_ROWS = (
    "terminal-before",
    "stop-during",
    "change-and-stop-together",
    "repeated-stop",
    "stop-between-check-and-arm",
    "stop-between-arm-and-recheck",
    "ready-and-stopped-before",
    "foreign-stop-raises",
    "foreign-stop-cannot-be-asked",
)
HOOK_ROWS = (
    "change-between-check-and-arm",
    "change-between-arm-and-recheck",
    "stop-between-check-and-arm",
    "stop-between-arm-and-recheck",
)
COUNT = "n-waiters-k-changes"
OVER_ALL = ("Subscription.recv", "Watch.changed", "Watch.wait_for", "Latch.wait_ready")

REASONS: dict[tuple[str, str], str] = {
    **{(name, "wait_until"): NO_STOP for name in STOP_ROWS},
    **{(name, wait): NO_HOOK for name in HOOK_ROWS for wait in WITHOUT_HOOKS},
    **{("predicate-raises", wait): NO_PREDICATE for wait in WITHOUT_PREDICATE},
    **{(COUNT, wait): SERVES_ALL for wait in OVER_ALL},
    (COUNT, "Sequencer.wait_turn"): TURNS_END,
    (COUNT, "Oneshot.recv"): NO_SECOND,
    ("many-waiters", "Oneshot.recv"): NO_SECOND,
    ("cancelled-beside-the-change", "Sequencer.wait_turn"): BY_NUMBER,
}
"""Row and wait: why the one has no meaning for the other."""

NINE = 9
TABLE = [
    pytest.param(function, kind, id=f"{name}-{wait}")
    for name, function in ROWS.items()
    for wait, kind in CASES.items()
    if (name, wait) not in REASONS
]


@pytest.mark.parametrize(("function", "kind"), TABLE)
async def test_row(function: Row, kind: type[Case]) -> None:
    """What the function of the row says, for this wait."""
    await function(kind)


def test_the_table_is_complete() -> None:
    """Every row and wait has either a test or a reason, and no reason is about nothing."""
    pairs = {(name, wait) for name in ROWS for wait in CASES}
    assert REASONS.keys() <= pairs
    tested = {str(entry.id) for entry in TABLE}
    excused = {f"{name}-{wait}" for name, wait in REASONS}
    assert tested | excused == {f"{name}-{wait}" for name, wait in pairs}
    assert not tested & excused
    assert all(reason.strip() for reason in REASONS.values())


def test_the_rows_of_the_contract_come_first() -> None:
    """All nine, in its order; more than half of them apply to every wait."""
    assert list(ROWS)[:NINE] == [
        "ready-before",
        "terminal-before",
        "change-between-check-and-arm",
        "change-after-arming",
        "stop-during",
        "change-and-stop-together",
        "many-waiters",
        "false-notification",
        "repeated-stop",
    ]
