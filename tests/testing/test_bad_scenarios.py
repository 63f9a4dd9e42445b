"""A scenario that cannot be explored says so, by name, with the schedule at which it showed."""

import asyncio
import contextlib
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable

import pytest

from millpond.errors import UsageError
from millpond.testing import (
    Bounds,
    Counterexample,
    Diverged,
    Incomplete,
    Livelock,
    Nondeterministic,
    ScenarioError,
    Violation,
    World,
    explore,
    replay,
)
from millpond.testing._fence import OutsideCallError


def three_calls(world: World) -> None:
    """Three tasks with two calls each."""

    async def work() -> None:
        await world.io("one")
        await world.io("two")

    for name in "ABC":
        world.spawn(name, work(), cancel=True)


def test_a_counter_outside_of_the_scenario_is_found() -> None:
    """State that one schedule leaves to the next makes the same schedule take another course."""
    runs = 0

    def scenario(world: World) -> None:
        nonlocal runs
        runs += 1

        async def work(calls: int) -> None:
            for _ in range(calls):
                await world.io("call")

        world.spawn("W", work(runs))

    with pytest.raises(Nondeterministic, match=r"run twice, went another way after .*'x1 fifo'"):
        explore(scenario)


def test_a_fault_that_comes_only_once_is_not_reported_as_one() -> None:
    """What does not replay is the scenario's fault, not that of the code under test."""
    runs = 0

    def scenario(world: World) -> None:
        nonlocal runs
        runs += 1
        this_run = runs
        three_calls(world)
        world.final("only now and then", lambda: this_run != 5)

    with pytest.raises(Nondeterministic, match=r"is not deterministic|run twice"):
        explore(scenario)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: time.sleep(0), "time.sleep"),
        (lambda: time.monotonic() + 1, "time.monotonic"),
        (lambda: time.time_ns() + 1, "time.time_ns"),
        (lambda: random.random() + 1, "random.random"),  # noqa: S311 - not for secrets
        (lambda: str(uuid.uuid4()), "os.urandom"),
        (lambda: threading.Thread(target=print).start(), "Thread.start"),
        (lambda: socket.create_connection(("127.0.0.1", 9)), "socket.getaddrinfo"),
        (lambda: subprocess.run(["/bin/true"], check=True), "Popen"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_real_world_is_fenced_off(call: Callable[[], object], named: str) -> None:
    """A call that reaches it is an error with its place, although the program swallows it."""

    def scenario(world: World) -> None:
        async def work() -> None:
            await world.io("first")
            with contextlib.suppress(Exception):
                call()

        world.spawn("W", work())

    with pytest.raises(
        OutsideCallError, match=rf"{named}` .*test_bad_scenarios.*; schedule: 'x1 "
    ) as refused:
        explore(scenario)
    assert "; use " in str(refused.value)


def test_the_real_world_is_there_again_afterwards() -> None:
    """Nothing that the fence replaced stays replaced."""
    before = (time.sleep, time.monotonic, random.random, socket.socket.connect, subprocess.Popen)
    start = threading.Thread.start
    own = vars(socket.socket).get("connect")
    explore(three_calls, bounds=Bounds(deviations=1))
    assert before == (
        *(time.sleep, time.monotonic, random.random, socket.socket.connect, subprocess.Popen),
    )
    assert threading.Thread.start is start
    assert vars(socket.socket).get("connect") is own


def test_what_is_logged_keeps_nothing_of_a_schedule(caplog: pytest.LogCaptureFixture) -> None:
    """Logging is off within, and as it was afterwards."""

    def scenario(world: World) -> None:
        async def work() -> None:
            try:
                await world.io("call")
            finally:
                logging.getLogger("millpond").error("closing")

        world.spawn("W", work(), daemon=True)

    explore(scenario)
    assert not caplog.records
    logging.getLogger("millpond").error("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_an_error_that_schedules_share_keeps_none_of_them() -> None:
    """Given as an instance, it is raised again and again, and holds no frames of before."""
    shared = ValueError("no")
    alive: list[weakref.ref[object]] = []

    class Held:
        pass

    def scenario(world: World) -> None:
        async def work() -> None:
            held = Held()
            alive.append(weakref.ref(held))
            with contextlib.suppress(ValueError):
                await world.io("call", shared)
            await world.io("next")

        for name in "AB":
            world.spawn(name, work(), cancel=True)

    explore(scenario)
    assert len(alive) > 10
    assert sum(one() is not None for one in alive) <= 2


def test_a_real_connection_of_the_loop_is_refused() -> None:
    """The loop's own ways to the outside raise as well."""

    def scenario(world: World) -> None:
        async def work() -> None:
            await asyncio.open_connection("127.0.0.1", 9)

        world.spawn("W", work())

    with pytest.raises(OutsideCallError, match=r"loop\.create_connection"):
        explore(scenario)


def test_a_program_that_never_rests_is_a_livelock() -> None:
    """The report shows what repeats, once."""

    def scenario(world: World) -> None:
        async def work() -> None:
            while True:
                await asyncio.sleep(0)

        world.spawn("W", work())

    with pytest.raises(Counterexample, match=r"no end after 50 callbacks") as found:
        explore(scenario, bounds=Bounds(steps=50))
    assert isinstance(found.value.fault, Livelock)
    assert "this again" in str(found.value)
    assert str(found.value).count("> sleep [runnable]") == 2


@pytest.mark.parametrize("limit", [{"schedules": 5}, {"seconds": 0.0}])
def test_a_search_that_ends_early_is_not_a_pass(limit: dict[str, float]) -> None:
    """It is false, says INCOMPLETE and why, and fails a test that was made of it."""
    certificate = explore(three_calls, **limit)  # type: ignore[call-overload] # of both kinds
    assert not certificate
    assert certificate.complete is False
    assert "INCOMPLETE (the limit of " in str(certificate)
    assert "the rest of the schedules" in certificate.not_explored[0]

    @explore(schedules=5)
    def test(world: World) -> None:
        three_calls(world)

    with pytest.raises(Incomplete, match="INCOMPLETE"):
        test()


def test_a_sample_is_not_a_pass_either() -> None:
    """It says SAMPLED, and is false."""
    for mode in ("random", "pct"):
        certificate = explore(three_calls, mode=mode, schedules=20)
        assert not certificate
        assert "SAMPLED (a sample of 20)" in str(certificate)


def test_an_invariant_that_raises_is_named() -> None:
    """By its name, with what it raised."""

    def scenario(world: World) -> None:
        three_calls(world)
        world.invariant("the ledger", lambda: os.environ["NO_SUCH_ENTRY"])

    with pytest.raises(Counterexample, match=r"'the ledger', which must hold .*KeyError") as found:
        explore(scenario)
    assert isinstance(found.value.fault, Violation)
    assert isinstance(found.value.__cause__, KeyError)


def test_a_task_that_leaks_into_the_next_run_is_found() -> None:
    """A primitive of an earlier run, kept in a global, is not used in silence."""
    kept: list[asyncio.Future[None]] = []

    def scenario(world: World) -> None:
        async def work() -> None:
            if not kept:
                kept.append(asyncio.get_running_loop().create_future())
            await kept[0]

        world.spawn("W", work(), daemon=True)

    with pytest.raises((Nondeterministic, Counterexample), match=r"another way|different loop"):
        explore(scenario)


def test_a_scenario_that_raises_is_told_apart_from_its_code() -> None:
    """It is the scenario that must be mended."""

    def scenario(world: World) -> None:
        world.spawn("W", three_calls)  # type: ignore[arg-type] # the mistake

    with pytest.raises(ScenarioError, match=r"the scenario itself raised TypeError"):
        explore(scenario)


def test_declarations_that_cannot_be_are_refused() -> None:
    """Names that are taken or that a schedule cannot hold; a pick without values."""

    async def nothing() -> None:
        pass

    def twice(world: World) -> None:
        world.spawn("A", nothing())
        world.spawn("A", nothing())

    def spaced(world: World) -> None:
        world.event("a b", print)

    def empty(world: World) -> None:
        world.pick("x")

    for scenario, said in (
        (twice, "two tasks are called 'A'"),
        (spaced, "without spaces"),
        (empty, "needs values"),
    ):
        with pytest.raises(UsageError, match=said):
            explore(scenario)


async def test_exploring_within_a_loop_is_refused() -> None:
    """It has a loop of its own."""
    with pytest.raises(UsageError, match="call it from outside of any running loop"):
        explore(three_calls)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python has eager tasks")
def test_eager_tasks_are_refused_where_there_are_none() -> None:
    """With the version that has them."""
    with pytest.raises(UsageError, match=r"3\.12"):
        explore(three_calls, eager=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "begins with 'x1'"),
        ("x2 fifo", "begins with 'x1'"),
        ("x1 cancel(A)", "number:event"),
        ("x1 3:", "number:event"),
        ("x1 3:a++b", "number:event"),
        ("x1 3:a 2:b", "must rise"),
    ],
)
def test_a_line_that_is_no_schedule_is_refused(line: str, said: str) -> None:
    """With the part that is wrong."""
    with pytest.raises(ValueError, match=said):
        replay(three_calls, line)


def test_a_schedule_that_does_not_fit_diverges() -> None:
    """It names the event, what was possible, and another Python if it was found on one."""
    with pytest.raises(Diverged, match=r"after 3 callbacks 'cancel\(Z\)' was not possible \(last"):
        replay(three_calls, "x1 3:cancel(Z)")
    with pytest.raises(Diverged, match=r"was found on py3\.4"):
        replay(three_calls, "x1 py3.4 3:cancel(Z)")
    with pytest.raises(Diverged, match=r"after 400 callbacks"):
        replay(three_calls, "x1 400:cancel(A)")


def test_a_schedule_that_shows_nothing_is_no_pass() -> None:
    """It fits, and says that it shows no fault any more."""
    with pytest.raises(Diverged, match="shows no fault any more"):
        replay(three_calls, "x1 3:cancel(A)")
