"""Limiter: invariants F1-F4, and the cancel at its three moments."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from millpond.errors import (
    AlreadyReleased,
    Closed,
    LeakWarning,
    NestedAcquire,
    Stopped,
    UsageError,
    WouldBlock,
)
from millpond.flow import Holder, Limiter, LimiterStatistics, Permit
from millpond.sync import Stop
from tests.toolkit import ForeignStop, end, quiet, run_virtual, timers, turns


def books(limiter: Limiter) -> tuple[int, int, int, int]:
    """Return free, held, granted, queued; F1 holds whenever anybody looks."""
    now = limiter.statistics()
    assert now.free + now.held + now.granted == now.capacity
    assert now.granted >= 0
    return now.free, now.held, now.granted, now.queued


def caller(
    limiter: Limiter,
    record: list[str],
    name: str,
    n: int = 1,
    stop: Stop | ForeignStop | None = None,
) -> asyncio.Task[Permit]:
    """Start a caller that writes its name down when it has its permit."""

    async def main() -> Permit:
        permit = await limiter.acquire(n, stop=stop)
        record.append(name)
        return permit

    return asyncio.create_task(main(), name=name)


# --- Acquire and release ----------------------------------------------------------------


async def test_a_free_permit_is_taken_without_yielding() -> None:
    """And comes back once."""
    limiter = Limiter(2, name="llm")
    coroutine = limiter.acquire().__await__()
    with pytest.raises(StopIteration) as returned:
        next(coroutine)
    permit: Permit = returned.value.value
    assert books(limiter) == (1, 1, 0, 0)
    assert permit.permits == 1
    permit.release()
    assert books(limiter) == (2, 0, 0, 0)


async def test_statistics_are_a_snapshot() -> None:
    """It tells all and never changes."""
    limiter = Limiter(3)
    before = limiter.statistics()
    permit = await limiter.acquire(2)
    assert before == LimiterStatistics(
        capacity=3, free=3, held=0, granted=0, queued=0, closed=False
    )
    assert limiter.capacity == 3
    permit.release()


async def test_second_release_is_an_error() -> None:
    """F2: and the books stay as they are."""
    limiter = Limiter(1)
    permit = await limiter.acquire()
    permit.release()
    with pytest.raises(AlreadyReleased, match="release it exactly once"):
        permit.release()
    with pytest.raises(AlreadyReleased), permit:
        pass
    assert books(limiter) == (1, 0, 0, 0)


async def test_a_block_gives_back_on_every_path() -> None:
    """R04, R15: by its end, by an error, by a cancel at an await in a nested call."""
    limiter = Limiter(1)
    with await limiter.acquire():
        assert books(limiter) == (0, 1, 0, 0)

    async def failing() -> None:
        with await limiter.acquire():
            msg = "mine"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="mine"):
        await failing()
    assert books(limiter) == (1, 0, 0, 0)
    steps: list[int] = []

    async def nested() -> None:
        for step in range(3):
            steps.append(step)
            await asyncio.sleep(0)

    async def victim() -> None:
        async with limiter:
            await nested()

    for turn in range(5):
        task = asyncio.create_task(victim())
        await turns(turn)
        task.cancel()
        await asyncio.wait([task])
        assert books(limiter) == (1, 0, 0, 0)
    assert steps


async def test_async_with_nests_and_unwinds_in_order() -> None:
    """The task's latest permit goes back first."""
    limiter = Limiter(3)
    async with limiter as outer:
        async with limiter as inner:
            assert books(limiter) == (1, 2, 0, 0)
        with pytest.raises(AlreadyReleased):
            inner.release()
        assert books(limiter) == (2, 1, 0, 0)
    with pytest.raises(AlreadyReleased):
        outer.release()
    assert books(limiter) == (3, 0, 0, 0)


