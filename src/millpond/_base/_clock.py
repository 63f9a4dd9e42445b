"""Time has one source: the monotonic clock of the running loop, in seconds."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]


def loop_time() -> float:
    """Return the running loop's time: monotonic, in seconds, virtual under test."""
    return asyncio.get_running_loop().time()
