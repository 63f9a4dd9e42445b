"""What a proof is, and the list of all."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, final

from millpond.testing import Bounds, World

Tier: TypeAlias = Literal["quick", "full", "deep"]

SWEEP: Final = Bounds(preemptions=None, cancels=1, deviations=2)
"""The quick tier: all schedules with at most two choices unlike the default."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A scenario, and how far it is explored."""

    name: str
    scenario: Callable[[World], object]
    bounds: Bounds = field(default_factory=lambda: Bounds(preemptions=None, cancels=1))
    """Of the full tier, which exhausts them."""
    quick: Bounds = SWEEP
    deep: Bounds | None = None
    """Of the deep tier; None is the full tier's."""
    faulty: tuple[str, ...] = ()
    """Pythons whose standard library has the fault that this scenario shows."""

    @property
    def expects_fault(self) -> bool:
        """Whether the running Python is one of those."""
        return f"{sys.version_info.major}.{sys.version_info.minor}" in self.faulty

    def bounds_of(self, tier: Tier) -> Bounds:
        """Return how far it is explored in *tier*."""
        if tier == "quick":
            return self.quick
        return (self.deep or self.bounds) if tier == "deep" else self.bounds