async def test_async_with_of_many_tasks_keeps_them_apart() -> None:
    """At most two inside at once, in the order of arrival."""
    limiter = Limiter(2)
    inside: set[int] = set()
    entered: list[int] = []

    async def worker(number: int) -> None:
        async with limiter:
            inside.add(number)
            entered.append(number)
            assert len(inside) <= 2
            await turns(number % 3)
            inside.discard(number)

    await asyncio.gather(*(worker(number) for number in range(12)))
    assert entered == list(range(12))
    assert books(limiter) == (2, 0, 0, 0)


async def test_hold_takes_several_with_a_label() -> None:
    """And is good for one block."""
    limiter = Limiter(3)
    held = limiter.hold(2, label="build")
    async with held as permit:
        assert (permit.permits, permit.label) == (2, "build")
        assert books(limiter) == (1, 2, 0, 0)
    assert books(limiter) == (3, 0, 0, 0)
    with pytest.raises(UsageError, match="for each block"):
        async with held:
            pass
    stop = Stop()
    stop.stop("over")
    with pytest.raises(Stopped, match="over"):
        async with limiter.hold(stop=stop):
            pass
    assert books(limiter) == (3, 0, 0, 0)


async def test_hold_entered_by_two_tasks_refuses_the_second() -> None:
    """Also while the first one still waits: neither permit is lost."""
    limiter = Limiter(2)
    permit = await limiter.acquire(2)
    held = limiter.hold()

    async def user() -> None:
        async with held:
            await turns(3)

    first, second = asyncio.create_task(user()), asyncio.create_task(user())
    await quiet()
    permit.release()
    await first
    with pytest.raises(UsageError, match="for each block"):
        await second
    assert books(limiter) == (2, 0, 0, 0)


async def test_async_with_left_by_another_task_is_an_error() -> None:
    """What the task that leaves did not take is not given back in its name."""
    limiter, stack = Limiter(1, name="llm"), contextlib.AsyncExitStack()
    permit = await asyncio.create_task(stack.enter_async_context(limiter))
    with pytest.raises(UsageError, match="'llm' is left by a task that did not enter it"):
        await stack.aclose()
    assert books(limiter) == (0, 1, 0, 0)
    permit.release()
    assert books(limiter) == (1, 0, 0, 0)


# --- The line ---------------------------------------------------------------------------


async def test_permits_go_out_in_the_order_asked() -> None:
    """F3: with releases one by one and several at once."""
    limiter, record = Limiter(2), list[str]()
    first, second = await limiter.acquire(), await limiter.acquire()
    tasks = [caller(limiter, record, name) for name in "abcde"]
    await quiet()
    assert books(limiter) == (0, 2, 0, 5)
    first.release()
    second.release()
    assert books(limiter) == (0, 0, 2, 3)
    await quiet()
    assert record == ["a", "b"]
    for task in tasks:
        (await task).release()
    assert record == list("abcde")
    assert books(limiter) == (2, 0, 0, 0)


async def test_a_newcomer_does_not_overtake_those_who_were_granted() -> None:
    """R02: three releases in a row; the first waiter starts a fourth task: it comes last."""
    limiter, record = Limiter(3), list[str]()
    held = [await limiter.acquire() for _ in range(3)]
    later: list[asyncio.Task[Permit]] = []

    async def first() -> Permit:
        permit = await limiter.acquire()
        record.append("a")
        later.append(caller(limiter, record, "new"))
        with pytest.raises(WouldBlock):
            limiter.acquire_nowait()  # b and c have not run yet
        permit.release()
        return permit

    tasks = [asyncio.create_task(first()), *(caller(limiter, record, name) for name in "bc")]
    await quiet()
    for permit in held:
        permit.release()
    assert books(limiter) == (0, 0, 3, 0)
    await asyncio.wait(tasks)
    (await later[0]).release()
    for task in tasks[1:]:
        task.result().release()
    assert record == ["a", "b", "c", "new"]
    assert books(limiter) == (3, 0, 0, 0)


