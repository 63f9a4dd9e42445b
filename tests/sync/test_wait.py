"""wait_until and wait_until_or_stopped: the matrix of the contract, row by row.

Every row is run for both functions, and for a stop of our own and a foreign one. Rows
that speak of a stop have no meaning for `wait_until`.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from millpond._base import listening
from millpond.errors import UsageError
from millpond.sync import Notify, Stop, WaitOutcome, wait_until, wait_until_or_stopped
from tests.toolkit import (
    ForeignStop,
    HastyStop,
    RaisingStop,
    end,
    quiet,
    run_virtual,
    turns,
)

READY, STOPPED = WaitOutcome.READY, WaitOutcome.STOPPED
IDLE = "<Notify 0 armed, permit none>"
STORED = "<Notify 0 armed, permit stored>"
POINTS = ("before_arm", "after_arm")

AnyStop = Stop | ForeignStop


class Scene:
    """A state, its notification, a stop, and a wait on them."""

    def __init__(self, stop: AnyStop | None) -> None:
        self.notify = Notify()
        self.stop = stop
        self.ready = False
        self.looks = 0
        self.on_look: dict[int, Callable[[], object]] = {}

    def predicate(self) -> bool:
        """Read the state; a test may act just after look number n."""
        self.looks += 1
        seen = self.ready
        act = self.on_look.get(self.looks)
        if act is not None:
            act()
        return seen

    def wait(self) -> Awaitable[WaitOutcome]:
        """Wait with the function that this scene is about."""
        if self.stop is None:
            return self._until()
        return wait_until_or_stopped(self.notify, self.stop, self.predicate)

    async def _until(self) -> WaitOutcome:
        await wait_until(self.notify, self.predicate)
        return READY

    def start(self) -> asyncio.Task[WaitOutcome]:
        """Wait in a task of its own."""

        async def main() -> WaitOutcome:
            return await self.wait()

        return asyncio.create_task(main())

    def publish(self) -> None:
        """Make it ready: the state first, then the hint."""
        self.ready = True
        self.notify.notify_waiters()

    def publish_one(self) -> None:
        """The same with `notify_one`."""
        self.ready = True
        self.notify.notify_one()

    def ask_stop(self) -> None:
        """Ask for the stop."""
        assert self.stop is not None
        self.stop.stop()

    def check_nothing_left(self, permit: str = "none") -> None:
        """Nobody is armed, nobody hangs on the stop."""
        assert repr(self.notify) == f"<Notify 0 armed, permit {permit}>"
        if isinstance(self.stop, Stop):
            assert repr(self.stop).endswith("0 waiting>")
        elif self.stop is not None:
            assert self.stop.waiting == 0


@pytest.fixture(params=["until", "or_stopped", "or_stopped_foreign"])
def scene(request: pytest.FixtureRequest) -> Scene:
    """All three kinds of a wait."""
    stops = {"until": None, "or_stopped": Stop(), "or_stopped_foreign": ForeignStop()}
    return Scene(stops[request.param])


@pytest.fixture(params=[Stop, ForeignStop])
def stoppable(request: pytest.FixtureRequest) -> Scene:
    """The two kinds of a wait that a stop may end."""
    return Scene(request.param())


# --- Number one -------------------------------------------------------------------------


async def test_no_phantom_waiter(scene: Scene) -> None:
    """The recheck succeeds after arming; the next `notify_one` reaches a real waiter."""
    scene.on_look[1] = lambda: setattr(scene, "ready", True)
    assert await scene.wait() is READY
    assert scene.looks == 2
    scene.check_nothing_left()
    scene.ready = False
    task = scene.start()
    await quiet()
    scene.publish_one()
    assert await task is READY
    scene.check_nothing_left()


# --- The nine rows ----------------------------------------------------------------------


async def test_row_ready_before_the_wait(scene: Scene) -> None:
    """Returns at once: one look, no turn of the loop, nothing consumed."""
    scene.ready = True
    scene.notify.notify_one()
    coroutine = scene.wait().__await__()
    with pytest.raises(StopIteration) as returned:
        next(coroutine)
    assert returned.value.value is READY
    assert scene.looks == 1
    scene.check_nothing_left("stored")


async def test_row_stopped_before_the_wait(stoppable: Scene) -> None:
    """Returns at once, without asking the predicate."""
    stoppable.ask_stop()
    coroutine = stoppable.wait().__await__()
    with pytest.raises(StopIteration) as returned:
        next(coroutine)
    assert returned.value.value is STOPPED
    assert stoppable.looks == 0
    stoppable.check_nothing_left()


@pytest.mark.parametrize("how", ["publish", "publish_one"])
async def test_row_changes_between_first_check_and_arm(scene: Scene, how: str) -> None:
    """No lost wake-up: by the first look's own hook."""
    scene.on_look[1] = getattr(scene, how)
    assert await scene.wait() is READY
    assert scene.looks >= 2
    scene.check_nothing_left()


