"""Virtual time, a small fake outside world, and the check that a run left nothing behind."""

import asyncio
import gc
import inspect
import selectors
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import pytest

from millpond.flow import Capacity, LimiterStatistics, Outcome, Pipeline, Run

V = TypeVar("V")

DEADLINE_SECONDS = 1000.0
"""Virtual: a test that hangs reaches it at once."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of this folder."""
    config.addinivalue_line(
        "markers", "virtual_time: async tests whose loop jumps to the next timer when it is idle"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test marked ``virtual_time`` on a loop of its own."""
    function = pyfuncitem.obj
    marked = pyfuncitem.get_closest_marker("virtual_time") is not None
    if not marked or not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    virtually(lambda: function(**arguments))
    return True


class _JumpingSelector(selectors.SelectSelector):
    """Does not sleep: tells the loop how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "deadlock: no task can run and no timer is set"
            self.slept += max(0.0, timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock starts at 0 and jumps to the next timer when all tasks wait."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self.complaints: list[str] = []
        self.set_exception_handler(self._complain)

    def time(self) -> float:
        """Return the virtual time."""
        return self._jumping.slept

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context['message']}: {context.get('exception')!r}")


def virtually(main: Callable[[], Awaitable[V]]) -> V:
    """Run ``main()`` in virtual time; no task and no lost error may be left by it."""
    loop = VirtualLoop()

    async def bounded() -> V:
        async with asyncio.timeout(DEADLINE_SECONDS):
            result = await main()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return result

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(bounded())
        gc.collect(0)
    gc.collect(1)
    assert not loop.complaints, loop.complaints
    return result


async def turns(count: int) -> None:
    """Let the loop turn *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def quiet() -> None:
    """Return when nothing but time could change anything: more turns than any chain takes."""
    await turns(30)


def small(physical: int = 1, t_slots: int = 2, q_slots: int = 2, q_pending: int = 2) -> Capacity:
    """Return capacities that are soon exhausted."""
    return Capacity(physical=physical, t_slots=t_slots, q_slots=q_slots, q_pending=q_pending)


def limiters(run: Run[Any, Any]) -> Mapping[str, LimiterStatistics]:
    """Return the state of a run's four limiters, which `RunStatistics` does not show."""
    machinery = run._machinery
    assert machinery is not None
    return {
        limiter.name: limiter.statistics()
        for limiter in (
            machinery.physical,
            machinery.t_slots,
            machinery.q_slots,
            machinery.pending,
        )
    }


async def drained(run: Run[Any, Any]) -> list[Outcome[Any, Any]]:
    """Read a run to its end; the books must balance at every outcome."""
    outcomes: list[Outcome[Any, Any]] = []
    async for outcome in run:
        run.check_invariants()
        outcomes.append(outcome)
    return outcomes


async def read_to_error(run: Run[Any, Any]) -> tuple[list[Outcome[Any, Any]], BaseException]:
    """Read a run that ends with an error; return its outcomes and the error."""
    outcomes: list[Outcome[Any, Any]] = []
    try:
        async for outcome in run:
            run.check_invariants()
            outcomes.append(outcome)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit and its kin are what tests raise
        return outcomes, error
    pytest.fail("the run ended without an error")


def statuses(outcomes: list[Outcome[Any, Any]]) -> dict[Any, str]:
    """Return the status by item."""
    assert len({outcome.item for outcome in outcomes}) == len(outcomes), "an item ended twice"
    return {outcome.item: outcome.status.value for outcome in outcomes}


class World(Generic[V]):
    """What a pipeline meets outside: makes T, answers, consumes, disposes, and keeps count.

    Every stage takes one loop turn unless a test puts a function of its own in its place.
    """

    def __init__(self) -> None:
        self.made: list[int] = []
        self.answered: list[str] = []
        self.consumed: list[int] = []
        self.discarded_t: Counter[int] = Counter()
        self.discarded_q: Counter[str] = Counter()

    async def supply(self) -> int:
        """Make a T: a number."""
        await asyncio.sleep(0)
        return self.make()

    def make(self) -> int:
        """Count one more T."""
        self.made.append(len(self.made))
        return self.made[-1]

    async def request(self, item: int) -> str:
        """Answer *item*."""
        await asyncio.sleep(0)
        return self.answer(item)

    def answer(self, item: int) -> str:
        """Count one more Q."""
        self.answered.append(f"answer {item}")
        return self.answered[-1]

    async def consume(self, _t: int, q: str, item: int) -> str:
        """Check that the answer belongs to the item."""
        await asyncio.sleep(0)
        assert q == f"answer {item}"
        self.consumed.append(item)
        return f"value {item}"

    def discard_t(self, t: int) -> Awaitable[object] | None:
        """Count a disposal."""
        self.discarded_t[t] += 1
        return None

    def discard_q(self, q: str) -> Awaitable[object] | None:
        """Count a disposal."""
        self.discarded_q[q] += 1
        return None

    def pipeline(self, **settings: object) -> Pipeline[Any, Any, Any, Any]:
        """Return a small pipeline over this world, with *settings* put over it."""
        defaults: dict[str, Any] = {
            "supply": self.supply,
            "request": self.request,
            "consume": self.consume,
            "discard_t": self.discard_t,
            "discard_q": self.discard_q,
            "capacity": small(),
        }
        return Pipeline(**(defaults | settings))

    def check_over(self, run: Run[Any, Any], outcomes: list[Outcome[Any, Any]]) -> None:
        """Nothing is left: R2, and each T and each Q disposed of exactly once."""
        check_over(run, outcomes)
        assert self.discarded_t == Counter(self.made), "every T is disposed of exactly once"
        assert self.discarded_q == Counter(self.answered), "every Q is disposed of exactly once"


def check_over(run: Run[Any, Any], outcomes: list[Outcome[Any, Any]]) -> None:
    """One outcome per pulled item, no stock, no work, and everything that was taken is back."""
    run.check_invariants()
    now = run.statistics()
    assert (now.open, now.ended) == (0, now.pulled)
    assert len(outcomes) + now.unread == now.pulled
    assert (now.t_stock, now.q_stock, now.live_t) == (0, 0, 0)
    assert (now.producing, now.in_flight, now.consuming) == (0, 0, 0)
    for name, limiter in limiters(run).items():
        assert limiter.free == limiter.capacity, f"{name}: {limiter}"
        assert limiter.queued == 0, f"{name}: {limiter}"
