"""What a scenario can declare, and what each declaration makes the world do."""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millpond._base import chance, offload, start_batch_thread, wall_time
from millpond.testing import Bounds, Counterexample, Deadlock, TaskFailed, World, explore

ANY = Bounds(preemptions=None, cancels=1)


def ends(make: Any, bounds: Bounds = ANY, **options: Any) -> set[Any]:
    """Explore *make*, which gets the world and a function to call with the result."""
    found: set[Any] = set()

    def scenario(world: World) -> None:
        made: list[Any] = []
        make(world, made.append)
        world.final("noted", lambda: found.add(tuple(made)))

    assert explore(scenario, bounds=bounds, dedupe=False, **options)
    return found


def test_every_outcome_of_a_call_occurs() -> None:
    """Values, errors by instance and by class, functions, and never."""

    def make(world: World, note: Any) -> None:
        async def ask() -> None:
            try:
                note(await world.io("ask", 1, lambda: 2, ValueError("no"), OSError, may_hang=True))
            except (ValueError, OSError) as error:
                note(type(error).__name__)

        world.spawn("A", ask(), daemon=True)

    assert ends(make) == {(1,), (2,), ("ValueError",), ("OSError",), ()}


def test_optional_events_may_never_come_and_others_must() -> None:
    """And in any order."""

    def make(world: World, note: Any) -> None:
        world.event("a", lambda: note("a"))
        world.event("b", lambda: note("b"), optional=True)

    assert ends(make) == {("a",), ("a", "b"), ("b", "a")}


def test_a_cause_comes_before_its_effect() -> None:
    """`after` holds for events and for calls; a cause that never happens keeps its effect away."""

    def make(world: World, note: Any) -> None:
        async def send() -> None:
            await world.io("send", may_hang=True)
            note("sent")

        world.spawn("P", send(), daemon=True)
        world.event("answer", lambda: note("answer"), after=("P.send",))

    # Once it is sent, the answer may well be here before the sender runs on.
    assert ends(make) == {(), ("sent", "answer"), ("answer", "sent")}


def test_every_pick_is_tried() -> None:
    """A pick is a choice like any other."""

    def make(world: World, note: Any) -> None:
        async def pick() -> None:
            note(world.pick("n", 1, 2, 3))
            note(world.pick("n", "x", "y"))

        world.spawn("A", pick())

    assert ends(make) == {(n, x) for n in (1, 2, 3) for x in "xy"}


def test_a_cancel_reaches_every_state_of_a_task() -> None:
    """Waiting, done but not resumed, finished; one that waits to start runs to its first wait."""

    def make(world: World, note: Any) -> None:
        async def work() -> None:
            note("began")
            answer = world.io("call")
            try:
                await answer
            except asyncio.CancelledError:
                note("resumed never" if not answer.cancelled() else "while waiting")
                raise
            note("ended")

        world.spawn("A", work(), cancel=True)

    assert ends(make) == {
        ("began", "while waiting"),
        ("began", "resumed never"),
        ("began", "ended"),
    }


def test_tasks_start_at_any_time_and_alike_ones_once() -> None:
    """`anytime` makes the start an event; `group` tries one order of those that are alike."""

    def make_of(group: str | None) -> Any:
        def make(world: World, note: Any) -> None:
            async def work(name: str) -> None:
                note(name)

            for name in "ABC":
                world.spawn(name, work(name), anytime=True, group=group)

        return make

    assert len(ends(make_of(None))) == 6
    assert ends(make_of("alike")) == {("A", "B", "C")}


def test_who_waits_at_the_end_is_a_deadlock_unless_a_daemon() -> None:
    """The report names the task, the place and the primitive, through a context manager."""

    def scenario(world: World) -> None:
        lock = asyncio.Lock()

        @asynccontextmanager
        async def held() -> AsyncIterator[None]:
            async with lock:
                yield

        async def work() -> None:
            async with held(), held():
                pass

        world.spawn("W", work())

    with pytest.raises(Counterexample, match="these tasks still wait: W") as found:
        explore(scenario)
    assert isinstance(found.value.fault, Deadlock)
    (line,) = found.value.waiting
    assert line.startswith("W: ")
    assert "test_world.py" in line
    assert "held" in line
    assert "Lock.acquire" in line


