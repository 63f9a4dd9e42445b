"""Who was in the way for how long: the bookkeeping of a `Sequencer`.

A state machine without await, clock or input/output: the time is an argument.

Invariants:
    J1  The seconds of a settled account, by stage, add up to the time from its opening
        to the end of its last segment.
    J2  Closing a segment costs the same however many accounts are open; only accounts
        opened during that very segment are visited, once.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

Seconds = dict[str, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of a wait during which one number was in the way."""

    blocker: int
    seconds: float
    stage: str
    """The stage in which the blocker spent most of it; "unknown" if it never said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What an account comes to."""

    segments: int
    dominant: Segment | None
    by_stage: Mapping[str, float]


class Account:
    """Where the sums stood when a waiter came."""

    __slots__ = ("before", "first", "first_before", "first_blocker")

    def __init__(self, blocker: int, before: Seconds, first_before: Seconds) -> None:
        self.first_blocker = blocker
        self.before = before  # closed segments
        self.first_before = first_before  # the open one, up to the waiter's coming
        self.first: Segment | None = None  # what was left of it, once it is closed


class Ledger:
    """Sums since the first waiter came. An account is the difference of two standings."""

    __slots__ = ("_closed", "_longest", "_new", "_open", "_since", "moved_at")

    def __init__(self) -> None:
        self._closed: Seconds = {}
        self._open: Seconds = {}  # of the number that is in the way now
        self._since: float | None = None  # when its present stage began
        self._new: list[Account] = []  # opened while it was in the way
        # Segments by rising number and falling seconds: none that a later one exceeds.
        self._longest: list[Segment] = []
        self.moved_at = 0.0

    def open(self, blocker: int, stage: str, now: float) -> Account:
        """Begin to account for a waiter that finds *blocker* in the way."""
        if self._since is None:
            self._since = self.moved_at = now
        self.change_stage(stage, now)
        account = Account(blocker, dict(self._closed), dict(self._open))
        self._new.append(account)
        return account

    def change_stage(self, stage: str, now: float) -> None:
        """Book the time up to *now* for *stage*, which the number in the way leaves."""
        if self._since is not None:
            self._open[stage] = self._open.get(stage, 0.0) + now - self._since
            self._since = now

    def close_segment(self, blocker: int, stage: str, now: float) -> None:
        """Note that *blocker*, last in *stage*, is out of the way."""
        self.change_stage(stage, now)
        for account in self._new:
            account.first = _segment(blocker, _minus(self._open, account.first_before))
        self._new.clear()
        segment = _segment(blocker, self._open)
        while self._longest and self._longest[-1].seconds < segment.seconds:
            self._longest.pop()
        self._longest.append(segment)
        self._closed = _plus(self._closed, self._open)
        self._open = {}
        self.moved_at = now

    def settle(self, account: Account, *, blocker: int | None) -> Settled:
        """Add up *account*. *blocker* is in the way still; None: its turn has come."""
        if account.first is None:
            if blocker is None:
                return Settled(segments=0, dominant=None, by_stage={})
            rest = _minus(self._open, account.first_before)
            return Settled(segments=1, dominant=_segment(blocker, rest), by_stage=rest)
        found = [account.first]
        at = bisect_left(self._longest, account.first_blocker + 1, key=lambda s: s.blocker)
        found += self._longest[at : at + 1]
        spent = _minus(_minus(self._closed, account.before), account.first_before)
        last = self._longest[-1].blocker
        segments = last - account.first_blocker + 1
        if blocker is not None:
            found.append(_segment(blocker, self._open))
            spent = _plus(spent, self._open)
            segments += 1
        longest = max(found, key=lambda segment: segment.seconds)  # the first one on a tie
        return Settled(segments=segments, dominant=longest, by_stage=spent)


def _segment(blocker: int, by_stage: Seconds) -> Segment:
    stage = max(by_stage, key=by_stage.__getitem__, default="")
    return Segment(blocker=blocker, seconds=sum(by_stage.values()), stage=stage)


def _plus(left: Seconds, right: Seconds) -> Seconds:
    return {
        stage: left.get(stage, 0.0) + right.get(stage, 0.0)
        for stage in dict.fromkeys([*left, *right])
    }


def _minus(left: Seconds, right: Seconds) -> Seconds:
    rest = {stage: spent - right.get(stage, 0.0) for stage, spent in left.items()}
    return {stage: spent for stage, spent in rest.items() if spent > 0.0}