async def test_a_permit_on_its_way_is_not_up_for_grabs() -> None:
    """F3, R06, R07: neither without waiting nor by queueing, though another one is free."""
    limiter, record = Limiter(2), list[str]()
    first, second = await limiter.acquire(), await limiter.acquire()
    waiter = caller(limiter, record, "waiter")
    await quiet()
    newcomer = caller(limiter, record, "newcomer")  # it asks before the waiter has run
    first.release()
    second.release()
    assert books(limiter) == (1, 0, 1, 0)
    with pytest.raises(WouldBlock):
        limiter.acquire_nowait()
    (await waiter).release()
    (await newcomer).release()
    assert record == ["waiter", "newcomer"]
    limiter.acquire_nowait().release()
    assert books(limiter) == (2, 0, 0, 0)


async def test_who_queued_behind_a_cancelled_grant_is_not_forgotten() -> None:
    """F3, F4: it queued only because a grant was under way, and that one died."""
    limiter, record = Limiter(2), list[str]()
    first, second = await limiter.acquire(), await limiter.acquire()
    waiter = caller(limiter, record, "waiter")
    await quiet()
    newcomer = caller(limiter, record, "newcomer")
    first.release()
    second.release()
    waiter.cancel()
    (await newcomer).release()
    assert waiter.cancelled()
    assert books(limiter) == (2, 0, 0, 0)


async def test_acquire_nowait_refuses_when_it_would_have_to_wait() -> None:
    """None free, too few free, or somebody else's turn."""
    limiter = Limiter(2)
    permit = limiter.acquire_nowait()
    with pytest.raises(WouldBlock):
        limiter.acquire_nowait(2)
    big = caller(limiter, [], "big", 2)
    await quiet()
    with pytest.raises(WouldBlock):
        limiter.acquire_nowait(1)
    await end(big)
    limiter.acquire_nowait(1).release()
    permit.release()


async def test_a_weighted_request_waits_whole_and_is_granted_whole() -> None:
    """F3: it collects nothing piecemeal, and smaller ones do not slip by."""
    limiter, record = Limiter(4), list[str]()
    held = [await limiter.acquire() for _ in range(4)]
    tasks = [caller(limiter, record, "three", 3), caller(limiter, record, "one", 1)]
    await quiet()
    held[0].release()
    held[1].release()
    await quiet()
    assert record == []
    assert books(limiter) == (2, 2, 0, 2)
    held[2].release()
    await quiet()
    assert record == ["three"]
    held[3].release()
    for task in tasks:
        (await task).release()
    assert record == ["three", "one"]
    assert books(limiter) == (4, 0, 0, 0)


async def test_two_takers_of_three_from_four_do_not_deadlock() -> None:
    """Atomic: neither holds what the other one lacks."""
    limiter = Limiter(4)

    async def taker() -> None:
        async with limiter.hold(3):
            await turns(3)

    await asyncio.gather(taker(), taker(), taker())
    assert books(limiter) == (4, 0, 0, 0)


async def test_the_head_that_leaves_lets_smaller_ones_go() -> None:
    """Its place was all that held them back."""
    limiter, record = Limiter(2), list[str]()
    permit = await limiter.acquire()
    head, small = caller(limiter, record, "head", 2), caller(limiter, record, "small", 1)
    await quiet()
    assert books(limiter) == (1, 1, 0, 2)
    await end(head)
    (await small).release()
    permit.release()
    assert books(limiter) == (2, 0, 0, 0)


# --- Cancel and stop --------------------------------------------------------------------