def test_errors_that_are_expected_are_none() -> None:
    """`may_raise` allows them, and no others."""

    def scenario(allowed: tuple[type[Exception], ...]) -> Any:
        def make(world: World) -> None:
            async def work() -> None:
                await world.io("call", ValueError("no"))

            world.spawn("W", work(), may_raise=allowed)

        return make

    assert explore(scenario((ValueError,)))
    with pytest.raises(Counterexample, match=r"task 'W' ended with ValueError: no") as found:
        explore(scenario((OSError,)))
    assert isinstance(found.value.fault, TaskFailed)


def test_time_passes_only_by_timers_and_races_with_calls() -> None:
    """A timeout and its call: either may win, also when the call ends in the same moment."""

    def make(world: World, note: Any) -> None:
        async def work() -> None:
            try:
                async with asyncio.timeout(180):
                    await world.io("call")
            except TimeoutError:
                note(asyncio.get_running_loop().time())
            else:
                note("in time")

        world.spawn("W", work())

    assert ends(make, Bounds(preemptions=None, cancels=0)) == {("in time",), (180.0,)}


def test_deadlines_come_in_their_order() -> None:
    """Cancelled timers never; equal ones in the loop's order."""

    def make(world: World, note: Any) -> None:
        async def work() -> None:
            loop = asyncio.get_running_loop()
            for delay in (3, 1, 2):
                loop.call_later(delay, note, delay)
            loop.call_later(0.5, note, "never").cancel()
            await asyncio.sleep(4)

        world.spawn("W", work())

    assert ends(make, Bounds(preemptions=None, cancels=0)) == {(1, 2, 3)}


def test_threads_become_events() -> None:
    """`asyncio.to_thread`, `offload`, and a thread that takes batches."""

    def make(world: World, note: Any) -> None:
        async def work() -> None:
            loop = asyncio.get_running_loop()
            note(await asyncio.to_thread(lambda: 1) + await offload(lambda: 1))
            heard: asyncio.Queue[int] = asyncio.Queue()

            def take(batch: list[int]) -> bool:
                with pytest.raises(RuntimeError):
                    asyncio.get_running_loop()
                loop.call_soon_threadsafe(heard.put_nowait, len(batch))
                return True

            put = start_batch_thread("writer", take, most=2)
            for thing in range(2):
                put(thing)
                await asyncio.sleep(0)
            sizes = [await heard.get()]
            if sizes == [1]:
                sizes.append(await heard.get())
            note(tuple(sizes))

        world.spawn("W", work())

    assert ends(make, Bounds(preemptions=None, cancels=0)) == {(2, (2,)), (2, (1, 1))}


def test_a_scenario_may_be_async() -> None:
    """It is the task `main` then."""

    async def scenario(world: World) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(asyncio.sleep(1))
        await asyncio.gather(world.io("a"), world.io("b"))

    certificate = explore(scenario)
    assert certificate
    assert {"main.a", "main.b"} <= set(certificate.world)


def test_the_wall_clock_and_chance_are_fixed() -> None:
    """Of the library: stamps follow the virtual time, chance is always the same."""

    def make(world: World, note: Any) -> None:
        async def work() -> None:
            before = wall_time()
            await asyncio.sleep(5)
            note((wall_time() - before, chance()))

        world.spawn("W", work())

    assert ends(make) == {((5.0, 0.5),)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs eager tasks")
def test_eager_tasks_begin_at_once() -> None:
    """With `eager`, a task runs to its first wait within `create_task`."""

    def make(world: World, note: Any) -> None:
        async def child() -> None:
            note("child")

        async def work() -> None:
            task = asyncio.ensure_future(child())
            note("parent")
            await task

        world.spawn("W", work())

    assert ends(make, eager=True) == {("child", "parent")}
    assert ends(make) == {("parent", "child")}


def test_the_same_seed_gives_the_same_sample() -> None:
    """And another seed, as a rule, another one."""

    def courses(seed: int, mode: Any) -> list[Any]:
        seen: list[Any] = []

        def scenario(world: World) -> None:
            made: list[str] = []
            for name in "ABC":
                world.event(name, functools.partial(made.append, name))
            world.final("noted", lambda: seen.append(tuple(made)))

        explore(scenario, mode=mode, schedules=10, seed=seed)
        return seen[2:]

    for mode in ("random", "pct"):
        assert courses(1, mode) == courses(1, mode)
        assert len(set(courses(1, mode))) > 1
        assert courses(1, mode) != courses(2, mode)
