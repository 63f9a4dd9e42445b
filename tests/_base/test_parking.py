"""park, pause, either: how a caller sleeps, and what it leaves behind: nothing."""

import asyncio
import gc

import pytest

from millpond._base import (
    Parked,
    StopSignal,
    either,
    listening,
    park,
    pause,
    reach,
    reason_of,
    wake,
)
from millpond.errors import UsageError
from millpond.sync import Stop
from tests.toolkit import (
    ForeignStop,
    HastyStop,
    RaisingStop,
    end,
    loop_errors,
    quiet,
    run_virtual,
    timers,
)


def parked_future() -> Parked:
    """Return a future to park on."""
    return asyncio.get_running_loop().create_future()


async def test_wake_completes_once() -> None:
    """Whoever comes second changes nothing."""
    parked = parked_future()
    wake(parked)
    wake(parked)
    assert parked.result() is None


def test_pause_lasts_as_long_as_it_says() -> None:
    """In virtual time, to the second."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await pause(7.5)
        return loop.time() - before

    assert run_virtual(main()) == pytest.approx(7.5)


@pytest.mark.parametrize("kind", [Stop, ForeignStop])
async def test_a_stop_ends_a_pause(kind: type[Stop | ForeignStop]) -> None:
    """Before it, and during it; nothing stays attached, no timer stays set."""
    stop = kind()
    before = timers()
    task = asyncio.create_task(pause(3600, stop))
    await quiet()
    assert not task.done()
    assert timers() == before + 1
    stop.stop()
    await task
    await pause(3600, stop)
    assert timers() == before
    if isinstance(stop, Stop):
        assert repr(stop).endswith("0 waiting>")
    else:
        assert stop.waiting == 0


async def test_a_cancelled_pause_leaves_nothing() -> None:
    """Neither a timer nor an attachment."""
    stop = Stop()
    before = timers()
    task = asyncio.create_task(pause(3600, stop))
    await quiet()
    await end(task)
    assert timers() == before
    assert task.cancelled()
    assert repr(stop).endswith("0 waiting>")


async def test_either_of_two_signals() -> None:
    """None stands for no signal, and a signal is not doubled."""
    one, two = Stop(), Stop()
    assert either(None, None) is None
    assert either(one, None) is one
    assert either(None, two) is two
    assert either(one, one) is one
    both = either(one, two)
    assert both is not None
    assert not both.is_stopped()
    assert reason_of(both) == ""
    two.stop("second")
    assert both.is_stopped()
    assert reason_of(both) == "second"
    one.stop("first")
    assert reason_of(both) == "first"


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("foreign", [False, True])
async def test_either_part_ends_the_wait(which: int, foreign: bool) -> None:
    """Without a helper task unless a part is foreign; afterwards none is left."""
    parts: list[Stop | ForeignStop] = [Stop(), ForeignStop() if foreign else Stop()]
    both = either(parts[0], parts[1])
    assert both is not None
    before = asyncio.all_tasks()
    task = asyncio.create_task(both.wait_stopped())
    await quiet()
    assert len(asyncio.all_tasks() - before) == (2 if foreign else 1)
    parts[which].stop()
    await task
    await both.wait_stopped()
    assert asyncio.all_tasks() == before
    assert repr(parts[0]).endswith("0 waiting>")


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("nested", ["first", "second"])
async def test_either_of_an_either_is_flat(which: int, nested: str) -> None:
    """Three signals of our own, one inside the other: still no helper task, still all heard."""
    parts = [Stop(), Stop(), Stop()]
    if nested == "first":
        one = either(either(parts[0], parts[1]), parts[2])
    else:
        one = either(parts[0], either(parts[1], parts[2]))
    assert one is not None
    before = asyncio.all_tasks()
    task = asyncio.create_task(one.wait_stopped())
    await quiet()
    assert asyncio.all_tasks() - before == {task}
    parts[which].stop("this one")
    await task
    assert reason_of(one) == "this one"
    assert all(repr(part).endswith("0 waiting>") for part in parts)


async def test_reason_of_a_signal_without_one_is_empty() -> None:
    """A foreign signal needs only its two methods."""
    assert reason_of(ForeignStop()) == ""


async def test_the_helper_of_a_foreign_signal_lives_only_while_parked() -> None:
    """Started and dropped again 100 times; the signal counts nobody at the end."""
    stop = ForeignStop()
    before = asyncio.all_tasks()
    for _ in range(100):
        parked = parked_future()
        task = asyncio.create_task(park(parked, stop))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stop.waiting == 1
        wake(parked)
        await task
        assert stop.waiting == 0
    assert stop.waits == 100
    assert asyncio.all_tasks() == before


async def test_an_error_of_a_foreign_signal_reaches_the_waiter() -> None:
    """Better than a wait that is blind to stop from then on."""
    with pytest.raises(OSError, match="the line is dead"):
        await park(parked_future(), RaisingStop())


@pytest.mark.parametrize("turn", range(6))
async def test_a_cancel_beside_an_error_of_a_foreign_signal_stays_a_cancel(turn: int) -> None:
    """And the error is not reported as one that nobody looked at."""
    task = asyncio.create_task(park(parked_future(), RaisingStop()))
    for _ in range(turn):
        await asyncio.sleep(0)
    cancelled = task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or (not cancelled and isinstance(task.exception(), OSError))


async def test_a_foreign_wait_that_ends_cancelled_is_told_to_the_waiter() -> None:
    """A mistake of the signal: neither a cancel of the waiter nor a wake-up."""

    class Cancelled(ForeignStop):
        async def wait_stopped(self) -> None:
            self.waits += 1
            inner = asyncio.get_running_loop().create_future()
            inner.cancel()
            await inner

    stop = Cancelled()
    with pytest.raises(UsageError, match="was cancelled from elsewhere"):
        await park(parked_future(), stop)
    assert stop.waits == 1


@pytest.mark.parametrize("kind", [ForeignStop, HastyStop])
async def test_a_helper_task_cancelled_by_others_is_told_to_the_waiter(
    kind: type[ForeignStop],
) -> None:
    """In the wait of the signal, and in the pause after one that returned too early."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(park(parked_future(), kind()))
    await quiet()
    (helper,) = asyncio.all_tasks() - before - {task}
    helper.cancel()
    with pytest.raises(UsageError, match="was cancelled"):
        await task
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("how", ["woken", "cancelled"])
async def test_a_failing_clean_up_of_a_foreign_signal_disturbs_no_wait_that_is_over(
    how: str,
) -> None:
    """What was granted stays granted, a cancel stays a cancel, and nothing is logged."""

    class FailingCleanUp(ForeignStop):
        async def wait_stopped(self) -> None:
            try:
                await super().wait_stopped()
            except asyncio.CancelledError:
                msg = "clean-up failed"
                raise OSError(msg) from None

    with loop_errors() as errors:
        parked = parked_future()
        task = asyncio.create_task(park(parked, FailingCleanUp()))
        await quiet()
        if how == "woken":
            wake(parked)
            await task
        else:
            await end(task)
            assert task.cancelled()
        del task
        await quiet()  # the loop lets go of what it ran last
        gc.collect()
    assert errors == []


