"""The suite of `millpond.sync`, and of the permits that its line is shared with."""

from benchmarks import peers
from benchmarks.rows import Suite
from benchmarks.sync import channels, keeping, permits, turns, values, waiting


def suite(*, full: bool) -> Suite:
    """Return the suite; the *full* one has more sizes."""
    return Suite(
        name="sync",
        full=full,
        contests=[
            *waiting.contests(full=full),
            *channels.contests(full=full),
            *permits.contests(full=full),
            *turns.contests(),
            *values.contests(full=full),
        ],
        growths=[permits.growth(full=full), turns.growth(full=full)],
        others=[keeping.left_behind, keeping.bytes_per_waiter],
        skipped=peers.missing(),
    )
