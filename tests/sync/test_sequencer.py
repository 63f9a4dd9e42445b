"""Sequencer: turns by number (Q1-Q5), and the nine weaknesses that it does not have.

Time is virtual where reports are looked at: what a wait cost is exact then.
"""

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from millpond.errors import SequenceFailed, Stopped, UsageError
from millpond.sync import (
    Segment,
    Sequencer,
    SequencerStatistics,
    SlowTurn,
    Stop,
    TurnReport,
)
from tests.toolkit import ForeignStop, RaisingStop, end, quiet, run_virtual, timers, turns

Main = Callable[[], Coroutine[Any, Any, None]]


def virtually(main: Main) -> Callable[[], None]:
    """Make a coroutine function a test that runs in virtual time."""

    def test() -> None:
        run_virtual(main())

    test.__name__ = main.__name__
    test.__doc__ = main.__doc__
    return test


def waiting(line: Sequencer, sequence: int, stop: Stop | None = None) -> asyncio.Task[TurnReport]:
    """Wait in a task of its own."""
    return asyncio.create_task(line.wait_turn(sequence, stop))


# --- Turns


async def test_turns_come_strictly_by_number() -> None:
    """Q1: in every order of arrival."""
    for order in itertools.permutations(range(4)):
        line, record = Sequencer(), list[int]()

        async def work(number: int, line: Sequencer = line, record: list[int] = record) -> None:
            await line.wait_turn(number)
            await asyncio.sleep(0)
            record.append(number)
            line.advance(number)

        await asyncio.gather(*(work(number) for number in order))
        assert record == [0, 1, 2, 3]
        assert line.statistics().next == 4


async def test_the_turn_that_is_there_does_not_suspend() -> None:
    """It also may start elsewhere than at 0."""
    line = Sequencer(7)
    with pytest.raises(StopIteration) as returned:
        line.wait_turn(7).send(None)
    assert returned.value.value == TurnReport(sequence=7, waited=0.0)
    line.advance(7)
    await line.wait_turn(8)


def test_advancing_out_of_turn_is_a_mistake() -> None:
    """Raises: `UsageError` that names both numbers; nothing moves."""
    line = Sequencer(3, name="commits")
    for wrong in (2, 4):
        with pytest.raises(UsageError, match=rf"'commits' cannot advance {wrong}: .* turn of 3"):
            line.advance(wrong)
    line.advance(3)
    with pytest.raises(UsageError, match="advance each number once"):
        line.advance(3)


def test_statistics_and_repr() -> None:
    """Who is next and what it does, who waits, who failed."""

    async def main() -> None:
        line = Sequencer(1, name="commits")
        assert line.statistics() == SequencerStatistics(
            next=1, stage="unknown", still=0.0, waiting=(), failed=None
        )
        tasks = [waiting(line, number) for number in (4, 2)]
        await asyncio.sleep(3)
        line.note(1, "work")
        assert line.statistics() == SequencerStatistics(
            next=1, stage="work", still=3.0, waiting=(2, 4), failed=None
        )
        assert repr(line) == "<Sequencer 'commits', turn of 1, 2 waiting>"
        line.fail(1, ValueError("x"))
        await asyncio.gather(*tasks, return_exceptions=True)
        assert line.statistics().failed == 1
        assert line.statistics().waiting == ()

    run_virtual(main())


@pytest.mark.parametrize("slow_after", [0, -1, float("nan"), float("inf"), None, "1"])
def test_slow_after_is_a_number_of_seconds_above_zero(slow_after: object) -> None:
    """Raises: `ValueError`; a warning without pause between would spin."""
    with pytest.raises(ValueError, match="`slow_after` must be"):
        Sequencer(slow_after=slow_after)  # type: ignore[arg-type] # the point