def test_a_foreign_wait_that_returns_too_early_is_not_spun_on() -> None:
    """Nothing is stopped, so look again, with growing pauses; then the real stop."""

    async def main() -> None:
        stop = HastyStop()
        parked = parked_future()
        task = asyncio.create_task(park(parked, stop))
        await asyncio.sleep(10)
        assert not task.done()
        assert 10 < stop.waits < 20  # 0.05, 0.1 ... then once a second
        stop.stop()
        await task
        assert parked.done()

    run_virtual(main())


def test_a_foreign_wait_that_ignores_its_cancel_holds_nobody_for_long() -> None:
    """The waiter is let go after a bounded grace."""

    async def main() -> None:
        released = asyncio.Event()

        class Stubborn(ForeignStop):
            async def wait_stopped(self) -> None:
                while not released.is_set():
                    try:
                        await released.wait()
                    except asyncio.CancelledError:
                        continue

        parked = parked_future()
        task = asyncio.create_task(park(parked, Stubborn()))
        await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        woken = loop.time()
        wake(parked)
        await task
        assert loop.time() - woken <= 1.001
        released.set()
        await quiet()

    run_virtual(main())


async def test_hook_points_are_heard_only_while_somebody_listens() -> None:
    """Nested listeners give way to each other and come back."""
    outer, inner = list[str](), list[str]()
    reach("unheard")
    with listening(outer.append):
        reach("a")
        with listening(inner.append):
            reach("b")
        reach("c")
    reach("unheard")
    assert (outer, inner) == (["a", "c"], ["b"])


def test_stop_and_its_kin_are_stop_signals() -> None:
    """A type checker agrees that these may be handed to any wait."""
    signals: list[StopSignal] = [Stop(), ForeignStop()]
    assert not any(signal.is_stopped() for signal in signals)