MOMENTS = ("while it queues", "just before the hand-over", "just after it")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_waiter_loses_nothing(moment: str, n: int, times: int) -> None:
    """F4, R01, R03, R05, R14: the next in line gets it, the order stays."""
    limiter, record = Limiter(2), list[str]()
    held = await limiter.acquire(2)
    victim, heir, last = (caller(limiter, record, name, n) for name in ("victim", "heir", "last"))
    await quiet()
    if moment == "just after it":
        held.release()
    for _ in range(times):
        victim.cancel()
    if moment == "while it queues":
        await quiet()
        assert books(limiter) == (0, 2, 0, 2)
    if moment != "just after it":
        held.release()
    (await heir).release()
    (await last).release()
    assert victim.cancelled()
    assert record == ["heir", "last"]
    assert books(limiter) == (2, 0, 0, 0)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_cancelled_waiter_with_nobody_behind_leaves_it_free(moment: str) -> None:
    """F1, F4: the count is as before."""
    limiter = Limiter(1)
    held = await limiter.acquire()
    victim = caller(limiter, [], "victim")
    await quiet()
    if moment == "just after it":
        held.release()
        assert books(limiter) == (0, 0, 1, 0)
    victim.cancel()
    if moment == "while it queues":
        await quiet()
    if moment != "just after it":
        held.release()
    await asyncio.wait([victim])
    assert books(limiter) == (1, 0, 0, 0)
    limiter.acquire_nowait().release()


@pytest.mark.parametrize("order", ["grant, stop", "stop, grant", "stop"])
@pytest.mark.parametrize("kind", [Stop, ForeignStop])
async def test_stop_beats_grant(order: str, kind: type[Stop | ForeignStop]) -> None:
    """F4: and the permit goes to the next in line."""
    limiter, record, stop = Limiter(1), list[str](), kind()
    held = await limiter.acquire()
    victim = caller(limiter, record, "victim", stop=stop)
    heir = caller(limiter, record, "heir")
    await quiet()
    for what in order.split(", "):
        if what == "grant":
            held.release()
        else:
            stop.stop()
    with pytest.raises(Stopped):
        await victim
    if order == "stop":
        assert books(limiter) == (0, 1, 0, 1)
        held.release()
    (await heir).release()
    assert record == ["heir"]
    assert books(limiter) == (1, 0, 0, 0)
    if isinstance(stop, Stop):
        assert repr(stop).endswith("0 waiting>")
    else:
        assert stop.waiting == 0


async def test_a_stop_before_the_call_takes_nothing() -> None:
    """Although a permit is free; the reason comes along."""
    limiter, stop = Limiter(1), Stop()
    stop.stop("enough")
    with pytest.raises(Stopped, match="enough"):
        await limiter.acquire(stop=stop)
    assert books(limiter) == (1, 0, 0, 0)


async def test_a_wait_that_can_no_longer_see_its_stop_is_granted_nothing() -> None:
    """F1: the helper task of a foreign stop is cancelled by others: an error, no permit."""
    limiter, record = Limiter(1), list[str]()
    held = await limiter.acquire()
    before = asyncio.all_tasks()
    blind = caller(limiter, record, "blind", stop=ForeignStop())
    heir = caller(limiter, record, "heir")
    await quiet()
    (helper,) = asyncio.all_tasks() - before - {blind, heir}
    helper.cancel()
    with pytest.raises(UsageError, match="was cancelled from elsewhere"):
        await blind
    assert books(limiter) == (0, 1, 0, 1)
    held.release()
    (await heir).release()
    assert record == ["heir"]
    assert books(limiter) == (1, 0, 0, 0)


async def test_a_grant_in_the_tick_of_a_timeout_is_used_or_goes_back() -> None:
    """R05: whichever it is, the permit is not lost."""
    for turn in range(6):
        limiter = Limiter(1)
        held = await limiter.acquire()

        async def victim(limiter: Limiter = limiter) -> None:
            async with asyncio.timeout(0):
                with await limiter.acquire():
                    pass

        task = asyncio.create_task(victim())
        await turns(turn)
        held.release()
        await asyncio.wait([task])
        assert books(limiter) == (1, 0, 0, 0)
        error = task.exception()
        assert error is None or isinstance(error, TimeoutError)


