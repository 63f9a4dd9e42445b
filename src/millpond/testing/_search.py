"""A search: every schedule within the bounds, or a sample; and what it found, told well."""

import asyncio
import gc
import logging
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias, final

from millpond._base import at_least_one, not_negative
from millpond.errors import UsageError
from millpond.testing._bounds import Bounds
from millpond.testing._certificate import Certificate
from millpond.testing._counterexample import Counterexample, Recorder, name_callback
from millpond.testing._execution import Execution, Scenario, Visited, Watcher
from millpond.testing._faults import Fault, NeverAwaited, Nondeterministic
from millpond.testing._fence import Fence
from millpond.testing._loop import check_interpreter
from millpond.testing._schedule import Choice, read_schedule, write_schedule
from millpond.testing._split import Tally, in_processes
from millpond.testing._strategies import DepthFirst, Pct, RandomWalk, Replay, Share, Strategy

Mode: TypeAlias = Literal["exhaustive", "random", "pct"]

_TRIALS: Final = 500
"""Schedules that shrinking may try."""

_TIDY_EVERY: Final = 64
"""Schedules between two collections of garbage; none happens within a schedule."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How to explore."""

    bounds: Bounds = field(default_factory=Bounds)
    mode: Mode = "exhaustive"
    schedules: int | None = None
    """At most so many in each process; None is no limit, and for a sample 1,000."""
    seconds: float | None = None
    """At most so long, by the machine's clock; None is no limit."""
    seed: int = 0
    """Of the first sample; the next ones count on from it."""
    depth: int = 3
    """Of `pct`: the number of places at which the order matters, minus one, is lowered."""
    dedupe: bool = True
    """Whether a state that was seen before is cut."""
    eager: bool = False
    """Whether tasks begin at once, as under `asyncio.eager_task_factory` (Python 3.12)."""
    processes: int = 1
    """How many processes share an exhaustive search."""

    def __post_init__(self) -> None:
        if self.mode not in ("exhaustive", "random", "pct"):
            msg = f"`mode` must be 'exhaustive', 'random' or 'pct', got {self.mode!r}"
            raise ValueError(msg)
        if self.schedules is not None:
            at_least_one("schedules", self.schedules)
        not_negative("seconds", self.seconds, "seconds", optional=True)
        at_least_one("depth", self.depth)
        at_least_one("processes", self.processes)
        if self.eager and not hasattr(asyncio, "eager_task_factory"):
            msg = "`eager` needs Python 3.12 or newer; this one has no eager tasks"
            raise UsageError(msg)


