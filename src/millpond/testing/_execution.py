"""One schedule: the program runs first in, first out, and the world acts where it may.

Invariants:
    E1  The order of callbacks that are queued is never changed.
    E2  An event from outside is put at the tail of the queue. Descriptors speak at the
        beginning of an iteration, before its timers; threads between any two callbacks.
    E3  Time passes at the beginning of an iteration only, to the next deadline.
    E4  The same answers of the strategy give the same schedule.
"""

import asyncio
import contextvars
import inspect
from asyncio import events
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias, final

from millpond._base import chance_from, threads_started_by, wall_time_from
from millpond.testing._bounds import Bounds
from millpond.testing._faults import (
    Deadlock,
    Fault,
    Livelock,
    LoopFault,
    ScenarioError,
    TaskFailed,
    Violation,
)
from millpond.testing._fingerprint import fingerprint
from millpond.testing._loop import ExplorerLoop
from millpond.testing._schedule import Choice
from millpond.testing._seams import ExploredThreads
from millpond.testing._strategies import END, RUN, Cut, Strategy
from millpond.testing._world import Check, External, World

Scenario: TypeAlias = Callable[[World], object]

TICK: Final = "tick"
"""Time passes, to the next deadline."""

Budget: TypeAlias = tuple[int, int, int]
Visited: TypeAlias = dict[bytes, list[Budget]]

_EPOCH: Final = 1_000_000_000.0
"""What the wall clock shows when a schedule begins."""

_CHANCE: Final = 0.5
"""What chance gives. A scenario that wants more varied ones picks them itself."""

_ANY: Final = 1 << 30
"""A budget that is never used up."""


class Watcher(Protocol):
    """Hears what happens in one schedule."""

    def ran(self, execution: "Execution", handle: asyncio.Handle) -> None:
        """A callback has run."""
        ...

    def chose(self, execution: "Execution", label: str, options: Sequence[str]) -> None:
        """The world acted."""
        ...

    def failed(self, execution: "Execution") -> None:
        """The schedule ended with an error, and everything still stands as it was."""
        ...