@pytest.mark.parametrize("how", ["publish", "publish_one"])
async def test_row_changes_after_arming(scene: Scene, how: str) -> None:
    """The notification wakes the sleeper: just after the recheck, and once it sleeps."""
    scene.on_look[2] = getattr(scene, how)
    assert await scene.wait() is READY
    assert scene.looks == 3
    scene.check_nothing_left()

    scene.ready = False
    task = scene.start()
    await quiet()
    assert not task.done()
    getattr(scene, how)()
    assert await task is READY
    scene.check_nothing_left()


async def test_row_stop_during_the_wait(stoppable: Scene) -> None:
    """Ends it within a few turns, and does not ask the predicate again."""
    task = stoppable.start()
    await quiet()
    looks = stoppable.looks
    stoppable.ask_stop()
    await turns(8)
    assert task.done()
    assert task.result() is STOPPED
    assert stoppable.looks == looks
    stoppable.check_nothing_left()


@pytest.mark.parametrize(
    "order", ["ready, notify, stop", "ready, stop, notify", "stop, ready, notify"]
)
@pytest.mark.parametrize("how", ["notify_one", "notify_waiters"])
async def test_row_change_and_stop_together(stoppable: Scene, order: str, how: str) -> None:
    """Stop beats ready, in every order; a `notify_one` goes on to somebody else."""
    task = stoppable.start()
    await quiet()
    for what in order.split(", "):
        if what == "ready":
            stoppable.ready = True
        elif what == "stop":
            stoppable.ask_stop()
        else:
            getattr(stoppable.notify, how)()
    assert await task is STOPPED
    stoppable.check_nothing_left("stored" if how == "notify_one" else "none")


async def test_row_many_waiters(scene: Scene) -> None:
    """All of them observe the one change."""
    tasks = [scene.start() for _ in range(20)]
    await quiet()
    scene.publish()
    assert await asyncio.gather(*tasks) == [READY] * 20
    scene.check_nothing_left()


@pytest.mark.parametrize("how", ["notify_one", "notify_waiters"])
async def test_row_false_notification(scene: Scene, how: str) -> None:
    """Looks again and sleeps on, ten times; then the real change."""
    task = scene.start()
    await quiet()
    for _ in range(10):
        looks = scene.looks
        getattr(scene.notify, how)()
        await quiet()
        assert not task.done()
        assert scene.looks > looks
    scene.publish()
    assert await task is READY
    scene.check_nothing_left()


async def test_row_repeated_stop(stoppable: Scene) -> None:
    """Idempotent, and a later waiter still sees it."""
    task = stoppable.start()
    await quiet()
    stoppable.ask_stop()
    stoppable.ask_stop()
    assert await task is STOPPED
    stoppable.ask_stop()
    assert await stoppable.wait() is STOPPED
    stoppable.check_nothing_left()


# --- The rows beyond --------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("how", ["publish", "publish_one"])
async def test_row_changes_exactly_at_a_point(scene: Scene, point: str, how: str) -> None:
    """Between check and arm, and between arm and recheck."""
    heard: list[str] = []

    def listener(name: str) -> None:
        heard.append(name)
        if heard.count(point) == 1 and name == point:
            getattr(scene, how)()

    with listening(listener):
        assert await scene.wait() is READY
    assert heard == list(POINTS)
    assert scene.looks == 2
    # After arming, the hint itself was not needed: a `notify_one` goes on.
    unused = how == "publish_one" and point == "after_arm"
    scene.check_nothing_left("stored" if unused else "none")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("ready_too", [False, True])
async def test_row_stop_exactly_at_a_point(stoppable: Scene, point: str, ready_too: bool) -> None:
    """Seen by the recheck, before the predicate is asked; stop beats ready there too."""

    def listener(name: str) -> None:
        if name == point:
            stoppable.ready = ready_too
            stoppable.ask_stop()

    with listening(listener):
        assert await stoppable.wait() is STOPPED
    assert stoppable.looks == 1
    stoppable.check_nothing_left()


async def test_row_ready_and_stopped_before_the_first_check(stoppable: Scene) -> None:
    """Stop wins at the first of the three points too."""
    stoppable.ready = True
    stoppable.ask_stop()
    assert await stoppable.wait() is STOPPED
    assert stoppable.looks == 0