@final
class Explorer:
    """One search: what it has tried so far.

    Args:
        scenario: What to try.
        name: What reports call it.
        search: How.
        outcomes: Called with every schedule that was run to its end.
        skip_repeats: See `Execution`.
    """

    def __init__(
        self,
        scenario: Scenario,
        name: str,
        search: Search,
        *,
        outcomes: Callable[[Execution], None] | None = None,
        skip_repeats: bool = True,
    ) -> None:
        check_interpreter()
        self._scenario = scenario
        self._name = name
        self._search = search
        self._outcomes = outcomes
        self._skip_repeats = skip_repeats
        self._labels: set[str] = set()
        self._schedules = 0
        self._cut = 0
        self._states: set[bytes] = set()
        self._callbacks = 0
        self._points = 1
        self._began = 0.0
        self._stopped_by: str | None = None

    def run(self) -> Certificate:
        """Search.

        Raises:
            Counterexample: With the first fault, shrunk.
            ScenarioError: If the scenario cannot be explored.
        """
        self._began = perf_counter()
        with _controlled() as control:
            self._compare_two_runs(control)
            if self._search.mode != "exhaustive":
                self._sample(control)
            elif self._search.processes == 1:
                self._exhaust(control)
        if self._search.mode == "exhaustive" and self._search.processes > 1:
            self._add(in_processes(self._search.processes, self._one_share))
        return self._certificate()

    def _certificate(self) -> Certificate:
        return Certificate(
            name=self._name,
            mode=self._search.mode,
            bounds=self._search.bounds,
            schedules=self._schedules,
            cut=self._cut,
            states=len(self._states),
            callbacks=self._callbacks,
            seconds=perf_counter() - self._began,
            complete=self._search.mode == "exhaustive" and self._stopped_by is None,
            stopped_by=self._stopped_by,
            world=tuple(sorted(self._labels)),
            eager=self._search.eager,
        )

    def _one_share(self, share: Share) -> Tally:
        """Do one process's part of the search."""
        with _controlled() as control:
            self._exhaust(control, share)
        return Tally(
            schedules=self._schedules,
            cut=self._cut,
            callbacks=self._callbacks,
            states=frozenset(self._states),
            labels=frozenset(self._labels),
            stopped_by=self._stopped_by,
        )

    def _add(self, tallies: Sequence[Tally]) -> None:
        for tally in tallies:
            self._schedules += tally.schedules
            self._cut += tally.cut
            self._callbacks += tally.callbacks
            self._states |= tally.states
            self._labels |= tally.labels
            self._stopped_by = self._stopped_by or tally.stopped_by

    def _exhaust(self, control: "_Control", share: Share | None = None) -> None:
        deviations = self._search.bounds.deviations
        for most in (None,) if deviations is None else range(deviations + 1):
            bounds = _with_deviations(self._search.bounds, most)
            visited: Visited | None = {} if self._search.dedupe else None
            strategy = DepthFirst(share)
            more = True
            while more:
                self._one(strategy, bounds, control, visited)
                more = strategy.advance()
                if more and self._is_over():
                    break
            self._states.update(visited or ())
            if self._stopped_by is not None:
                return

    def _sample(self, control: "_Control") -> None:
        search = self._search
        seed = search.seed
        for number in range(search.schedules or 1_000):
            strategy: Strategy = (
                RandomWalk(seed + number)
                if search.mode == "random"
                else Pct(seed + number, depth=search.depth, horizon=self._points)
            )
            self._one(strategy, search.bounds, control, None)
            if search.seconds is not None and perf_counter() - self._began >= search.seconds:
                return

    def _is_over(self) -> bool:
        search = self._search
        if search.schedules is not None and self._schedules >= search.schedules:
            self._stopped_by = f"the limit of {search.schedules:,} schedules"
        elif search.seconds is not None and perf_counter() - self._began >= search.seconds:
            self._stopped_by = f"the limit of {search.seconds:g} s"
        return self._stopped_by is not None

    def _one(
        self, strategy: Strategy, bounds: Bounds, control: "_Control", visited: Visited | None
    ) -> None:
        execution = self._execution(strategy, bounds, visited=visited)
        execution.run()
        control.look(execution)
        if not isinstance(strategy, DepthFirst) or strategy.is_ours:
            self._schedules += 1
            self._cut += execution.was_cut
        self._callbacks += execution.steps
        self._points = max(self._points, execution.points)
        if self._outcomes is not None and not execution.was_cut:
            self._outcomes(execution)
        execution.close()
        control.tidy()
        if execution.error is not None:
            self._explain(execution, bounds, control)

    def _execution(
        self,
        strategy: Strategy,
        bounds: Bounds,
        *,
        visited: Visited | None = None,
        watcher: Watcher | None = None,
        verbose: bool = False,
    ) -> Execution:
        return Execution(
            self._scenario,
            strategy,
            bounds,
            visited=visited,
            eager=self._search.eager,
            labels=self._labels,
            skip_repeats=self._skip_repeats,
            watcher=watcher,
            verbose=verbose,
        )

    # -- what was found ------------------------------------------------------------------------

    def _explain(self, found: Execution, bounds: Bounds, control: "_Control") -> None:
        error = found.error
        assert error is not None  # noqa: S101 - the caller looked
        line = write_schedule(found.choices)
        if isinstance(error, Nondeterministic) or not isinstance(error, Fault):
            raise _with_schedule(error, line) from error.__cause__
        choices = self._shrink(found, bounds, control)
        told = self._replay(write_schedule(choices), bounds, control, found=error)
        raise told from told.fault.__cause__

    def _shrink(self, found: Execution, bounds: Bounds, control: "_Control") -> list[Choice]:
        """Leave out one choice after the other as long as the same kind of fault remains."""
        choices, kind = found.choices, type(found.error)
        bounds = _with_deviations(bounds, None)
        again, trials = True, int(_TRIALS)
        while again:
            again = False
            for index, choice in enumerate(choices):
                if choice.default or trials == 0:
                    continue
                trials -= 1
                fewer = write_schedule([*choices[:index], *choices[index + 1 :]])
                trial = self._execution(Replay(read_schedule(fewer), strict=False), bounds)
                trial.run()
                control.look(trial)
                trial.close()
                if type(trial.error) is kind and _unlike(trial.choices) < _unlike(choices):
                    choices, again = trial.choices, True
                    break
        return choices

    def replay(self, line: str) -> Counterexample | None:
        """Run one schedule; return what it shows, or None if it shows nothing.

        Raises:
            Diverged: If it does not fit.
        """
        bounds = Bounds(
            preemptions=None,
            cancels=_MANY,
            steps=self._search.bounds.steps,
            granularity=self._search.bounds.granularity,
        )
        with _controlled() as control:
            return self._told(line, bounds, control)

    def _told(self, line: str, bounds: Bounds, control: "_Control") -> Counterexample | None:
        recorder = Recorder()
        execution = self._execution(
            Replay(read_schedule(line)), bounds, watcher=recorder, verbose=True
        )
        execution.run()
        control.look(execution)
        execution.close()
        error = execution.error
        if error is None:
            return None
        if not isinstance(error, Fault):
            raise _with_schedule(error, line) from error.__cause__
        return Counterexample(
            self._name,
            error,
            line,
            log=recorder.log,
            waiting=recorder.waiting,
            found_after=self._schedules,
        )

    def _replay(
        self, line: str, bounds: Bounds, control: "_Control", found: Fault
    ) -> Counterexample:
        told = self._told(line, _with_deviations(bounds, None), control)
        if told is None or type(told.fault) is not type(found):
            now = "no fault" if told is None else f"{type(told.fault).__name__}: {told.fault}"
            msg = (
                f"{self._name}: {line!r} ended with {type(found).__name__}: {found}; run again, it"
                f" ends with {now}: the scenario is not deterministic"
            )
            raise Nondeterministic(msg)
        return told

    # -- is it deterministic? ------------------------------------------------------------------

    def _compare_two_runs(self, control: "_Control") -> None:
        """Run the default schedule twice: the program must take the same course."""
        courses: list[list[str]] = []
        for _ in range(2):
            course = _Course()
            execution = self._execution(
                Replay(read_schedule("x1 fifo")), self._search.bounds, watcher=course
            )
            execution.run()
            control.look(execution)
            execution.close()
            if isinstance(execution.error, UsageError):
                found = _with_schedule(execution.error, "x1 fifo")
                raise found from execution.error.__cause__
            courses.append(course.steps)
        control.tidy()
        if courses[0] == courses[1]:
            return
        same = [one == two for one, two in zip(*courses, strict=False)]
        where = same.index(False) if False in same else len(same)
        one, two = (course[where] if where < len(course) else "the end" for course in courses)
        msg = (
            f"{self._name}: the same schedule, run twice, went another way after {where} steps:"
            f" {one!r}, then {two!r}; something beside the world decides (a global, an address,"
            f" a real clock, chance); schedule: 'x1 fifo'"
        )
        raise Nondeterministic(msg)


