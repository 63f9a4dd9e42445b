"""Time has one source: the monotonic clock of the running loop, in seconds.

What people read is stamped by the wall clock, which has one source, too.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]

_wall_clock: Clock = time.time


def loop_time() -> float:
    """Return the running loop's time: monotonic, in seconds, virtual under test."""
    return asyncio.get_running_loop().time()


def wall_time() -> float:
    """Return seconds since the epoch. It may jump: for stamps and dates, never for waits."""
    return _wall_clock()


@contextmanager
def wall_time_from(clock: Clock) -> Generator[None]:
    """Let `wall_time` read *clock* inside the block, in whatever thread."""
    global _wall_clock  # noqa: PLW0603 - one test replaces it at a time; product code only reads
    previous, _wall_clock = _wall_clock, clock
    try:
        yield
    finally:
        _wall_clock = previous