@pytest.mark.parametrize("look", [1, 2])
async def test_stop_from_within_the_predicate_comes_with_the_next_check(
    stoppable: Scene, look: int
) -> None:
    """The wait does not sleep through a stop that the predicate itself asks for."""
    stoppable.on_look[look] = stoppable.ask_stop
    assert await stoppable.wait() is STOPPED
    assert stoppable.looks == look
    stoppable.check_nothing_left()


@pytest.mark.parametrize("order", ["notify, cancel", "cancel, notify"])
async def test_row_cancelled_right_beside_notify_one(scene: Scene, order: str) -> None:
    """R17: the next one gets it."""
    first, second = scene.start(), scene.start()
    await quiet()
    scene.ready = True
    for what in order.split(", "):
        if what == "cancel":
            first.cancel()
        else:
            scene.notify.notify_one()
    assert await second is READY
    await asyncio.wait([first])
    assert first.cancelled()
    scene.check_nothing_left()


@pytest.mark.parametrize("look", [1, 2, 3])
@pytest.mark.parametrize("permit", [False, True])
async def test_row_predicate_raises(scene: Scene, look: int, permit: bool) -> None:
    """At the first check, the recheck, after a wake-up: it passes through.

    The waiter is disarmed, and a `notify_one` that it had not acted on goes on.
    """

    def fail() -> None:
        msg = "cannot read the state"
        raise LookupError(msg)

    scene.on_look[look] = fail
    if permit:
        scene.notify.notify_one()
    task = scene.start()
    await quiet()
    if not task.done():
        scene.notify.notify_one()
    with pytest.raises(LookupError, match="cannot read the state"):
        await task
    kept = permit or look == 3
    scene.check_nothing_left("stored" if kept else "none")


async def test_row_publisher_in_a_real_thread(scene: Scene) -> None:
    """Publish, then hand the notification to the loop: never lost."""
    loop = asyncio.get_running_loop()

    def publish() -> None:
        scene.ready = True
        loop.call_soon_threadsafe(scene.notify.notify_waiters)

    for _ in range(20):
        scene.ready = False
        task = scene.start()
        thread = threading.Thread(target=publish)
        thread.start()
        assert await task is READY
        thread.join()
        await quiet()  # a hint that came late must not meet the next round's waiter unseen
    scene.check_nothing_left()


async def test_row_n_waiters_with_k_notify_one(scene: Scene) -> None:
    """Each hint brings one home, in the order in which they armed."""
    record: list[int] = []

    async def waiter(number: int) -> None:
        assert await scene.wait() is READY
        record.append(number)

    tasks = [asyncio.create_task(waiter(number)) for number in range(5)]
    await quiet()
    scene.ready = True
    for _ in range(3):
        scene.notify.notify_one()
    await quiet()
    assert record == [0, 1, 2]
    scene.notify.notify_one()
    scene.notify.notify_one()
    await asyncio.gather(*tasks)
    assert record == [0, 1, 2, 3, 4]
    scene.check_nothing_left()


async def test_row_no_spin_while_parked(scene: Scene) -> None:
    """Not one turn of the loop, and not one look, while nothing happens."""
    task = scene.start()
    await quiet()
    looks = scene.looks
    for _ in range(20):
        assert await quiet() == 1
    assert scene.looks == looks == 2
    await end(task)
    scene.check_nothing_left()


async def test_row_foreign_stop_that_raises() -> None:
    """Its error comes out of the wait; nothing stays armed."""
    scene = Scene(RaisingStop())
    with pytest.raises(OSError, match="the line is dead"):
        await scene.wait()
    assert repr(scene.notify) == IDLE


async def test_row_foreign_stop_that_raises_beside_a_notify_one() -> None:
    """In the same tick: the hint that the wait got and could not use goes on."""
    scene = Scene(RaisingStop())
    task = scene.start()
    await asyncio.sleep(0)  # it sleeps now; the signal's wait has not begun yet
    scene.notify.notify_one()
    with pytest.raises(OSError, match="the line is dead"):
        await task
    assert repr(scene.notify) == STORED


async def test_row_foreign_stop_whose_wait_ends_cancelled() -> None:
    """A mistake of the signal is told, once: no spin, no phantom."""

    class Cancelled(ForeignStop):
        async def wait_stopped(self) -> None:
            self.waits += 1
            inner = asyncio.get_running_loop().create_future()
            inner.cancel()
            await inner

    stop = Cancelled()
    scene = Scene(stop)
    with pytest.raises(UsageError, match="was cancelled from elsewhere"):
        await scene.wait()
    assert stop.waits == 1
    scene.check_nothing_left()


