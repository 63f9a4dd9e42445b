"""The ledger of a sequencer against an account that is kept second by second (J1, J2)."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.sync._turn_ledger import Account, Ledger, Segment

STAGES = ("work", "waiting", "commit")

Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "open", "stage", "close"]),
        st.sampled_from(STAGES),
        st.integers(min_value=0, max_value=9),
    ),
    max_size=40,
)


class Story:
    """What happened, kept in full: the slow and simple way."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.now = 0
        self.blocker = 0
        self.stage = "unknown"
        self.accounts: list[tuple[Account, int]] = []
        self.ticks: list[tuple[int, str]] = []
        """For every second: who was in the way, in which stage."""

    def step(self, step: Step) -> None:
        """Do one thing, in the ledger and in full."""
        what, stage, seconds = step
        if what == "wait":
            self.ticks += [(self.blocker, self.stage)] * seconds
            self.now += seconds
        elif what == "open":
            account = self.ledger.open(self.blocker, self.stage, float(self.now))
            self.accounts.append((account, self.now))
        elif what == "stage":
            self.ledger.change_stage(self.stage, float(self.now))
            self.stage = stage
        elif self.accounts:  # a sequencer with nobody waiting keeps no ledger
            self.ledger.close_segment(self.blocker, self.stage, float(self.now))
            self.blocker, self.stage = self.blocker + 1, "unknown"

    def expected(self, opened: int) -> dict[str, float]:
        """Return the seconds by stage since *opened*."""
        by_stage: dict[str, float] = {}
        for _, stage in self.ticks[opened:]:
            by_stage[stage] = by_stage.get(stage, 0.0) + 1.0
        return by_stage

    def longest(self, opened: int) -> tuple[int, float]:
        """Return who was in the way longest since *opened*, the first one on a tie."""
        blockers = [blocker for blocker, _ in self.ticks[opened:]]
        if not blockers:
            return -1, 0.0
        most = max(blockers.count(blocker) for blocker in blockers)
        first = next(blocker for blocker in blockers if blockers.count(blocker) == most)
        return first, float(most)


@given(STEPS)
@settings(deadline=None)
def test_every_account_comes_to_what_really_happened(steps: list[Step]) -> None:
    """J1: seconds by stage, number of segments, the longest; interrupted at any moment."""
    story = Story()
    for step in steps:
        story.step(step)
    story.ledger.change_stage(story.stage, float(story.now))
    for account, opened in story.accounts:
        found = story.ledger.settle(account, blocker=story.blocker)
        assert {stage: t for stage, t in found.by_stage.items() if t} == story.expected(opened)
        assert found.segments == story.blocker - account.first_blocker + 1
        blocker, most = story.longest(opened)
        assert found.dominant is not None
        assert found.dominant.seconds == most
        if most:
            assert found.dominant.blocker == blocker


@given(STEPS, st.integers(min_value=0, max_value=9))
@settings(deadline=None)
def test_an_account_whose_turn_has_come_ends_with_its_last_segment(
    steps: list[Step], rest: int
) -> None:
    """J1: what happens afterwards, before its owner runs, is not a part of it."""
    story = Story()
    for step in [*steps, ("open", "", 0), ("wait", "", rest), ("close", "", 0)]:
        story.step(step)
    account, opened = story.accounts[-1]
    end = len(story.ticks)
    found = story.ledger.settle(account, blocker=None)
    assert found.by_stage == story.expected(opened)
    assert math.isclose(sum(found.by_stage.values()), end - opened)
    assert (found.segments, found.dominant and found.dominant.seconds) == (1, float(rest))


def test_the_first_of_equal_segments_is_the_dominant_one() -> None:
    """On a tie: among all of them, and among those after the first."""
    for opened, blocker in ((0.0, 0), (1.0, 1)):
        ledger = Ledger()
        account = ledger.open(0, "work", opened)
        for number in range(3):
            ledger.close_segment(number, "work", 2.0 * (number + 1))
        found = ledger.settle(account, blocker=None)
        assert found.dominant == Segment(blocker=blocker, seconds=2.0, stage="work")


def test_a_segment_is_called_after_the_stage_in_which_most_of_it_was_spent() -> None:
    """The first one on a tie; an empty one has no stage."""
    ledger = Ledger()
    account = ledger.open(0, "work", 0.0)
    ledger.change_stage("work", 1.0)
    ledger.change_stage("commit", 4.0)
    ledger.close_segment(0, "work", 5.0)
    found = ledger.settle(account, blocker=None)
    assert found.dominant == Segment(blocker=0, seconds=5.0, stage="commit")
    assert found.by_stage == {"work": 2.0, "commit": 3.0}


def test_an_account_that_is_settled_at_once_is_empty() -> None:
    """Nobody was in the way for any time."""
    ledger = Ledger()
    account = ledger.open(0, "work", 5.0)
    assert ledger.settle(account, blocker=None).segments == 0
    found = ledger.settle(account, blocker=0)
    assert (found.segments, found.by_stage) == (1, {})


def test_closing_visits_only_those_who_came_during_that_segment() -> None:
    """J2: however many accounts are open."""
    ledger = Ledger()
    accounts = [ledger.open(0, "work", float(number)) for number in range(100)]
    ledger.close_segment(0, "work", 100.0)
    late = ledger.open(1, "work", 100.0)
    assert ledger._new == [late]
    ledger.close_segment(1, "work", 101.0)
    assert ledger._new == []
    for number, account in enumerate(accounts):
        found = ledger.settle(account, blocker=None)
        assert found.by_stage == {"work": 101.0 - number}


def test_moved_at_is_the_time_of_the_last_move() -> None:
    """Before the first: when somebody began to wait."""
    ledger = Ledger()
    ledger.open(0, "work", 5.0)
    ledger.open(0, "work", 6.0)
    assert ledger.moved_at == 5.0
    ledger.change_stage("commit", 7.0)
    assert ledger.moved_at == 5.0
    ledger.close_segment(0, "commit", 8.0)
    assert ledger.moved_at == 8.0
