"""How far an exploration goes."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from millpond._base import at_least, at_least_one

Granularity: TypeAlias = Literal["callback", "iteration"]


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """How far an exploration goes. What lies beyond is named in the certificate.

    Raises:
        ValueError: For a negative bound.
    """

    preemptions: int | None = 2
    """Events of the outside world while the program is busy; None is any number, and 0
    lets the program come to rest between two events."""
    cancels: int = 1
    """How often the world may cancel a task."""
    deviations: int | None = None
    """Choices unlike the default one, in all; None is any number. Given, they are deepened:
    all schedules with none, then with one, and so on, so the first one found is minimal."""
    steps: int = 2_000
    """Callbacks in one schedule, after which it counts as one that never ends."""
    granularity: Granularity = "callback"
    """Where the world may act: between any two callbacks, or only where the loop asks its
    selector, once per iteration."""

    def __post_init__(self) -> None:
        for name in ("preemptions", "deviations"):
            if getattr(self, name) is not None:
                at_least(0, name, getattr(self, name))
        at_least(0, "cancels", self.cancels)
        at_least_one("steps", self.steps)
        if self.granularity not in ("callback", "iteration"):
            msg = f"`granularity` must be 'callback' or 'iteration', got {self.granularity!r}"
            raise ValueError(msg)

    def __str__(self) -> str:
        def number(value: int | None) -> str:
            return "any" if value is None else str(value)

        text = f"P={number(self.preemptions)} C={self.cancels} D={number(self.deviations)}"
        return text if self.granularity == "callback" else f"{text}, at iterations only"