_MANY: Final = 1_000_000


@final
class _Course:
    """What ran, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def ran(self, execution: Execution, handle: asyncio.Handle) -> None:  # noqa: ARG002 - of the protocol
        callback: Any = handle._callback  # type: ignore[attr-defined] # private
        self.steps.append(name_callback(callback))

    def chose(self, execution: Execution, label: str, options: object) -> None:  # noqa: ARG002 - the same
        self.steps.append(label)

    def failed(self, execution: Execution) -> None:
        self.steps.append(f"{type(execution.error).__name__}: {execution.error}")


@final
class _Control:
    """What surrounds all schedules of a search."""

    def __init__(self, fence: Fence, seen: "list[warnings.WarningMessage]") -> None:
        self._fence = fence
        self._seen = seen
        self._runs = 0
        self.others: dict[tuple[str, int, str], warnings.WarningMessage] = {}

    def look(self, execution: Execution) -> None:
        """Find what the program hid: a breach that it swallowed, a coroutine that it dropped."""
        if self._fence.breach is not None:
            execution.error, self._fence.breach = self._fence.breach, None
        for warning in self._seen:
            text = str(warning.message)
            if issubclass(warning.category, RuntimeWarning) and text.endswith("was never awaited"):
                if execution.error is None and not execution.was_cut:
                    execution.error = NeverAwaited(text)
            elif not issubclass(warning.category, ResourceWarning):
                # What is dropped with a schedule was not the program's to release.
                self.others.setdefault((warning.filename, warning.lineno, text), warning)
        self._seen.clear()

    def tidy(self) -> None:
        """Between two schedules: forget the warnings of closing, and collect garbage."""
        self._runs += 1
        if self._runs % _TIDY_EVERY == 0:
            gc.collect(0)
        self._seen.clear()


@contextmanager
def _controlled() -> Generator[_Control]:
    """Keep the real world out, and chance: no garbage is collected within a schedule."""
    running = asyncio._get_running_loop()
    if running is not None:
        msg = "`explore` runs a loop of its own; call it from outside of any running loop"
        raise UsageError(msg)
    collecting, muted = gc.isenabled(), logging.root.manager.disable
    gc.disable()
    # Thousands of schedules would log; and whoever keeps the records, as pytest does, keeps the
    # frames of their errors, with all that a schedule had in its hands.
    logging.disable()
    control: _Control | None = None
    try:
        with warnings.catch_warnings(record=True) as seen, Fence() as fence:
            warnings.simplefilter("always")
            control = _Control(fence, seen)
            try:
                yield control
            finally:
                # While nobody hears them: what the last schedules left complains when it goes.
                gc.collect()
    finally:
        logging.disable(muted)
        if collecting:
            gc.enable()
        for warning in control.others.values() if control is not None else ():
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _with_deviations(bounds: Bounds, deviations: int | None) -> Bounds:
    return Bounds(
        preemptions=bounds.preemptions,
        cancels=bounds.cancels,
        deviations=deviations,
        steps=bounds.steps,
        granularity=bounds.granularity,
    )


def _with_schedule(error: BaseException, line: str) -> BaseException:
    if isinstance(error, UsageError):
        return type(error)(f"{error}; schedule: {line!r}")
    return error


def _unlike(choices: list[Choice]) -> int:
    return sum(not choice.default for choice in choices)
