"""A schedule as one line: first in, first out, except for the events that it lists.

``x1 11:cancel(C1) 14:start(P)+P.ask=1`` is: when 11 callbacks have run, put a cancel of C1
into the queue; when 14 have run, put two events there. ``x1 fifo`` lists none. The line may
name the Python it was found on, ``x1 py3.11 11:cancel(C1)``: where asyncio works otherwise
inside, the numbers shift.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

FORMAT: Final = "x1"
FIFO: Final = "fifo"


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """One act of the outside world."""

    step: int
    """How many callbacks had run."""
    label: str
    default: bool
    """Whether it is what a schedule does that nobody asks for anything else."""


def python_version() -> str:
    """Return the running Python as a schedule names it."""
    return f"py{sys.version_info.major}.{sys.version_info.minor}"


def write_schedule(choices: Sequence[Choice]) -> str:
    """Return the line for *choices*. Steps at which only defaults were taken are left out."""
    by_step: dict[int, list[Choice]] = {}
    for choice in choices:
        by_step.setdefault(choice.step, []).append(choice)
    parts = [
        f"{step}:" + "+".join(choice.label for choice in group)
        for step, group in by_step.items()
        if not all(choice.default for choice in group)
    ]
    return " ".join([FORMAT, python_version(), *(parts or [FIFO])])


@final
@dataclass(frozen=True, slots=True)
class Schedule:
    """A line, read."""

    text: str
    python: str | None
    """As in ``py3.11``; None if the line does not say."""
    events: tuple[tuple[int, str], ...]

    @property
    def is_foreign(self) -> bool:
        """Whether it was found on another Python than this one."""
        return self.python is not None and self.python != python_version()


def read_schedule(text: str) -> Schedule:
    """Read a line.

    Raises:
        ValueError: If it is not one, with the part that is wrong.
    """
    head, *parts = text.split() or [""]
    if head != FORMAT:
        msg = (
            f"a schedule begins with {FORMAT!r}, as in 'x1 11:cancel(C1) 14:start(P)'; got {text!r}"
        )
        raise ValueError(msg)
    python = parts.pop(0) if parts and parts[0].startswith("py") else None
    return Schedule(text=text, python=python, events=tuple(_read_parts(parts, text)))


def _read_parts(parts: Iterable[str], text: str) -> Iterable[tuple[int, str]]:
    last = -1
    for part in parts:
        if part == FIFO:
            continue
        number, colon, labels = part.partition(":")
        if not (colon and number.isdecimal() and all(labels.split("+"))):
            msg = f"expected 'number:event+event' in a schedule, got {part!r} in {text!r}"
            raise ValueError(msg)
        if int(number) <= last:
            msg = f"the numbers of a schedule must rise, got {part!r} in {text!r}"
            raise ValueError(msg)
        last = int(number)
        for label in labels.split("+"):
            yield last, label
