"""Deadline: it ends its own block, and mistakes nothing else for its end."""

import asyncio
import contextlib
import time

import pytest

from millpond._base import Deadline
from millpond.errors import DeadlineError, UsageError
from tests.toolkit import quiet, run_virtual


def requests() -> int:
    """Return how many cancel requests the running task has open."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def forever() -> None:
    """Wait for what never comes."""
    await asyncio.get_running_loop().create_future()


def test_a_block_that_is_too_slow_ends_with_its_layers_name() -> None:
    """The error says which layer, its limit, and how long it really took."""

    async def main() -> None:
        deadline = Deadline("request", 30)
        with pytest.raises(DeadlineError, match=r"request exceeded its 30 s") as caught, deadline:
            await forever()
        assert deadline.expired
        assert (caught.value.layer, caught.value.timeout) == ("request", 30)
        assert caught.value.elapsed == pytest.approx(30)
        assert isinstance(caught.value, TimeoutError)
        assert requests() == 0

    run_virtual(main())


def test_a_quick_block_is_left_alone() -> None:
    """And its timer does not strike later."""

    async def main() -> None:
        deadline = Deadline("request", 1)
        with deadline:
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)
        assert not deadline.expired
        assert requests() == 0

    run_virtual(main())


def test_none_sets_no_limit() -> None:
    """It may even be used where no task runs: there is nothing to interrupt."""
    with Deadline("request", None) as deadline:
        assert not deadline.expired

    async def main() -> None:
        with Deadline("request", None):
            await asyncio.sleep(1e6)

    run_virtual(main())


async def test_a_limit_needs_a_task() -> None:
    """A callback of the loop cannot be interrupted: a clear error instead."""
    caught: list[BaseException] = []

    def callback() -> None:
        with pytest.raises(UsageError, match="needs a task") as error, Deadline("x", 1):
            pass
        caught.append(error.value)

    asyncio.get_running_loop().call_soon(callback)
    await quiet()
    assert len(caught) == 1


@pytest.mark.parametrize(("inner", "outer"), [(1, 5), (5, 1), (3, 3), (1, None), (None, 1)])
def test_nested_limits_know_their_own_mark(inner: float | None, outer: float | None) -> None:
    """The shorter one names the end; of two equal ones, the outer."""

    async def main() -> None:
        inside, outside = Deadline("inner", inner), Deadline("outer", outer)
        with pytest.raises(DeadlineError) as caught, outside, inside:
            await forever()
        inner_first = outer is None or (inner is not None and inner < outer)
        assert caught.value.layer == ("inner" if inner_first else "outer")
        assert (inside.expired, outside.expired) == (inner_first, not inner_first)
        assert requests() == 0

    run_virtual(main())


def test_the_outer_limit_goes_on_after_the_inner_one_was_handled() -> None:
    """A handled inner end is over: the outer block runs on until its own end."""

    async def block() -> None:
        with pytest.raises(DeadlineError, match="inner"), Deadline("inner", 1):
            await forever()
        await asyncio.sleep(1)
        await forever()

    async def main() -> None:
        with pytest.raises(DeadlineError, match="outer"), Deadline("outer", 3):
            await block()
        assert asyncio.get_running_loop().time() == pytest.approx(103)
        assert requests() == 0

    run_virtual(main())


@pytest.mark.parametrize("timeout", [None, 5])
def test_a_timeout_error_of_the_block_is_not_ours(timeout: float | None) -> None:
    """It passes through as it is, and the deadline does not claim it."""

    async def main() -> None:
        deadline = Deadline("request", timeout)
        own = TimeoutError("the socket's")
        with pytest.raises(TimeoutError) as caught, deadline:
            raise own
        assert caught.value is own
        assert not deadline.expired

    run_virtual(main())


@pytest.mark.parametrize("answered", [0.995, 1, 1.005])
def test_a_result_in_the_tick_of_its_timeout_is_kept(answered: float) -> None:
    """A paid result that is there when the time runs out is not thrown away.

    The loop was busy, so the timer of the result and that of the limit are due in the
    same tick, whichever of them comes first there.
    """

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        deadline = Deadline("request", 1)
        with deadline:
            loop.call_later(1 - 0.01, time_passes, 0.02)
            loop.call_later(answered, answer.set_result, "paid for")
            assert await answer == "paid for"
        await asyncio.sleep(5)
        assert not deadline.expired
        assert requests() == 0

    def time_passes(seconds: float) -> None:
        asyncio.get_running_loop().now += seconds  # type: ignore[attr-defined] # the virtual one

    run_virtual(main())


@pytest.mark.parametrize("turn", range(7))
@pytest.mark.parametrize("victim_first", [True, False])
async def test_a_cancel_around_the_timeout_stays_a_cancel(turn: int, victim_first: bool) -> None:
    """R29: at every turn, in both orders: no accepted cancel turns into a TimeoutError."""
    seen: list[int] = []

    async def victim() -> None:
        try:
            with Deadline("request", 0):
                await forever()
        finally:
            seen.append(requests())

    async def canceller() -> bool:
        for _ in range(turn):
            await asyncio.sleep(0)
        return tasks["victim"].cancel()

    tasks: dict[str, asyncio.Task[object]] = {}
    for name in ("victim", "canceller") if victim_first else ("canceller", "victim"):
        tasks[name] = asyncio.create_task(victim() if name == "victim" else canceller())
    await asyncio.wait(tasks.values())
    if not tasks["canceller"].result():
        assert isinstance(tasks["victim"].exception(), DeadlineError)
        assert seen == [0]
    else:
        assert tasks["victim"].cancelled()
        assert seen in ([1], [])  # [] when it was cancelled before its first step


def test_works_in_a_task_that_is_being_cancelled() -> None:
    """Clean-up may have a limit of its own; the request that was open stays open."""

    async def victim() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            with pytest.raises(DeadlineError), Deadline("clean-up", 1):
                await forever()
            assert requests() == 1
            return "cleaned up"
        return "never"

    async def main() -> None:
        task = asyncio.create_task(victim())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "cleaned up"

    run_virtual(main())


def test_is_good_for_one_block() -> None:
    """Entered again it refuses, and an open request to cancel stays open."""

    async def victim() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        deadline = Deadline("request", 1)
        with pytest.raises(DeadlineError), deadline:
            await forever()
        with pytest.raises(UsageError, match="good for one block"), deadline:
            pass
        assert requests() == 1

    async def main() -> None:
        await asyncio.create_task(victim())
        deadline = Deadline("request", 1)
        with deadline, pytest.raises(UsageError, match="good for one block"), deadline:
            pass
        assert not deadline.expired

    run_virtual(main())


def test_an_error_that_replaces_the_cancel_passes_through() -> None:
    """The block had the last word; no request to cancel is left behind."""

    async def block() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            msg = "mine"
            raise ValueError(msg) from None

    async def main() -> None:
        deadline = Deadline("request", 1)
        with pytest.raises(ValueError, match="mine"), deadline:
            await block()
        assert not deadline.expired
        assert requests() == 0

    run_virtual(main())


def test_a_block_that_catches_the_cancel_and_returns_is_believed() -> None:
    """Its result counts, and a later wait of the task is not disturbed."""

    async def main() -> None:
        deadline = Deadline("request", 1)
        with deadline:
            try:
                await forever()
            except asyncio.CancelledError:
                answer = "partial"
        assert answer == "partial"
        assert not deadline.expired
        assert requests() == 0
        await asyncio.sleep(1)

    run_virtual(main())


async def test_a_blocked_loop_does_not_make_a_limit_of_zero_strike_a_ready_result() -> None:
    """Real time: the loop was blocked past the limit, the answer came meanwhile."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[int] = loop.create_future()
    with Deadline("request", 0.001):
        loop.call_soon(time.sleep, 0.005)
        loop.call_soon(answer.set_result, 42)
        assert await answer == 42
