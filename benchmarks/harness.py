"""How a cost is measured, and what is made of the measurements.

Machines are noisy, and their neighbours change by the second. So cases that are to be
compared are interleaved in one process, the first round is dropped, and what counts is
the median of the ratios that each round gives by itself. Time is that of the processor,
which somebody else's load disturbs less than the clock on the wall.
"""

import asyncio
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol, Self


class Section(Protocol):
    """The part of a case that counts. What is outside of its ``with`` is set-up."""

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...


class Stopwatch:
    """Takes the processor's time of this thread for a section."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._started = 0

    def __enter__(self) -> Self:
        # A full collection in one case and not in another would decide between them, so
        # what was set up is taken out of the collector's sight.
        gc.collect()
        gc.freeze()
        self._started = time.thread_time_ns()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.nanoseconds = time.thread_time_ns() - self._started
        gc.unfreeze()


Run = Callable[[int, Section], Coroutine[object, object, None]]
"""Does a number of operations inside a section."""


@dataclass(frozen=True)
class Case:
    """Something whose cost per operation is measured.

    Args:
        name: Unique in its suite.
        run: Does the operations.
        operations: How many per round when time is measured, and the smaller and the
            larger number when instructions are counted; multiples of what *run* does at
            once.
    """

    name: str
    run: Run
    operations: tuple[int, int, int]


class Ratio(NamedTuple):
    """The median of the ratios of all rounds, the lowest and the highest one."""

    median: float
    low: float
    high: float


def nanoseconds(case: Case) -> float:
    """Return what one operation takes, in one run on a loop of its own."""
    stopwatch = Stopwatch()
    operations = case.operations[0]
    asyncio.run(case.run(operations, stopwatch))
    return stopwatch.nanoseconds / operations


def interleave(
    cases: Sequence[Case], rounds: int, take: Callable[[Case], float] = nanoseconds
) -> dict[str, list[float]]:
    """Measure *cases* in turn, each round in another order. Return the costs by name.

    One more round than *rounds* comes first, to warm up, and is dropped.
    """
    shuffle = random.Random(1).shuffle  # noqa: S311 - an order, not a secret
    costs: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in range(rounds + 1):
        order = list(cases)
        shuffle(order)
        for case in order:
            cost = take(case)
            if number:
                costs[case.name].append(cost)
    return costs


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Return how many times theirs ours costs, each round compared with itself."""
    each = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def exponent(costs: Mapping[int, float]) -> float:
    """Return the k of the best fit ``cost = c * size ** k``: 0 is constant, 1 is linear."""
    sizes = [math.log(size) for size in costs]
    return statistics.linear_regression(sizes, [math.log(cost) for cost in costs.values()]).slope