async def test_an_interrupted_number_may_be_waited_for_again() -> None:
    """Cancellation: also when its turn had come in that very tick."""
    line = Sequencer()
    task = waiting(line, 1)
    await quiet()
    await end(task)
    task = waiting(line, 1)
    await quiet()
    line.advance(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (await line.wait_turn(1)).sequence == 1
    line.advance(1)


async def test_a_foreign_stop_that_raises_ends_the_wait_and_leaves_nothing() -> None:
    """Its error comes out; the number may be waited for again."""
    line = Sequencer()
    with pytest.raises(OSError, match="the line is dead"):
        await line.wait_turn(1, RaisingStop())
    assert line.statistics().waiting == ()
    assert timers() <= 1  # the deadline of this test
    line.advance(0)
    await line.wait_turn(1)


# --- Stop, failure, turn


async def test_stop_wins_when_it_races_advance() -> None:
    """Q2: in both orders, and against a failure too."""
    for order in itertools.permutations(["advance", "stop", "fail"]):
        line, stop = Sequencer(), Stop()
        task = waiting(line, 1, stop)
        await quiet()
        for what in order:
            if what == "advance":
                line.advance(0)
            elif what == "stop":
                stop.stop("enough")
            else:
                line.fail(0, ValueError("x"))
        with pytest.raises(Stopped, match="enough"):
            await task


async def test_failure_beats_turn() -> None:
    """Q2: in both orders, and for one who comes later."""
    for order in (("advance", "fail"), ("fail", "advance")):
        line = Sequencer()
        task = waiting(line, 1)
        await quiet()
        for what in order:
            if what == "advance":
                line.advance(0)
            else:
                line.fail(1, ValueError("x"))
        with pytest.raises(SequenceFailed):
            await task
        with pytest.raises(SequenceFailed):
            await line.wait_turn(1)


async def test_already_stopped_or_failed_returns_promptly() -> None:
    """Q2: without a turn of the loop, whether the turn is there or not; stop first."""
    line, stop = Sequencer(), Stop()
    stop.stop("over")
    for sequence in (0, 1):
        with pytest.raises(Stopped, match="over"):
            line.wait_turn(sequence, stop).send(None)
    line.fail(0, ValueError("x"))
    for sequence in (0, 1):
        with pytest.raises(SequenceFailed):
            line.wait_turn(sequence).send(None)
        with pytest.raises(Stopped):
            line.wait_turn(sequence, stop).send(None)


@pytest.mark.parametrize("make_stop", [Stop, ForeignStop])
async def test_interrupted_by_a_stop(make_stop: type[Stop | ForeignStop]) -> None:
    """Within a few turns; the others wait on."""
    line, stop = Sequencer(), make_stop()
    task = asyncio.create_task(line.wait_turn(2, stop))
    other = waiting(line, 1)
    await quiet()
    stop.stop()
    await turns(8)
    assert task.done()
    with pytest.raises(Stopped):
        await task
    line.advance(0)
    await other


async def test_the_first_failure_is_kept_and_told_to_everybody() -> None:
    """Q3: to two who wait and one who comes later, in the same words; admission has ended."""
    line = Sequencer()
    tasks = [waiting(line, 1), waiting(line, 2)]
    await quiet()
    line.fail(0, LookupError("no such row"))
    line.fail(5, ValueError("a later one"))
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(SequenceFailed) as later:
        await line.wait_turn(9)
    told = [*ends, later.value]
    assert len({id(error) for error in told}) == 3
    for error in told:
        assert isinstance(error, SequenceFailed)
        assert (error.sequence, error.error_type, error.text) == (0, "LookupError", "no such row")
        assert str(error) == ("number 0 failed, so no later turn comes: LookupError: no such row")
    assert line.statistics().failed == 0


# --- Reports


@virtually
async def test_wakes_when_the_prior_one_advances_with_one_segment() -> None:
    """Q5: who was in the way, for how long, in which stages."""
    line = Sequencer()
    task = waiting(line, 1)
    await asyncio.sleep(1)
    line.note(0, "work")
    await asyncio.sleep(3)
    line.note(0, "commit")
    await asyncio.sleep(2)
    line.advance(0)
    report = await task
    assert report == TurnReport(
        sequence=1,
        waited=6.0,
        segments=1,
        dominant=Segment(blocker=0, seconds=6.0, stage="work"),
        by_stage={"unknown": 1.0, "work": 3.0, "commit": 2.0},
        gap=0.0,
    )


@virtually
async def test_a_report_has_a_segment_for_each_number_that_was_in_the_way() -> None:
    """Q5: the longest is the dominant one; a wait that begins late counts from then."""
    line = Sequencer()
    early = waiting(line, 3)
    await asyncio.sleep(1)
    late = waiting(line, 4)
    line.note(1, "commit")  # said in advance
    for sequence, seconds in enumerate((4.0, 5.0, 1.0)):
        await asyncio.sleep(seconds)
        line.advance(sequence)
    first = await early
    await asyncio.sleep(2)
    line.advance(3)
    second = await late
    assert (first.waited, first.segments) == (11.0, 3)
    assert first.by_stage == {"unknown": 6.0, "commit": 5.0}
    assert first.dominant == Segment(blocker=0, seconds=5.0, stage="unknown")
    assert (second.waited, second.segments) == (12.0, 4)
    assert second.by_stage == {"unknown": 7.0, "commit": 5.0}
    assert second.dominant == Segment(blocker=1, seconds=5.0, stage="commit")


def test_the_gap_is_the_time_from_the_turn_to_its_owner() -> None:
    """Q5: what the loop took to get there is the blocker's no more."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        line = Sequencer()
        task = waiting(line, 1)
        await asyncio.sleep(2)
        line.advance(0)
        loop.now += 5.0  # type: ignore[attr-defined] # something else keeps the loop busy
        report = await task
        assert (report.waited, report.gap) == (7.0, 5.0)
        assert sum(report.by_stage.values()) + report.gap == report.waited

    run_virtual(main())


def test_a_note_of_a_number_that_has_passed_is_ignored() -> None:
    """Diagnosis never decides anything, and never raises (Q2)."""
    line = Sequencer()
    line.advance(0)
    line.note(0, "late")
    line.note(1, "now")
    assert line.statistics().stage == "now"
    assert line._stages == {1: "now"}


# --- Nine weaknesses


async def test_weakness_1_a_number_that_has_passed_is_an_error_at_once() -> None:
    """The original tests equality only: late or twice, it hangs until shutdown."""
    line = Sequencer(5, name="commits")
    with pytest.raises(UsageError, match="the turn of 4 has passed in 'commits'; it is that of 5"):
        await line.wait_turn(4)
    first = waiting(line, 7)
    await quiet()
    with pytest.raises(UsageError, match="somebody waits for turn 7 of 'commits' already"):
        await line.wait_turn(7)
    line.advance(5)
    line.advance(6)
    with pytest.raises(UsageError, match="somebody waits for turn 7"):
        await line.wait_turn(7)  # its turn has come, and its owner has not run yet
    assert (await first).sequence == 7


async def test_weakness_1_a_number_that_passes_while_it_waits_is_an_error_too() -> None:
    """Somebody else advanced it before its owner could run."""
    line = Sequencer()
    task = waiting(line, 1)
    await quiet()
    line.advance(0)
    line.advance(1)
    with pytest.raises(UsageError, match="the turn of 1 has passed"):
        await task


def test_weakness_2_progress_of_others_does_not_silence_the_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two ages: since the call, and since the line moved. Wake-ups reset neither."""
    seen: list[SlowTurn] = []

    async def main() -> None:
        line = Sequencer(slow_after=10.0, name="commits", on_slow=seen.append)
        task = waiting(line, 9)
        for sequence in range(8):
            await asyncio.sleep(4.5)
            line.advance(sequence)
        line.note(8, "commit")
        await asyncio.sleep(9)
        line.advance(8)
        await task
        assert timers() == 0

    run_virtual(main())
    assert [(slow.waited, slow.still, slow.blocker, slow.stage) for slow in seen] == [
        (10.0, 1.0, 2, "unknown"),
        (20.0, 2.0, 4, "unknown"),
        (30.0, 3.0, 6, "unknown"),
        (40.0, 4.0, 8, "commit"),
    ]
    assert [record.name for record in caplog.records] == ["millpond.sync"] * 4
    assert caplog.records[3].getMessage() == (
        "commits: turn 9 has waited 40.0 s for 8 (stage 'commit'); the line has not moved for 4.0 s"
    )


@virtually
async def test_weakness_3_time_is_booked_on_whoever_is_in_the_way() -> None:
    """Two advances in one step, and an interruption in the middle of the third."""
    line, stop = Sequencer(), Stop()
    task = waiting(line, 4, stop)
    await asyncio.sleep(3)
    line.advance(0)
    line.advance(1)
    line.note(2, "work")
    await asyncio.sleep(5)
    stop.stop()
    with pytest.raises(Stopped) as stopped:
        await task
    report = stopped.value.report
    assert isinstance(report, TurnReport)
    assert report.segments == 3
    assert report.by_stage == {"unknown": 3.0, "work": 5.0}
    assert report.dominant == Segment(blocker=2, seconds=5.0, stage="work")


async def test_weakness_4_an_advance_is_one_step() -> None:
    """Whoever looks right behind it, even from within, finds number and books in accord."""
    line = Sequencer()
    tasks = [waiting(line, number) for number in (1, 2)]
    await quiet()
    line.advance(0)
    assert line.statistics().next == 1
    late = waiting(line, 3)
    line.advance(1)  # before anybody has run
    reports = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(reports[0], UsageError)  # 1 was advanced by somebody else
    assert isinstance(reports[1], TurnReport)
    line.advance(2)
    assert (await late).segments == 1


@virtually
async def test_weakness_5_a_wait_outlasts_any_number_of_turns() -> None:
    """The original forgets after 1024; the sums stay exact, and the books small."""
    line = Sequencer()
    task = waiting(line, 5000)
    await asyncio.sleep(0)
    for sequence in range(5000):
        line.note(sequence, "commit")
        await asyncio.sleep(0.5 if sequence == 3000 else 0.25)
        line.advance(sequence)
    report = await task
    assert report.segments == 5000
    assert report.by_stage == {"commit": 1250.25}
    assert report.dominant == Segment(blocker=3000, seconds=0.5, stage="commit")
    assert line._stages == {}


def test_weakness_6_diagnosis_cannot_fail_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    """A blocker that never said anything, and an observer that raises."""

    def on_slow(slow: SlowTurn) -> None:
        assert slow.stage == "unknown"
        msg = "the observer is broken"
        raise LookupError(msg)

    async def main() -> None:
        line = Sequencer(slow_after=1.0, on_slow=on_slow)
        task = waiting(line, 1)
        await asyncio.sleep(2.5)
        line.advance(0)
        assert (await task).by_stage == {"unknown": 2.5}

    run_virtual(main())
    broken = [record for record in caplog.records if record.exc_info]
    assert [record.getMessage() for record in broken] == ["the observer of slow turns raised"] * 2


async def test_weakness_7_an_advance_wakes_the_one_whose_turn_it_is() -> None:
    """Q4: a thousand wait, and one turn of the loop brings one of them home."""
    line = Sequencer()
    tasks = [waiting(line, number) for number in range(1, 1001)]
    await quiet()
    woken = [waiter.parked for waiter in line._waiters.values()]
    line.advance(0)
    assert [parked.done() for parked in woken] == [True] + [False] * 999
    await quiet()
    assert [task.done() for task in tasks] == [True] + [False] * 999
    await end(*tasks)


@virtually
async def test_weakness_8_an_interrupted_wait_keeps_its_account() -> None:
    """Stop and failure carry it, each waiter's own."""
    for how in ("stop", "fail"):
        line, stop = Sequencer(), Stop()
        first = waiting(line, 1, stop)
        await asyncio.sleep(2)
        second = waiting(line, 2, stop)
        line.note(0, "commit")
        await asyncio.sleep(3)
        if how == "stop":
            stop.stop("enough")
        else:
            line.fail(0, ValueError("x"))
        reports: list[TurnReport] = []
        for task in (first, second):
            with pytest.raises((Stopped, SequenceFailed)) as error:
                await task
            report = getattr(error.value, "report", None)
            assert isinstance(report, TurnReport)
            reports.append(report)
        assert [report.waited for report in reports] == [5.0, 3.0]
        assert [report.sequence for report in reports] == [1, 2]
        assert reports[0].by_stage == {"unknown": 2.0, "commit": 3.0}
        assert reports[1].by_stage == {"commit": 3.0}
        assert reports[1].dominant == Segment(blocker=0, seconds=3.0, stage="commit")


async def test_weakness_8_also_when_it_never_slept() -> None:
    """The account is empty then, but it is there."""
    line, stop = Sequencer(), Stop()
    stop.stop()
    with pytest.raises(Stopped) as stopped:
        await line.wait_turn(1, stop)
    assert isinstance(stopped.value.report, TurnReport)
    assert stopped.value.report.segments == 0


def test_weakness_9_there_is_one_loop() -> None:
    """One public coroutine waits; the others are plain functions."""
    waits = [
        name for name, member in vars(Sequencer).items() if asyncio.iscoroutinefunction(member)
    ]
    assert waits == ["wait_turn"]


# --- What is left behind


@virtually
async def test_nothing_is_retained_per_finished_wait() -> None:
    """Neither waiters, nor stages, nor timers, nor accounts."""
    line = Sequencer()
    for sequence in range(200):
        task = waiting(line, sequence + 1)
        line.note(sequence, "work")
        await asyncio.sleep(0.5)
        line.advance(sequence)
        await task
    assert line.statistics().waiting == ()
    assert line._stages == {}
    assert timers() == 0
    gc.collect()
    kept = [thing for thing in gc.get_objects() if type(thing).__name__ in {"_Waiter", "Account"}]
    assert not kept
