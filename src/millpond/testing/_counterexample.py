"""What an exploration found: the fault, the schedule that leads to it, and the story."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final, final

from millpond.testing._describe import describe_task
from millpond.testing._execution import Execution
from millpond.testing._strategies import END, RUN
from millpond.testing._world import Settle

_NEAR: Final = 40
"""Lines of the log that are shown before the fault."""

_REPEATS: Final = 20
"""How often lines must repeat to be shown once."""


@final
class Counterexample(AssertionError):
    """A schedule in which the code under test does what it must not.

    Attributes:
        fault: What is wrong.
        schedule: The line that replays it.
        log: The callbacks, with the events of the world between them.
        waiting: Who still waits, and where.
    """

    def __init__(  # noqa: PLR0913 - each is a decision of the caller
        self,
        name: str,
        fault: BaseException,
        schedule: str,
        *,
        log: Sequence[str] = (),
        waiting: Sequence[str] = (),
        found_after: int = 0,
    ) -> None:
        super().__init__(name, fault, schedule)
        self.name = name
        self.fault = fault
        self.schedule = schedule
        self.log = tuple(log)
        self.waiting = tuple(waiting)
        self.found_after = found_after
        self.replay_with = schedule
        """What to type; pytest knows a better way than the bare line."""

    def __reduce__(self) -> tuple[Any, ...]:
        fault = type(self.fault)(str(self.fault))
        return _revive, (self.name, fault, self.schedule, self.log, self.waiting, self.found_after)

    def __str__(self) -> str:
        lines = [f"{self.name}: {type(self.fault).__name__}: {self.fault}"]
        lines.append(f"replay with: {self.replay_with}")
        lines.append("first in, first out, except for the lines marked >>>:")
        lines += _near_the_end(self.log)
        if self.waiting:
            lines += ["who still waits:", *(f"      {line}" for line in self.waiting)]
        return "\n".join(lines)


def _near_the_end(log: Sequence[str]) -> list[str]:
    """Return the last lines; if they only repeat themselves, the part that is repeated, once."""
    texts = [line[8:] for line in log]  # without the number of the callback
    for period in range(1, _NEAR // 2):
        same = 0
        while same + period < len(texts) and texts[-1 - same] == texts[-1 - same - period]:
            same += 1
        repeats = same // period
        if repeats >= _REPEATS:
            before = len(log) - period * (repeats + 1)
            shown = log[max(0, before - _NEAR) : before + period]
            return [*_skipped(before - _NEAR), *shown, f"      ... and this again {repeats} times"]
    return [*_skipped(len(log) - _NEAR), *log[-_NEAR:]]


def _skipped(count: int) -> list[str]:
    return [f"      ... {count} earlier lines"] if count > 0 else []


def _revive(  # noqa: PLR0913, PLR0917 - what `__reduce__` gave
    name: str,
    fault: BaseException,
    schedule: str,
    log: Sequence[str],
    waiting: Sequence[str],
    found_after: int,
) -> Counterexample:
    return Counterexample(name, fault, schedule, log=log, waiting=waiting, found_after=found_after)


@final
class Recorder:
    """Writes the story of one schedule."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.waiting: list[str] = []

    def ran(self, execution: Execution, handle: asyncio.Handle) -> None:
        """A callback has run: say which, and where its task is now."""
        callback: Any = handle._callback  # type: ignore[attr-defined] # private
        task = getattr(callback, "__self__", None)
        if isinstance(task, asyncio.Task) and getattr(callback, "__name__", "") != "cancel":
            what = self._describe(execution, task)
        else:
            what = f"[{name_callback(callback)}]"
        self.log.append(f"  {execution.steps:5} {what}")

    def chose(self, execution: Execution, label: str, options: Sequence[str]) -> None:  # noqa: ARG002 - of the protocol
        """The world acted."""
        if label == options[0]:
            self.log.append(f"        {label}")
            return
        others = ", ".join(o for o in options if o not in (RUN, END, label))
        also = f"   [possible too: {others}]" if others else ""
        self.log.append(f"    >>> {label}{also}")

    def failed(self, execution: Execution) -> None:
        """Everything still stands: say who waits."""
        self.waiting = [
            self._describe(execution, task) for task in execution.loop.tasks if not task.done()
        ]
        self.waiting += [
            f"{actor.name}: not started"
            for actor in execution.world.actors.values()
            if not actor.started
        ]
        for external in execution.world.pending:
            missing = sorted(external.after - execution.world.happened)
            if missing:
                self.waiting.append(f"{external.label}: not before {', '.join(missing)}")

    def _describe(self, execution: Execution, task: "asyncio.Task[Any]") -> str:
        return describe_task(task, origin=execution.loop.origins)


def name_callback(callback: object) -> str:
    """Say what a callback is, without an address."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    if isinstance(callback, Settle):
        return f"{callback.label} ends"
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"{owner.get_name()}: {getattr(callback, '__name__', 'step')}"
    name: str = getattr(callback, "__qualname__", type(callback).__name__)
    return name.replace(".<locals>", "")
