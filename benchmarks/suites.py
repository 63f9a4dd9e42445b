"""The suites by name."""

from typing import Protocol

from benchmarks import explore, sync
from benchmarks.rows import Suite


class MakeSuite(Protocol):
    """Makes a suite."""

    def __call__(self, *, full: bool) -> Suite:
        """Return it; the *full* one has all sizes and peers."""
        ...


SUITES: dict[str, MakeSuite] = {"explore": explore.suite, "sync": sync.suite}
