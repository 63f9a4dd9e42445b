"""Who decides, where the outside world has a choice."""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

from millpond.testing._faults import Diverged, Nondeterministic
from millpond.testing._schedule import Schedule

RUN: Final = "run"
"""Let the program go on: the next callback in the queue."""
END: Final = "end"
"""Stop here: nothing obligatory is left."""


@final
class Cut(BaseException):
    """The schedule is not followed any further: another one covers what it leads to."""


@final
@dataclass(frozen=True, slots=True)
class Share:
    """One process's part of a search: the branches that begin with some of the paths.

    States that were visited are known to each process only by itself. That is sound: a state
    was either shared out when it was met above `depth`, or belongs to one process as a whole.
    """

    index: int
    count: int
    depth: int = 6
    """Choices in a path that is shared out. More balance better and are taken more often."""

    def owns(self, indexes: Sequence[int]) -> bool:
        """Whether the branch below the path is of this share."""
        return zlib.crc32(bytes(indexes)) % self.count == self.index


class Strategy(Protocol):
    """Answers one question after the other, within one schedule."""

    def is_fresh(self, point: int) -> bool:
        """Whether the state at *point* was not passed by an earlier schedule of this search."""
        ...

    def choose(self, point: int, options: Sequence[str], step: int) -> str:
        """Return one of *options*; the first is the default."""
        ...

    def finish(self) -> None:
        """Hear that the schedule ended."""
        ...


@final
class DepthFirst:
    """Takes every branch of the tree once.

    Args:
        share: Which branches; all of them if None.
    """

    def __init__(self, share: Share | None = None) -> None:
        self._path: list[tuple[int, Sequence[str]]] = []
        self._share = share

    def is_fresh(self, point: int) -> bool:
        """Whether the search comes here for the first time."""
        return point >= len(self._path)

    def choose(self, point: int, options: Sequence[str], step: int) -> str:
        """Follow the path, then take first options."""
        if point == len(self._path):
            share = self._share
            if share is not None and point == share.depth and not self.is_ours:
                raise Cut
            self._path.append((0, options))
            return options[0]
        index, expected = self._path[point]
        if expected != options:
            msg = (
                f"after {step} callbacks the world could do {list(options)}, and in an earlier run"
                f" of the same schedule {list(expected)}: the scenario is not deterministic"
            )
            raise Nondeterministic(msg)
        return options[index]

    @property
    def is_ours(self) -> bool:
        """Whether the schedule of the path is of this share."""
        share = self._share
        return share is None or share.owns([index for index, _ in self._path[: share.depth]])

    def finish(self) -> None:
        """Nothing to say."""

    def advance(self) -> bool:
        """Move to the next branch; False when there is none."""
        while self._path:
            index, options = self._path[-1]
            if index + 1 < len(options):
                self._path[-1] = index + 1, options
                return True
            self._path.pop()
        return False


@final
class RandomWalk:
    """Leaves the default now and then; how often differs from walk to walk."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - schedules, not secrets
        self._patience = self._dice.choice((0.2, 0.5, 0.8, 0.95))

    def is_fresh(self, point: int) -> bool:  # noqa: ARG002 - of the protocol
        """Never cut: a walk goes to the end."""
        return False

    def choose(self, point: int, options: Sequence[str], step: int) -> str:  # noqa: ARG002 - the same
        """Go on with the program, or take any event."""
        if options[0] is RUN:
            if self._dice.random() < self._patience:
                return RUN
            options = options[1:]
        return self._dice.choice(options)

    def finish(self) -> None:
        """Nothing to say."""


@final
class Pct:
    """Probabilistic concurrency testing: priorities at random, lowered at *depth* - 1 places.

    Source: Burckhardt, Kothari, Musuvathi, Nagarakatte: "A randomized scheduler with
    probabilistic guarantees of finding bugs", ASPLOS 2010. The actors are the program and
    every event of the outside world.
    """

    def __init__(self, seed: int, *, depth: int = 3, horizon: int = 60) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - schedules, not secrets
        self._priority: dict[str, float] = {}
        self._lowered = {self._dice.randrange(max(horizon, 1)) for _ in range(depth - 1)}
        self._lowest = 0.0

    def is_fresh(self, point: int) -> bool:  # noqa: ARG002 - of the protocol
        """Never cut: a walk goes to the end."""
        return False

    def choose(self, point: int, options: Sequence[str], step: int) -> str:  # noqa: ARG002 - the same
        """Take the option of the highest priority."""
        for option in options:
            if option not in self._priority:
                self._priority[option] = self._dice.random()
        best = max(options, key=self._priority.__getitem__)
        if point in self._lowered:
            self._lowest -= 1
            self._priority[best] = self._lowest
            best = max(options, key=self._priority.__getitem__)
        return best

    def finish(self) -> None:
        """Nothing to say."""


@final
class Replay:
    """Follows a schedule.

    Args:
        schedule: What to follow.
        strict: Whether an event that is not offered is an error; else it is left out.
    """

    def __init__(self, schedule: Schedule, *, strict: bool = True) -> None:
        self._schedule = schedule
        self._left = list(schedule.events)
        self._strict = strict
        self._offered: Sequence[str] = ()

    def is_fresh(self, point: int) -> bool:  # noqa: ARG002 - of the protocol
        """Never cut."""
        return False

    def choose(self, point: int, options: Sequence[str], step: int) -> str:  # noqa: ARG002 - the same
        """Take what the schedule says for this step, or the default."""
        self._pass(step - 1)
        self._offered = options
        while self._left and self._left[0][0] == step:
            label = self._left[0][1]
            if label in options:
                self._left.pop(0)
                return label
            if self._strict:
                break  # it may be offered once a default, or a piece of data, was taken
            self._left.pop(0)
        return options[0]

    def finish(self) -> None:
        """Refuse to have left an event out."""
        if self._left:
            self._pass(self._left[-1][0])

    def _pass(self, step: int) -> None:
        """Refuse to have passed over an event of *step* or before."""
        if not (self._left and self._left[0][0] <= step):
            return
        if not self._strict:
            self._left = [event for event in self._left if event[0] > step]
            return
        due, label = self._left[0]
        offered = ", ".join(o for o in self._offered if o not in (RUN, END)) or "nothing"
        msg = (
            f"{self._schedule.text!r} does not fit: after {due} callbacks {label!r} was not"
            f" possible (last possible: {offered}); the scenario or the code has changed"
        )
        if self._schedule.is_foreign:
            msg += f", or it is this Python: the schedule was found on {self._schedule.python}"
        raise Diverged(msg)