def test_row_foreign_stop_whose_wait_returns_too_early() -> None:
    """Looked at again, without spinning; a change is still seen at once."""

    async def main() -> None:
        stop = HastyStop()
        scene = Scene(stop)
        task = scene.start()
        await asyncio.sleep(60)
        assert not task.done()
        assert stop.waits < 75
        loop = asyncio.get_running_loop()
        before = loop.time()
        scene.publish()
        assert await task is READY
        assert loop.time() == before
        scene.check_nothing_left()

    run_virtual(main())


async def test_row_wait_dropped_and_restarted(scene: Scene) -> None:
    """100 times: nobody is left, and the 101st is served."""
    before = asyncio.all_tasks()
    for _ in range(100):
        task = scene.start()
        await turns(3)
        await end(task)
        assert task.cancelled()
        scene.check_nothing_left()
    assert asyncio.all_tasks() == before
    task = scene.start()
    await quiet()
    scene.publish_one()
    assert await task is READY
    scene.check_nothing_left()


async def test_only_a_foreign_stop_costs_a_task(scene: Scene) -> None:
    """And only while the wait sleeps."""
    before = asyncio.all_tasks()
    task = scene.start()
    await quiet()
    foreign = isinstance(scene.stop, ForeignStop)
    assert len(asyncio.all_tasks() - before) == (2 if foreign else 1)
    scene.publish()
    await task
    assert asyncio.all_tasks() == before


# --- A permit that the wait takes -------------------------------------------------------


async def test_a_stored_permit_for_a_state_that_is_not_there_comes_for_nothing(
    scene: Scene,
) -> None:
    """Taken at arming, it leads to one more look, and then to sleep: no spin."""
    scene.notify.notify_one()
    task = scene.start()
    await quiet()
    assert not task.done()
    assert scene.looks == 4  # check, recheck; check, recheck
    assert repr(scene.notify) == "<Notify 1 armed, permit none>"
    scene.publish_one()
    assert await task is READY
    scene.check_nothing_left()


async def test_a_permit_taken_at_arming_goes_on_when_stop_wins(stoppable: Scene) -> None:
    """Taken, then stopped before it could be acted on."""
    stoppable.notify.notify_one()

    def listener(name: str) -> None:
        if name == "after_arm":
            stoppable.ask_stop()

    with listening(listener):
        assert await stoppable.wait() is STOPPED
    stoppable.check_nothing_left("stored")


async def test_a_permit_taken_at_arming_is_used_when_the_recheck_holds(scene: Scene) -> None:
    """Ready and told so: nothing is passed on."""
    scene.notify.notify_one()
    scene.on_look[1] = lambda: setattr(scene, "ready", True)
    assert await scene.wait() is READY
    scene.check_nothing_left()


async def test_a_wake_up_that_finds_the_stop_passes_its_one_on(stoppable: Scene) -> None:
    """The hint woke it, but by then the stop holds."""
    task = stoppable.start()
    await quiet()
    stoppable.on_look[3] = stoppable.ask_stop  # the look after the first, false, hint
    stoppable.notify.notify_one()
    assert await task is STOPPED
    stoppable.check_nothing_left()


# --- Predicates -------------------------------------------------------------------------


async def test_a_predicate_that_returns_a_coroutine_is_refused(scene: Scene) -> None:
    """It would always be true; the coroutine is closed, so nothing else warns."""

    async def ready() -> bool:
        return True

    waiting: Awaitable[object]
    if scene.stop is None:
        waiting = wait_until(scene.notify, ready)
    else:
        waiting = wait_until_or_stopped(scene.notify, scene.stop, ready)
    with pytest.raises(UsageError, match=r"must be a plain function, but .*ready.* awaitable"):
        await waiting
    scene.check_nothing_left()


async def test_a_predicate_that_returns_a_future_is_refused() -> None:
    """Any awaitable, not only coroutines."""
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(UsageError, match="read the state synchronously"):
        await wait_until(Notify(), lambda: future)


async def test_a_predicate_may_return_anything_true() -> None:
    """A list, say; an empty one is false."""
    notify, items = Notify(), list[int]()
    task = asyncio.create_task(wait_until(notify, lambda: items))
    await quiet()
    assert not task.done()
    items.append(1)
    notify.notify_one()
    await task


@pytest.mark.parametrize("kind", [Stop, ForeignStop])
async def test_a_deadline_around_the_wait_ends_it_cleanly(kind: type[AnyStop]) -> None:
    """There is no timeout parameter: this is how."""
    scene = Scene(kind())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await scene.wait()
    scene.check_nothing_left()
