"""The rows of a suite: what is compared with what, and what became of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from benchmarks import callgrind
from benchmarks.harness import Case, exponent, interleave, ratio

Unit: TypeAlias = Literal["time", "instructions", "bytes", "objects", "exponent"]


@dataclass(frozen=True)
class Row:
    """One line of the result."""

    name: str
    against: str
    """What it is compared with; empty for a number that stands for itself."""
    unit: Unit
    ratio: float
    """Ours by that; or the exponent, or what was left behind."""
    spread: tuple[float, float]
    target: float | None
    """The most that is aimed at. None: shown, not judged."""
    peers: Mapping[str, float] = field(default_factory=dict[str, float])
    """Ours by each peer's."""
    is_shape: bool = False
    """Whether the machine has no part in it: a growth or a leak. Only these fail a run."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met, as far as there is one."""
        return None if self.target is None else self.ratio <= self.target

    def as_json(self) -> dict[str, object]:
        """Return what the row says, for machines."""
        return {
            "name": self.name,
            "against": self.against,
            "unit": self.unit,
            "ratio": self.ratio,
            "spread": list(self.spread),
            "target": self.target,
            "met": self.met,
            "shape": self.is_shape,
            "peers": dict(self.peers),
        }


@dataclass(frozen=True)
class Contest:
    """Ours against something, by *unit* per operation."""

    name: str
    ours: Case
    against: Case
    unit: Literal["time", "instructions"]
    target: float | None = None
    peers: Mapping[str, Case] = field(default_factory=dict[str, Case])

    def cases(self) -> tuple[Case, ...]:
        """Return all that must be measured for it."""
        return self.ours, self.against, *self.peers.values()

    def row(self, costs: Mapping[str, Sequence[float]]) -> Row:
        """Return what came out."""
        ours = costs[self.ours.name]
        median, low, high = ratio(ours, costs[self.against.name])
        peers = {name: ratio(ours, costs[case.name]).median for name, case in self.peers.items()}
        return Row(
            name=self.name,
            against=self.against.name,
            unit=self.unit,
            ratio=median,
            spread=(low, high),
            target=self.target,
            peers=peers,
        )


@dataclass(frozen=True)
class Growth:
    """How a cost grows with a size, in instructions: the exponent."""

    name: str
    sizes: Mapping[int, Case]
    target: float

    def row(self, costs: Mapping[str, Sequence[float]]) -> Row:
        """Return what came out."""
        by_size = {size: costs[case.name][0] for size, case in self.sizes.items()}
        found = exponent(by_size)
        return Row(
            name=f"{self.name}, {' to '.join(f'{size:,}' for size in self.sizes)}",
            against="",
            unit="exponent",
            ratio=found,
            spread=(found, found),
            target=self.target,
            is_shape=True,
        )


@dataclass(frozen=True)
class Suite:
    """What is measured together.

    Args:
        name: What the command line calls it.
        full: Whether it has all sizes.
        contests: Comparisons; those by time that share a case are interleaved.
        growths: Costs over sizes.
        others: Measurements that need no interleaving; each returns its rows.
        skipped: What was left out, and why.
    """

    name: str
    full: bool
    contests: Sequence[Contest]
    growths: Sequence[Growth] = ()
    others: Sequence[Callable[[], Sequence[Row]]] = ()
    skipped: Sequence[str] = ()

    def cases(self) -> Iterator[Case]:
        """Return all cases that are counted in instructions."""
        for contest in self.contests:
            if contest.unit == "instructions":
                yield from contest.cases()
        for growth in self.growths:
            yield from growth.sizes.values()

    def run(self, rounds: int, say: Callable[[str], None]) -> tuple[list[Row], list[str]]:
        """Measure everything. Return the rows, and what was skipped.

        Args:
            rounds: How often each time is taken.
            say: Told what goes on.
        """
        skipped = list(self.skipped)
        instructions: dict[str, list[float]] = {}
        if reason := callgrind.why_not():
            counted: list[Contest | Growth] = [*self.contests, *self.growths]
            skipped += [f"{c.name}: {reason}" for c in counted if not is_timed(c)]
        else:
            say("counting instructions")
        rows: list[Row] = []
        with ThreadPoolExecutor(1) as pool:
            counting = pool.submit(self._count) if not reason else None
            for other in self.others:  # no times are taken yet, so both may go on at once
                say("counting what is kept")
                rows += other()
            if counting is not None:
                instructions = counting.result()
        for group in groups([contest for contest in self.contests if is_timed(contest)]):
            say(f"taking the time of: {', '.join(contest.name for contest in group)}")
            cases = {case.name: case for contest in group for case in contest.cases()}
            costs = interleave(list(cases.values()), rounds)
            rows += [contest.row(costs) for contest in group]
        if instructions:
            rows += [c.row(instructions) for c in self.contests if not is_timed(c)]
            rows += [growth.row(instructions) for growth in self.growths]
        return rows, skipped

    def _count(self) -> dict[str, list[float]]:
        counts = callgrind.count(self.name, self.cases(), full=self.full)
        return {name: [cost] for name, cost in counts.items()}


def is_timed(what: Contest | Growth) -> bool:
    """Tell whether it is measured in time."""
    return isinstance(what, Contest) and what.unit == "time"


def groups(contests: Sequence[Contest]) -> list[list[Contest]]:
    """Put together neighbours that share a case."""
    found: list[list[Contest]] = []
    names: set[str] = set()
    for contest in contests:
        own = {case.name for case in contest.cases()}
        if names & own:
            found[-1].append(contest)
            names |= own
        else:
            found.append([contest])
            names = own
    return found
