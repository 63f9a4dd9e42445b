"""What an exploration covered, and what it did not."""

import platform
from dataclasses import dataclass
from typing import Final, final

from millpond.testing._bounds import Bounds
from millpond.testing._schedule import FORMAT

NOT_EXPLORED: Final = (
    "what a thread appends in the middle of one callback",
    "signals between two bytecodes",
    "callbacks that take time, so that nearly equal deadlines swap (ties keep the loop's order)",
    "other orders of iteration over sets of tasks (they keep the order of creation)",
    "state in module globals (it is not reset between schedules)",
    "garbage collection and finalizers",
    "loops that deliver input and output otherwise, such as uvloop and the proactor loop",
)
"""Classes of behaviour that no exploration of this kit covers."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What an exploration covered. True only if the space was exhausted."""

    name: str
    mode: str
    """``exhaustive``, ``random`` or ``pct``."""
    bounds: Bounds
    schedules: int
    """How many were run, those that were cut short included."""
    cut: int
    """How many of them ended in a state that was known."""
    states: int
    """How many states were told apart; 0 without deduplication."""
    callbacks: int
    """How many callbacks were run in all."""
    seconds: float
    """Of the machine's clock."""
    complete: bool
    """Whether every schedule within the bounds was tried."""
    stopped_by: str | None
    """Which limit ended an exhaustive search early; None if none did."""
    world: tuple[str, ...]
    """Everything that the outside world could do, by its labels in schedules."""
    eager: bool = False
    """Whether tasks began at once."""
    python: str = platform.python_version()
    implementation: str = platform.python_implementation()
    kit: str = FORMAT

    @property
    def not_explored(self) -> tuple[str, ...]:
        """The classes of behaviour that were not tried, those beyond the bounds first."""
        bounds = self.bounds
        beyond: list[str] = []
        if bounds.preemptions is not None:
            beyond.append(f"more than {bounds.preemptions} events while the program is busy")
        beyond.append(f"more than {bounds.cancels} cancels")
        if bounds.deviations is not None:
            beyond.append(f"more than {bounds.deviations} choices unlike the default")
        if bounds.granularity == "iteration":
            beyond.append("events between two callbacks of one iteration")
        if not self.complete:
            beyond.insert(0, f"the rest of the schedules within the bounds ({self._why})")
        return (*beyond, *NOT_EXPLORED)

    @property
    def _why(self) -> str:
        return self.stopped_by or f"a sample of {self.schedules}"

    def __bool__(self) -> bool:
        return self.complete

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        bounds = self.bounds
        return {
            "name": self.name,
            "mode": self.mode,
            "python": self.python,
            "implementation": self.implementation,
            "kit": self.kit,
            "bounds": {
                "preemptions": bounds.preemptions,
                "cancels": bounds.cancels,
                "deviations": bounds.deviations,
                "steps": bounds.steps,
                "granularity": bounds.granularity,
            },
            "eager": self.eager,
            "schedules": self.schedules,
            "cut": self.cut,
            "states": self.states,
            "callbacks": self.callbacks,
            "seconds": round(self.seconds, 3),
            "complete": self.complete,
            "stopped_by": self.stopped_by,
            "world": list(self.world),
            "not_explored": list(self.not_explored),
        }

    @property
    def verdict(self) -> str:
        """One word, and why."""
        if self.complete:
            return "exhausted"
        if self.mode == "exhaustive":
            return f"INCOMPLETE ({self._why})"
        return f"SAMPLED ({self._why})"

    def __str__(self) -> str:
        rate = self.schedules / self.seconds if self.seconds else 0.0
        return (
            f"{self.name}: {self.verdict}, no fault found; {self.bounds};"
            f" {self.schedules:,} schedules, {self.states:,} states, {self.seconds:.1f} s"
            f" ({rate:,.0f}/s); Python {self.python}"
        )