async def test_300_acquires_that_time_out_leave_nobody() -> None:
    """R25: in the line, in the books, in memory."""
    limiter = Limiter(1)
    held = await limiter.acquire()
    tasks = [caller(limiter, [], "x") for _ in range(300)]
    await quiet()
    assert books(limiter) == (0, 1, 0, 300)
    seen = [weakref.ref(task) for task in tasks]
    await end(*tasks)
    assert books(limiter) == (0, 1, 0, 0)
    del tasks
    await quiet()  # the loop lets go of what it ran last
    gc.collect()
    assert not [task for task in seen if task() is not None]
    held.release()


@contextlib.asynccontextmanager
async def acquired(limiter: Limiter) -> AsyncIterator[Permit]:
    """Hold as most callers do."""
    with await limiter.acquire() as permit:
        yield permit


CONTEXTS: dict[str, Callable[[Limiter], contextlib.AbstractAsyncContextManager[Permit]]] = {
    "async with limiter": lambda limiter: limiter,
    "async with limiter.hold()": lambda limiter: limiter.hold(),
    "with await limiter.acquire()": acquired,
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("turn", range(8))
async def test_no_await_between_taking_and_owning(
    context: Callable[[Limiter], contextlib.AbstractAsyncContextManager[Permit]], turn: int
) -> None:
    """R14: a cancel at every turn, with the permit free and with a wait for it."""
    limiter = Limiter(1)

    async def victim() -> None:
        async with context(limiter):
            await asyncio.sleep(0)

    for wait_for_it in (False, True):
        held = await limiter.acquire() if wait_for_it else None
        task = asyncio.create_task(victim())
        await asyncio.sleep(0)
        if held is not None:
            held.release()
        await turns(turn)
        task.cancel()
        await asyncio.wait([task])
        assert books(limiter) == (1, 0, 0, 0)


# --- close, resize, max_queued ----------------------------------------------------------


async def test_close_sends_those_who_queue_away_and_refuses_newcomers() -> None:
    """Permits that are out come home; who was granted one keeps it."""
    limiter, record = Limiter(2, name="llm"), list[str]()
    first, second = await limiter.acquire(), await limiter.acquire()
    granted, queued = caller(limiter, record, "granted"), caller(limiter, record, "queued")
    await quiet()
    first.release()
    limiter.close()
    limiter.close()
    assert limiter.statistics().closed
    with pytest.raises(Closed, match="'llm' is closed"):
        await queued
    with pytest.raises(Closed):
        await limiter.acquire()
    with pytest.raises(Closed):
        limiter.acquire_nowait()
    (await granted).release()
    second.release()
    assert record == ["granted"]
    assert books(limiter) == (2, 0, 0, 0)


async def test_resize_up_serves_the_line_at_once() -> None:
    """In order, as far as it goes."""
    limiter, record = Limiter(1), list[str]()
    held = await limiter.acquire()
    tasks = [caller(limiter, record, name) for name in "abc"]
    await quiet()
    limiter.resize(3)
    await quiet()
    assert record == ["a", "b"]
    held.release()
    for task in tasks:
        (await task).release()
    assert books(limiter) == (3, 0, 0, 0)


async def test_resize_down_takes_no_permit_away() -> None:
    """F1: free is negative until enough came home."""
    limiter, record = Limiter(3), list[str]()
    held = [await limiter.acquire() for _ in range(3)]
    limiter.resize(1)
    assert books(limiter) == (-2, 3, 0, 0)
    waiter = caller(limiter, record, "waiter")
    await quiet()
    held[0].release()
    held[1].release()
    await quiet()
    assert record == []
    assert books(limiter) == (0, 1, 0, 1)
    with pytest.raises(WouldBlock):
        limiter.acquire_nowait()
    held[2].release()
    (await waiter).release()
    assert books(limiter) == (1, 0, 0, 0)


async def test_resize_sends_away_who_can_never_be_served() -> None:
    """More than it shrinks to is an error, never a hang; the others move up."""
    limiter, record = Limiter(3, name="llm"), list[str]()
    held = await limiter.acquire(2)
    big, small = caller(limiter, record, "big", 3), caller(limiter, record, "small", 2)
    await quiet()
    limiter.resize(2)
    with pytest.raises(UsageError, match="'llm' shrank to 2 permits"):
        await big
    held.release()
    (await small).release()
    assert books(limiter) == (2, 0, 0, 0)


async def test_resize_sends_away_whose_own_permits_are_now_in_the_way() -> None:
    """R12: what it holds and what it asks for no longer fit together."""
    limiter = Limiter(3, name="llm")
    other = await limiter.acquire()

    async def nested() -> None:
        async with limiter, limiter.hold(2):
            pass

    task = asyncio.create_task(nested())
    await quiet()
    assert books(limiter) == (1, 2, 0, 1)
    limiter.resize(2)
    other.release()
    with pytest.raises(UsageError, match="and what the same task holds"):
        await task
    assert books(limiter) == (2, 0, 0, 0)


async def test_max_queued_refuses_one_too_many() -> None:
    """Who is inside or was granted does not count."""
    limiter = Limiter(1, max_queued=2)
    held = await limiter.acquire()
    waiting = [caller(limiter, [], name) for name in "ab"]
    await quiet()
    with pytest.raises(WouldBlock):
        await limiter.acquire()
    assert books(limiter) == (0, 1, 0, 2)
    held.release()
    (await waiting[0]).release()
    (await waiting[1]).release()
    none = Limiter(1, max_queued=0)
    permit = await none.acquire()
    with pytest.raises(WouldBlock):
        await none.acquire()
    permit.release()


# --- Mistakes ---------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [0, -1, True, 1.5])
async def test_needs_at_least_one_permit(capacity: int) -> None:
    """A limiter that lets nobody in would wait for ever; so does a resize to none."""
    with pytest.raises(ValueError, match="`capacity` must be an integer >= 1, got"):
        Limiter(capacity)
    limiter = Limiter(1)
    with pytest.raises(ValueError, match="`capacity` must be an integer >= 1, got"):
        limiter.resize(capacity)
    assert limiter.capacity == 1


@pytest.mark.parametrize("max_queued", [-1, True, 1.5])
def test_max_queued_is_a_count(max_queued: int) -> None:
    """None may queue, or some; fewer than none is a mistake."""
    with pytest.raises(ValueError, match="`max_queued` must be an integer >= 0, got"):
        Limiter(1, max_queued=max_queued)


@pytest.mark.parametrize("n", [0, -1, True])
async def test_asks_for_at_least_one(n: int) -> None:
    """A request for nothing is a mistake."""
    limiter = Limiter(1)
    with pytest.raises(ValueError, match="`n` must be an integer >= 1, got"):
        await limiter.acquire(n)
    with pytest.raises(ValueError, match="`n` must be an integer >= 1, got"):
        limiter.acquire_nowait(n)


async def test_more_than_there_are_is_an_error_not_a_hang() -> None:
    """At once, whoever asks."""
    limiter = Limiter(2, name="llm")
    with pytest.raises(UsageError, match="3 permits of 'llm' were asked for, but only 2 exist"):
        await limiter.acquire(3)
    with pytest.raises(UsageError):
        limiter.acquire_nowait(3)
    assert books(limiter) == (2, 0, 0, 0)


async def test_a_task_that_holds_what_it_waits_for_is_told() -> None:
    """R12: an error that names the figures, instead of silence."""
    limiter = Limiter(2, name="llm")
    async with limiter:
        async with limiter:
            with pytest.raises(NestedAcquire, match="holds 2 of the 2 permits of 'llm'") as caught:
                await limiter.acquire()
        with pytest.raises(NestedAcquire):
            await limiter.acquire(2)
    assert (caught.value.asked, caught.value.held, caught.value.capacity) == (1, 2, 2)
    assert books(limiter) == (2, 0, 0, 0)


async def test_a_task_that_blocks_whoever_it_would_queue_behind_is_told() -> None:
    """R12: its own request is small, but the head of the line needs what it holds."""
    limiter = Limiter(2, name="llm")
    async with limiter:
        head = caller(limiter, [], "head", 2)
        await quiet()
        with pytest.raises(NestedAcquire) as caught:
            await limiter.acquire()
    assert (caught.value.asked, caught.value.held, caught.value.capacity) == (2, 1, 2)
    (await head).release()
    assert books(limiter) == (2, 0, 0, 0)


async def test_what_was_handed_over_is_not_the_tasks_own() -> None:
    """R12: something that outlives the task will give it back, so the wait may end."""
    limiter = Limiter(1)
    permit = await limiter.acquire(label="me")
    permit.hand_over("envelope 7")
    assert permit.label == "envelope 7"
    asyncio.get_running_loop().call_soon(permit.release)
    (await limiter.acquire()).release()
    assert books(limiter) == (1, 0, 0, 0)


async def test_holding_some_and_asking_for_the_rest_may_wait() -> None:
    """R12: another task holds it, and will give it back."""
    limiter = Limiter(2)
    other = await asyncio.create_task(limiter.acquire())
    async with limiter:
        asyncio.get_running_loop().call_soon(other.release)
        (await limiter.acquire()).release()
    assert books(limiter) == (2, 0, 0, 0)


async def test_a_permit_dropped_unreleased_warns_with_its_place() -> None:
    """R15: it stays out, and the books name holder and age."""
    limiter = Limiter(2, name="llm")

    async def careless() -> None:
        await limiter.acquire(label="careless")

    with pytest.warns(LeakWarning, match=r"'llm' of careless, held, from .*test_limiter\.py:\d+"):
        await careless()
    assert books(limiter) == (1, 1, 0, 0)
    assert [holder.label for holder in limiter.holders()] == ["careless"]


async def test_a_task_does_not_live_on_through_its_permit() -> None:
    """R15: a task kept alive by its own permit would hide the leak."""
    limiter = Limiter(1)
    permits: list[Permit] = []

    async def work() -> None:
        permits.append(await limiter.acquire())

    task = asyncio.create_task(work())
    await task
    seen = weakref.ref(task)
    del task
    await quiet()  # the loop lets go of what it ran last
    gc.collect()
    assert seen() is None
    permits.pop().release()


# --- What can be seen -------------------------------------------------------------------


def test_holders_are_told_with_label_and_age() -> None:
    """R16: the oldest first; the task's name unless a label was given."""

    async def main() -> None:
        limiter = Limiter(4, name="llm")
        first = await limiter.acquire(2, label="summary")
        await asyncio.sleep(3)

        async def named() -> Permit:
            return await limiter.acquire()

        second = await asyncio.create_task(named(), name="worker-7")
        await asyncio.sleep(2)
        assert limiter.holders() == (
            Holder(label="summary", permits=2, age=5.0),  # virtual time is exact
            Holder(label="worker-7", permits=1, age=2.0),
        )
        assert (first.age, second.age) == (5.0, 2.0)
        first.release()
        second.release()
        assert limiter.holders() == ()

    run_virtual(main())


async def test_reads_well() -> None:
    """The state in one line each."""
    limiter = Limiter(3, name="llm")
    permit = limiter.acquire_nowait(2, label="summary")
    waiter = caller(limiter, [], "waiter", 3)
    await quiet()
    assert repr(limiter) == "<Limiter 'llm' 2/3 out, 1 queued>"
    assert repr(permit).startswith("<Permit 2 x 'llm' of summary, held, from ")
    await end(waiter)
    permit.release()
    assert ", released, from " in repr(permit)
    assert repr(Limiter(1)) == "<Limiter 'limiter' 0/1 out, 0 queued>"


async def test_looking_changes_nothing() -> None:
    """A grant under way and a line, looked at many times."""
    limiter, record = Limiter(1), list[str]()
    held = await limiter.acquire()
    tasks = [caller(limiter, record, name) for name in "ab"]
    await quiet()
    held.release()
    for _ in range(5):
        assert books(limiter) == (0, 0, 1, 1)
        repr(limiter)
        limiter.holders()
    for task in tasks:
        (await task).release()
    assert record == ["a", "b"]


async def test_works_from_a_callback_of_the_loop() -> None:
    """No task runs there; the books say so."""
    limiter = Limiter(1)
    taken: list[Permit] = []
    asyncio.get_running_loop().call_soon(lambda: taken.append(limiter.acquire_nowait()))
    await quiet()
    assert [holder.label for holder in limiter.holders()] == ["no task"]
    taken[0].release()


def test_acquire_nowait_without_a_loop_takes_nothing() -> None:
    """F1: there is no clock to book the permit by, so it fails, and the permit is free."""
    limiter = Limiter(1)
    with pytest.raises(RuntimeError, match="no running event loop"):
        limiter.acquire_nowait()
    assert books(limiter) == (1, 0, 0, 0)


class Watcher:
    """Frees a permit when somebody wants to queue."""

    def __init__(self, free: Callable[[], object] | None = None) -> None:
        self.told: list[str] = []
        self.free = free

    def about_to_queue(self) -> None:
        """Note it, and free what can be freed."""
        self.told.append("about to queue")
        if self.free is not None:
            free, self.free = self.free, None
            free()

    def nobody_queues(self) -> None:
        """Note it."""
        self.told.append("nobody queues")


async def test_a_watcher_may_free_a_permit_in_time() -> None:
    """Then nobody has to queue at all."""
    limiter = Limiter(1)
    held = await limiter.acquire()
    held.hand_over("an expired item")
    watcher = Watcher(held.release)
    limiter.watch_queue(watcher)
    permit = await limiter.acquire()
    assert watcher.told == ["about to queue", "nobody queues"]
    waiting: list[Awaitable[Permit]] = [caller(limiter, [], name) for name in "ab"]
    await quiet()
    permit.release()
    (await waiting[0]).release()
    (await waiting[1]).release()
    assert watcher.told[-1] == "nobody queues"
    assert watcher.told.count("about to queue") == 3
    with pytest.raises(UsageError, match="give each its own limiter"):
        limiter.watch_queue(watcher)
    assert books(limiter) == (1, 0, 0, 0)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_watcher_hears_of_the_end_of_the_line_on_a_cancel(moment: str) -> None:
    """Whatever the moment, it does not go on waiting for nobody."""
    limiter, watcher = Limiter(1), Watcher()
    limiter.watch_queue(watcher)
    held = await limiter.acquire()
    victim = caller(limiter, [], "victim")
    await quiet()
    if moment == "just after it":
        held.release()
    victim.cancel()
    if moment == "while it queues":
        await quiet()
    if moment != "just after it":
        held.release()
    await asyncio.wait([victim])
    assert watcher.told == ["about to queue", "nobody queues"]
    assert books(limiter) == (1, 0, 0, 0)


# --- Not offered ------------------------------------------------------------------------


async def test_a_thousand_waiters_arm_no_timer() -> None:
    """R08: there is no rate limit here; what waits costs the loop nothing meanwhile.

    R09 (a bucket that is partly free) applies to rate limits only.
    """
    limiter = Limiter(1)
    held = await limiter.acquire()
    before = timers()
    tasks = [caller(limiter, [], "x") for _ in range(1000)]
    await quiet()
    assert timers() == before
    assert await quiet() == 1
    held.release()
    for task in tasks:
        (await task).release()
    assert books(limiter) == (1, 0, 0, 0)