@final
class Execution:
    """Runs a scenario once.

    Args:
        scenario: Called afresh, with a world of its own.
        strategy: Decides.
        bounds: What may be decided.
        visited: The states seen so far in this search, to be cut when seen again; None
            turns that off.
        watcher: Hears what happens, for a report.
        eager: Whether tasks begin at once.
        labels: Collects what the world could ever do.
        skip_repeats: Whether to leave out questions whose answer cannot matter. Off in the
            kit's own tests.
        verbose: Whether to keep, for each future, who made it.
    """

    def __init__(  # noqa: PLR0913 - each is a decision of the caller
        self,
        scenario: Scenario,
        strategy: Strategy,
        bounds: Bounds,
        *,
        visited: Visited | None = None,
        watcher: "Watcher | None" = None,
        eager: bool = False,
        labels: set[str] | None = None,
        skip_repeats: bool = True,
        verbose: bool = False,
    ) -> None:
        self._scenario = scenario
        self._strategy = strategy
        self._bounds = bounds
        self._visited = visited
        self._watcher = watcher
        self._labels = labels
        self._ask_everywhere = not skip_repeats
        self.loop = ExplorerLoop(self, eager=eager)
        self.loop.origins = {} if verbose else None
        self.world = World(self.loop, self)
        self.choices: list[Choice] = []
        self.steps = 0
        self.points = 0
        self.was_cut = False
        self.error: BaseException | None = None
        self._most_preemptions = _ANY if bounds.preemptions is None else bounds.preemptions
        self._most_deviations = _ANY if bounds.deviations is None else bounds.deviations
        self._preemptions = 0
        self._cancels = 0
        self._deviations = 0
        # Where we are in the loop's iteration.
        self._begun = False
        self._over = False
        self._ticked = False
        self._at_first = False  # the next callback is the first of its iteration
        self._left = 0  # callbacks left in this iteration
        self._running: asyncio.Handle | None = (
            None  # what runs, or ran last, and was not checked yet
        )
        # What the world could do when last asked, and whether asking again can matter.
        self._offered: frozenset[str] = frozenset()
        self._changed = True
        self._asked_at_boundary = False
        self._before = (0, 0, 0, 0)
        self._obligatory = False
        self._path: dict[bytes, tuple[int, Budget]] = {}
        self._outside = contextvars.Context()
        self._threads = ExploredThreads(self.world.thread)

    def run(self) -> "Execution":
        """Run it to its end. What went wrong is in `error`."""
        context = contextvars.Context()
        try:
            with (
                threads_started_by(self._threads),
                wall_time_from(lambda: _EPOCH + self.loop.now),
                chance_from(lambda: _CHANCE),
            ):
                context.run(self.loop.run_forever)
        except Cut:
            self.was_cut = True
        except (Fault, ScenarioError) as error:
            self.error = error
        if self.error is not None and self._watcher is not None:
            self._watcher.failed(self)
        return self

    def close(self) -> None:
        """Drop what the schedule left behind."""
        left = [actor.take_unstarted() for actor in self.world.actors.values()]
        self.loop.abandon(coroutine for coroutine in left if coroutine is not None)

    # -- what the loop asks --------------------------------------------------------------------

    def at_boundary(self) -> None:
        """A new iteration begins: descriptors may be ready, and time may have passed."""
        self._finish_callback()
        if not self._begun:
            self._begun = True
            self._begin()
        self._ticked = False
        self._ask(boundary=True)
        self._at_first = True
        if self._over:
            self._strategy.finish()
            self._judge()
            self.loop.stop()

    def before_callback(self, handle: asyncio.Handle) -> None:
        """A thread may append now."""
        if self._at_first:
            self._at_first = False
            self._left = self.loop.queued
            if self._ticked:
                # Timers were promoted behind what the selector gave; threads come behind those.
                self._changed = True
                if self._bounds.granularity == "callback":
                    self._ask(boundary=False)
        else:
            self._finish_callback()
            if self._bounds.granularity == "callback":
                self._ask(boundary=False)
        self._left -= 1
        if not handle._cancelled:
            self._running = handle
            self._before = self._visible(queued=self.loop.queued - 1)

    def _begin(self) -> None:
        try:
            made = self._scenario(self.world)
        except (Fault, ScenarioError):
            raise
        except Exception as error:
            msg = f"the scenario itself raised {type(error).__name__}: {error}"
            raise ScenarioError(msg) from error
        if inspect.iscoroutine(made):
            self.world.spawn("main", made)

    def _visible(self, *, queued: int) -> tuple[int, int, int, int]:
        loop = self.loop
        return queued, len(self.world.pending), len(loop.timers), loop.clock_reads

    def _finish_callback(self) -> None:
        handle, self._running = self._running, None
        if handle is None:
            return
        self.steps += 1
        if self._watcher is not None:
            self._watcher.ran(self, handle)
        if self._visible(queued=self.loop.queued) != self._before:
            self._changed = True
        for name, check in self.world.invariants:
            _hold(name, check, "after every callback")
        if self.loop.problems:
            self._report_problem()
        if self.steps >= self._bounds.steps:
            msg = f"no end after {self.steps} callbacks"
            raise Livelock(msg)

    # -- what the world does -------------------------------------------------------------------

    def _ask(self, *, boundary: bool) -> None:
        """Let the world act, as often as the strategy wants."""
        while True:
            busy = self.loop.queued > 0 or self._ticked
            if busy and not self._worth_asking(boundary=boundary):
                return
            options = self._options(boundary=boundary, busy=busy)
            if not options:
                self._over = not busy
                return
            if busy:
                if not self._changed and self._offered.issuperset(options):
                    return  # put in later, they would give the same queue
                self._offered = frozenset(options)
                options = [RUN, *options]
            elif not self._obligatory:
                self._offered = frozenset(options)
                options = [END, *options]
            else:
                self._offered = frozenset(options)
            self._changed, self._asked_at_boundary = False, boundary
            label = self._choose(options) if len(options) > 1 else self._take_only(options[0])
            if label is RUN:
                return
            if label is END:
                self._over = True
                return
            self._inject(label)

    def _worth_asking(self, *, boundary: bool) -> bool:
        """Whether the answer could lead anywhere that an earlier one did not.

        As long as no callback appended anything, nor read the clock, an event that is put in
        now stands where it would have stood before.
        """
        return self._changed or self._ask_everywhere or (boundary and not self._asked_at_boundary)

    def _options(self, *, boundary: bool, busy: bool) -> list[str]:
        if busy and self._preemptions >= self._most_preemptions:
            return []
        world = self.world
        for external in world.pending:
            if external.future is not None and external.future.done():
                world.pending = [
                    e for e in world.pending if e.future is None or not e.future.done()
                ]
                break
        options: list[str] = []
        self._obligatory = False
        if not self._ticked or not boundary:
            for external in self._possible():
                options.append(external.label)
                self._obligatory |= not external.optional
        if boundary and self._next_deadline() is not None:
            options.append(TICK)
            self._obligatory = True
        if self._cancels < self._bounds.cancels and (not self._ticked or not boundary):
            options += [
                actor.cancel_label
                for actor in world.actors.values()
                if actor.cancellable and actor.started and not actor.finished
            ]
        return options

    def _possible(self) -> Iterator[External]:
        """Give the events that may happen now."""
        groups: set[str] = set()
        for external in self.world.pending:
            if external.group is not None:
                if external.group in groups:
                    continue  # alike, and not started: one stands for all
                groups.add(external.group)
            if external.after <= self.world.happened:
                yield external

    def _next_deadline(self) -> float | None:
        if not self._ticked:
            return self.loop.next_deadline()
        now = self.loop.now
        later = [t.when() for t in self.loop.timers if not t._cancelled and t.when() > now]
        return min(later, default=None)

    def _inject(self, label: str) -> None:
        loop, world = self.loop, self.world
        if loop.queued or self._ticked:
            self._preemptions += 1
        self._changed = True
        if label == TICK:
            due = self._next_deadline()
            assert due is not None  # noqa: S101 - it was offered
            loop.now = max(loop.now, due)
            self._ticked = True
            return
        for actor in world.actors.values():
            if actor.cancel_label == label:
                self._cancels += 1
                loop.append(asyncio.Handle(actor.task.cancel, (), loop, self._outside))
                return
        external = next(e for e in world.pending if e.label == label)
        world.pending.remove(external)
        world.happened.update((external.label, external.base))
        if external.in_thread:
            self._run_beside(external)
        else:
            loop.append(asyncio.Handle(external.act, (), loop, self._outside))

    def _run_beside(self, external: External) -> None:
        """Run a thread's work where no loop is running, as in a thread."""
        events._set_running_loop(None)
        try:
            external.act()
        except Exception as error:
            msg = f"{external.label} raised {type(error).__name__}: {error}"
            raise LoopFault(msg) from error
        finally:
            events._set_running_loop(self.loop)

    # -- decisions -----------------------------------------------------------------------------

    def declared(self, label: str) -> None:
        """Hear of an event that may happen."""
        if self._labels is not None:
            self._labels.add(label)

    def pick(self, options: Sequence[str]) -> str:
        """Decide about data, in the middle of a callback."""
        if len(options) == 1:
            return options[0]
        return self._choose(list(options), data=True)

    def _take_only(self, label: str) -> str:
        self._note(label, [label])
        return label

    def _choose(self, options: list[str], *, data: bool = False) -> str:
        if self._deviations >= self._most_deviations:
            label = options[0]
        else:
            point = self.points
            self.points += 1
            if self._visited is not None and not data and self._strategy.is_fresh(point):
                self._cut_if_visited(self._visited)
            label = self._strategy.choose(point, options, self.steps)
            self._deviations += label != options[0]
        self._note(label, options)
        return label

    def _note(self, label: str, options: Sequence[str]) -> None:
        if label is RUN or label is END:
            return
        self.choices.append(Choice(self.steps, label, default=label == options[0]))
        if self._watcher is not None:
            self._watcher.chose(self, label, options)

    def _cut_if_visited(self, visited: Visited) -> None:
        key = self.digest()
        budget = (
            self._most_preemptions - self._preemptions,
            self._bounds.cancels - self._cancels,
            self._most_deviations - self._deviations,
        )
        before = visited.setdefault(key, [])
        if any(p >= budget[0] and c >= budget[1] and d >= budget[2] for p, c, d in before):
            # The same state again, on this very path, without anything from outside in between.
            on_its_own = not self._obligatory and self.loop.next_deadline() is None
            if on_its_own and self._path.get(key) == (len(self.choices), budget):
                msg = f"after {self.steps} callbacks the program is where it was before, by itself"
                raise Livelock(msg)
            raise Cut
        before.append(budget)
        self._path[key] = len(self.choices), budget

    def digest(self) -> bytes:
        """Return a fingerprint of all that the program can still observe."""
        loop, world = self.loop, self.world
        # Where in the iteration we are matters only to what happens at its end.
        left = self._left if loop.timers else 0
        roots: list[object] = [left, self._ticked, self._at_first]
        for handle in loop.queue:
            if not handle._cancelled:
                roots += ("ready", handle._callback, handle._args, handle._context)  # type: ignore[attr-defined] # private
        for timer in sorted(loop.timers, key=lambda timer: timer.when()):
            if not timer._cancelled:
                roots += ("timer", timer.when(), timer._callback, timer._args)  # type: ignore[attr-defined] # private
        for external in world.pending:
            # Its number says how often it was called, which nothing can observe.
            roots += ("event", external.label.partition("#")[0], external.act, external.future)
        roots += ("happened", frozenset(world.causes()), "tasks", *loop.tasks, "actors")
        roots += [actor.task if actor.started else None for actor in world.actors.values()]
        roots += [check for _, check in (*world.invariants, *world.finals)]
        return fingerprint(loop.now, roots, (loop, world, self))

    # -- verdicts ------------------------------------------------------------------------------

    def _report_problem(self) -> None:
        context = self.loop.problems[0]
        error = context.get("exception")
        if isinstance(error, ScenarioError | Fault):
            raise error
        said = f": {type(error).__name__}: {error}" if error is not None else ""
        msg = f"the loop reported {str(context.get('message'))!r}{said}"
        raise LoopFault(msg) from error

    def _judge(self) -> None:
        """Look at what the schedule left."""
        for actor in self.world.actors.values():
            if not actor.finished or actor.cancelled:
                continue
            error = actor.task.exception()
            if error is not None and not isinstance(error, actor.may_raise):
                msg = f"task {actor.name!r} ended with {type(error).__name__}: {error}"
                raise TaskFailed(msg) from error
        spawned = {actor.task for actor in self.world.actors.values() if actor.started}
        for task in self.loop.tasks:
            if task in spawned or not task.done() or task.cancelled() or not task._log_traceback:
                continue
            error = task.exception()
            said = f"{type(error).__name__}: {error}"
            msg = f"nobody looked at the error of task {task.get_name()!r}: {said}"
            raise TaskFailed(msg) from error
        daemons = {a.task for a in self.world.actors.values() if a.daemon and a.started}
        stuck = [t.get_name() for t in self.loop.tasks if not t.done() and t not in daemons]
        stuck += [a.name for a in self.world.actors.values() if not a.started and not a.daemon]
        if stuck:
            msg = f"nothing can happen any more, and these tasks still wait: {', '.join(stuck)}"
            raise Deadlock(msg)
        for name, check in self.world.finals:
            _hold(name, check, "at the end")


def _hold(name: str, check: Check, when: str) -> None:
    try:
        held = check()
    except Exception as error:
        what = f": {error}" if str(error) else ""
        said = what if isinstance(error, AssertionError) else f": {type(error).__name__}{what}"
        msg = f"{name!r}, which must hold {when}, does not{said}"
        raise Violation(msg) from error
    if held is False:
        msg = f"{name!r}, which must hold {when}, is False"
        raise Violation(msg)
