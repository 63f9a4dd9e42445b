"""Work done in parallel, finished strictly by number.

Invariants:
    Q1  `wait_turn(n)` returns only when every number before *n* has advanced.
    Q2  Stop beats failure, failure beats turn; diagnosis never decides anything.
    Q3  The first failure is kept, and told to everybody who waits or comes later.
    Q4  An advance wakes the one caller whose turn it is, and costs the same however
        many wait.
    Q5  What a report says adds up: the seconds of its segments, by stage, are the time
        waited before the turn came.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from millpond._base import Home, Parked, StopSignal, loop_time, park, reason_of, seconds, wake
from millpond.errors import SequenceFailed, Stopped, UsageError
from millpond.sync._turn_ledger import Account, Ledger, Segment

UNKNOWN = "unknown"

logger = logging.getLogger("millpond.sync")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """How long a caller waited for its turn, and for whom."""

    sequence: int
    waited: float
    """Seconds, from the call to its end."""
    segments: int = 0
    """How many numbers were in the way, one after the other."""
    dominant: Segment | None = None
    """The longest segment, the first one on a tie. None: nobody was in the way."""
    by_stage: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds by the blockers' stages."""
    gap: float = 0.0
    """Seconds between the turn's coming and the caller's running."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SlowTurn:
    """A wait that takes long, and what it waits for."""

    sequence: int
    waited: float
    """Seconds since the call."""
    still: float
    """Seconds since the line moved, as far as somebody has waited; it may be longer."""
    blocker: int
    stage: str

    def __str__(self) -> str:
        return (
            f"turn {self.sequence} has waited {self.waited:.1f} s for {self.blocker}"
            f" (stage {self.stage!r}); the line has not moved for {self.still:.1f} s"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerStatistics:
    """What a `Sequencer` looks like at one moment."""

    next: int
    """The number whose turn it is."""
    stage: str
    """What it said that it does."""
    still: float
    """Seconds since the line moved; 0 before anybody waited."""
    waiting: tuple[int, ...]
    """The numbers that wait, in order."""
    failed: int | None
    """The number that failed first."""


class _Waiter:
    """One caller in `wait_turn`."""

    __slots__ = ("account", "begun", "came_at", "parked", "timer")

    def __init__(self, parked: Parked, begun: float, account: Account) -> None:
        self.parked = parked
        self.begun = begun
        self.account = account
        self.came_at: float | None = None  # when the turn came
        self.timer: asyncio.TimerHandle | None = None


@final
class Sequencer:
    """Lets callers go on one after the other, by number.

    Args:
        start: The number whose turn comes first.
        slow_after: Seconds of waiting after which a warning is logged, and again after
            each further such time.
        name: Shown in warnings and errors.
        on_slow: Told of each slow turn, besides the log. What it raises is logged.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     line = Sequencer()
        ...
        ...     async def commit(number: int) -> None:
        ...         await line.wait_turn(number)
        ...         print("commit", number)
        ...         line.advance(number)
        ...
        ...     await asyncio.gather(*(commit(number) for number in (2, 0, 1)))
        >>> asyncio.run(main())
        commit 0
        commit 1
        commit 2
    """

    def __init__(
        self,
        start: int = 0,
        *,
        slow_after: float = 10.0,
        name: str = "",
        on_slow: Callable[[SlowTurn], None] | None = None,
    ) -> None:
        seconds("slow_after", slow_after, optional=False)
        if not slow_after:
            msg = "`slow_after` must be more than 0 seconds, got 0: it would warn without pause"
            raise ValueError(msg)
        self._next = start
        self._slow_after = slow_after
        self._name = name or "sequencer"
        self._on_slow = on_slow
        self._home = Home("Sequencer")
        self._waiters: dict[int, _Waiter] = {}
        self._stages: dict[int, str] = {}
        self._failure: SequenceFailed | None = None
        self._ledger = Ledger()

    async def wait_turn(self, sequence: int, stop: StopSignal | None = None) -> TurnReport:
        """Return when it is the turn of *sequence*.

        Args:
            sequence: The caller's number; each is waited for once.
            stop: Ends the wait.

        Raises:
            Stopped: When *stop* is asked for; its ``report`` says how long it waited for whom.
            SequenceFailed: When a number has failed; the same.
            UsageError: If the turn of *sequence* has passed, or somebody waits for it.

        Cancellation:
            Safe: the number may be waited for again.

        Ordering:
            By number. Stop beats failure, failure beats turn.
        """
        begun = loop_time()
        self._check(sequence, stop, begun)
        if sequence in self._waiters:  # also one whose turn has come and who has not run yet
            msg = f"somebody waits for turn {sequence} of {self._name!r} already"
            raise UsageError(msg)
        if sequence == self._next:
            return TurnReport(sequence=sequence, waited=0.0)
        parked = self._home.new_parked()
        account = self._ledger.open(self._next, self._stage_of(self._next), begun)
        waiter = self._waiters[sequence] = _Waiter(parked, begun, account)
        self._set_timer(sequence, waiter)
        try:
            await park(waiter.parked, stop)
            now = loop_time()
            report = self._report(sequence, waiter, now)
            self._check(sequence, stop, begun, report)
        finally:
            self._waiters.pop(sequence, None)
            if waiter.timer is not None:
                waiter.timer.cancel()
            if not self._waiters:
                self._ledger = Ledger()
        return report

    def advance(self, sequence: int) -> None:
        """End the turn of *sequence*; the next number's turn comes.

        Raises:
            UsageError: If it is not its turn.
        """
        self._home.check_thread()
        if sequence != self._next:
            msg = (
                f"{self._name!r} cannot advance {sequence}: it is the turn of {self._next};"
                f" advance each number once, when `wait_turn` has returned"
            )
            raise UsageError(msg)
        if self._waiters:
            self._ledger.close_segment(sequence, self._stage_of(sequence), loop_time())
        self._stages.pop(sequence, None)
        self._next += 1
        waiter = self._waiters.get(self._next)
        if waiter is not None:
            waiter.came_at = self._ledger.moved_at
            wake(waiter.parked)

    def fail(self, sequence: int, error: BaseException) -> None:
        """End the line: *sequence* will never advance. The first failure counts."""
        self._home.check_thread()
        if self._failure is None:
            self._failure = SequenceFailed(
                sequence=sequence, error_type=type(error).__name__, text=str(error)
            )
            for waiter in self._waiters.values():
                wake(waiter.parked)

    def note(self, sequence: int, stage: str) -> None:
        """Say what *sequence* does now, for the reports of those who wait for it."""
        if sequence < self._next:
            return
        if sequence == self._next and self._waiters:
            self._ledger.change_stage(self._stage_of(sequence), loop_time())
        self._stages[sequence] = stage

    def statistics(self) -> SequencerStatistics:
        """Return a snapshot."""
        still = loop_time() - self._ledger.moved_at if self._waiters else 0.0
        return SequencerStatistics(
            next=self._next,
            stage=self._stage_of(self._next),
            still=still,
            waiting=tuple(sorted(self._waiters)),
            failed=None if self._failure is None else self._failure.sequence,
        )

    def __repr__(self) -> str:
        return f"<Sequencer {self._name!r}, turn of {self._next}, {len(self._waiters)} waiting>"

    def _check(
        self,
        sequence: int,
        stop: StopSignal | None,
        begun: float,
        report: TurnReport | None = None,
    ) -> None:
        stopped = stop is not None and stop.is_stopped()
        if not stopped and self._failure is None and sequence >= self._next:
            return
        report = report or TurnReport(sequence=sequence, waited=loop_time() - begun)
        if stopped and stop is not None:
            raise Stopped(reason_of(stop), report=report)
        if self._failure is not None:
            raise self._failure.told(report)
        msg = f"the turn of {sequence} has passed in {self._name!r}; it is that of {self._next}"
        raise UsageError(msg)

    def _stage_of(self, sequence: int) -> str:
        return self._stages.get(sequence, UNKNOWN)

    def _report(self, sequence: int, waiter: _Waiter, now: float) -> TurnReport:
        if waiter.came_at is None:  # interrupted: somebody is in the way still
            self._ledger.change_stage(self._stage_of(self._next), now)
            found = self._ledger.settle(waiter.account, blocker=self._next)
        else:
            found = self._ledger.settle(waiter.account, blocker=None)
        return TurnReport(
            sequence=sequence,
            waited=now - waiter.begun,
            segments=found.segments,
            dominant=found.dominant,
            by_stage=found.by_stage,
            gap=0.0 if waiter.came_at is None else now - waiter.came_at,
        )

    def _set_timer(self, sequence: int, waiter: _Waiter) -> None:
        waiter.timer = asyncio.get_running_loop().call_later(
            self._slow_after, self._warn, sequence, waiter
        )

    def _warn(self, sequence: int, waiter: _Waiter) -> None:
        now = loop_time()
        slow = SlowTurn(
            sequence=sequence,
            waited=now - waiter.begun,
            still=now - self._ledger.moved_at,
            blocker=self._next,
            stage=self._stage_of(self._next),
        )
        self._set_timer(sequence, waiter)
        logger.warning("%s: %s", self._name, slow)
        if self._on_slow is not None:
            try:
                self._on_slow(slow)
            except Exception:
                logger.exception("the observer of slow turns raised")
