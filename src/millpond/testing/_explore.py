"""The front of the explorer: `explore` and `replay`."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, final, overload

from millpond.testing._bounds import Bounds
from millpond.testing._certificate import Certificate
from millpond.testing._counterexample import Counterexample
from millpond.testing._execution import Scenario
from millpond.testing._faults import Diverged, ScenarioError
from millpond.testing._search import Explorer, Mode, Search
from millpond.testing._world import World


@overload
def explore(
    scenario: Scenario,
    /,
    *,
    name: str | None = None,
    bounds: Bounds | None = None,
    mode: Mode = "exhaustive",
    schedules: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    depth: int = 3,
    dedupe: bool = True,
    eager: bool = False,
    processes: int = 1,
) -> Certificate: ...
@overload
def explore(
    *,
    name: str | None = None,
    bounds: Bounds | None = None,
    mode: Mode = "exhaustive",
    schedules: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    depth: int = 3,
    dedupe: bool = True,
    eager: bool = False,
    processes: int = 1,
) -> Callable[[Callable[..., object]], Callable[..., None]]: ...
def explore(  # noqa: PLR0913 - each is a decision of the caller
    scenario: Scenario | None = None,
    /,
    *,
    name: str | None = None,
    bounds: Bounds | None = None,
    mode: Mode = "exhaustive",
    schedules: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    depth: int = 3,
    dedupe: bool = True,
    eager: bool = False,
    processes: int = 1,
) -> Certificate | Callable[[Callable[..., object]], Callable[..., None]]:
    """Run *scenario* under every behaviour of the outside world within the bounds.

    The queue of the loop is never reordered. What is tried: when each external event arrives
    (or that it never does), when time passes, when somebody cancels, which declared outcome
    occurs. Without a scenario, a decorator for a test function whose first parameter is the
    world.

    Args:
        scenario: Called with a `World`, afresh for every schedule.
        name: What reports call it; the scenario's own name unless given.
        bounds: How far to go.
        mode: ``"exhaustive"``, or a sample: ``"random"`` or ``"pct"``.
        schedules: At most so many. None: no limit, and 1,000 for a sample.
        seconds: At most so long by the machine's clock. None: no limit.
        seed: Of a sample. The same seed gives the same schedules.
        depth: Of ``"pct"``: priorities are lowered at ``depth - 1`` places.
        dedupe: Whether to cut a schedule that comes to a state that was seen before. Much
            quicker. Switch it off if the scenario has state that cannot be seen from its
            tasks and checks, such as globals.
        eager: Whether tasks begin at once, as under `asyncio.eager_task_factory`.
        processes: How many forked processes share an exhaustive search. Each knows only the
            states that it has seen itself, so two take more schedules than one, in less time.

    Returns:
        What was covered. It is true only if the search was exhaustive and came to its end.

    Raises:
        Counterexample: With the first fault, shrunk to as few unusual events as will do.
        ScenarioError: If the scenario itself is at fault: it is not deterministic, it calls
            the real world, it is used on an interpreter that is not supported.
        UsageError: Within a running loop.
    """
    search = Search(
        bounds=bounds or Bounds(),
        mode=mode,
        schedules=schedules,
        seconds=seconds,
        seed=seed,
        depth=depth,
        dedupe=dedupe,
        eager=eager,
        processes=processes,
    )
    if scenario is None:
        return functools.partial(_as_test, search=search, name=name)
    return Explorer(scenario, name or name_of(scenario), search).run()


def replay(
    scenario: Scenario,
    schedule: str,
    /,
    *,
    bounds: Bounds | None = None,
    eager: bool = False,
) -> Counterexample:
    """Run one schedule again and return what it shows.

    Args:
        scenario: The one that it was found with.
        schedule: The line of the report, such as ``"x1 11:cancel(C1)"``.
        bounds: Only `steps` and `granularity` matter here.
        eager: As it was found.

    Raises:
        Diverged: If the schedule does not fit, or no longer fails. That is never a pass.
        ValueError: If it is not a schedule.
    """
    search = Search(bounds=bounds or Bounds(), eager=eager)
    found = Explorer(scenario, name_of(scenario), search).replay(schedule)
    if found is None:
        msg = f"{schedule!r} fits, and shows no fault any more: mended, or another scenario"
        raise Diverged(msg)
    return found


def name_of(scenario: Scenario) -> str:
    """Return what reports call *scenario*."""
    if isinstance(scenario, functools.partial):
        return name_of(scenario.func)
    return getattr(scenario, "__name__", type(scenario).__name__)


@final
class Incomplete(AssertionError):
    """A search found no fault, and did not try everything that it was asked to try."""


@final
class ExploredTest:
    """What a test made by ``@explore(...)`` is about."""

    def __init__(self, function: Callable[..., object], search: Search, name: str) -> None:
        self.function = function
        self.search = search
        self.name = name

    def explorer(self, **arguments: object) -> Explorer:
        """Return the search, not begun."""

        def scenario(world: World) -> object:
            return self.function(world, **arguments)

        return Explorer(scenario, self.name, self.search)


def explored_test(function: object) -> ExploredTest | None:
    """Return what the test *function* explores; None if it is not made by ``@explore(...)``."""
    found = getattr(function, "__millpond_explored__", None)
    return found if isinstance(found, ExploredTest) else None


def check(certificate: Certificate) -> None:
    """Refuse an exhaustive search that ended early.

    Raises:
        Incomplete: With the limit that ended it.
    """
    if certificate.mode == "exhaustive" and not certificate.complete:
        msg = f"{certificate}; raise the limit, or lower the bounds"
        raise Incomplete(msg)


def _as_test(
    function: Callable[..., object], *, search: Search, name: str | None
) -> Callable[..., None]:
    """Return a test function whose call explores *function*."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        msg = f"{function.__qualname__} needs a first parameter, which will be the world"
        raise ScenarioError(msg)
    explored = ExploredTest(function, search, name or function.__name__)

    @functools.wraps(function)
    def test(**arguments: object) -> None:
        check(explored.explorer(**arguments).run())

    facts: Any = test
    facts.__signature__ = inspect.Signature(parameters[1:])  # the others may be fixtures
    facts.__millpond_explored__ = explored
    return test
