"""The waiting contract, item by item, and what holds each of them.

Plain data. An item is held by tests (``path::function``, with ``[id]`` for one row of a
table), by rules of ``millpond lint``, or it has a reason why neither can. The keys follow
the contract: its invariants, its forbidden patterns, its list for reviews.
"""

from dataclasses import dataclass

LINT_RULES = frozenset(
    {
        "check-once",
        "poll-stop",
        "late-cancel",
        "notify-as-counter",
        "copied-loop",
        "timeout-as-success",
        "lock-across-await",
        "banned-primitive",
        "blocking-call",
        "unbounded-finally",
        "notify-before-publish",
    }
)
"""The names of the rules that an item may point to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What holds one item of the contract."""

    says: str
    tests: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    reason: str = ""


INVARIANTS = 6
FORBIDDEN = 5
REVIEW = 9

MATRIX = "tests/sync/test_matrix.py::test_row"
PUBLISH = "tests/sync/test_publish.py"
WAIT = "tests/sync/test_wait.py"

TABLE: dict[str, Held] = {
    # -- invariants
    "2.1": Held(
        says="The state decides: a waiter returns only after it has read state or stop.",
        tests=(
            f"{MATRIX}[false-notification-wait_until]",
            f"{WAIT}::test_row_false_notification",
            "tests/sync/test_sequencer.py::test_failure_beats_turn",
        ),
        rules=("check-once",),
    ),
    "2.2": Held(
        says="Publish before waking; where there is a lock, release it before.",
        tests=(
            f"{PUBLISH}::test_the_change_is_made_in_the_thread_of_the_loop_before_anybody_wakes",
            f"{MATRIX}[publisher-in-a-thread-wait_until]",
        ),
        rules=("notify-before-publish", "lock-across-await"),
    ),
    "2.3": Held(
        says="Close the window of registration: check, arm, check again, wait.",
        tests=(
            f"{MATRIX}[change-between-check-and-arm-wait_until]",
            f"{MATRIX}[change-between-arm-and-recheck-wait_until_or_stopped]",
            f"{MATRIX}[change-in-the-turn-of-the-wait-Limiter.acquire]",
        ),
        rules=("check-once", "copied-loop"),
    ),
    "2.4": Held(
        says="A wait can be interrupted: stop and notification are in one wait set.",
        tests=(
            f"{MATRIX}[stop-during-wait_until_or_stopped]",
            f"{MATRIX}[stop-during-Channel.recv]",
            "tests/races/test_sync_sweep.py::test_stopped_at_any_turn_nothing_is_lost",
        ),
        rules=("late-cancel", "poll-stop"),
    ),
    "2.5": Held(
        says="Notifications may be false and may coalesce: every wake-up leads to a new look.",
        tests=(
            f"{MATRIX}[false-notification-wait_until_or_stopped]",
            f"{WAIT}::test_a_stored_permit_for_a_state_that_is_not_there_comes_for_nothing",
        ),
        rules=("notify-as-counter",),
    ),
    "2.6": Held(
        says="No synchronous lock is held across a suspension.",
        rules=("lock-across-await",),
    ),
    # -- forbidden patterns
    "4.1": Held(
        says="Check once, then wait.",
        tests=(f"{MATRIX}[change-between-check-and-arm-wait_until]",),
        rules=("check-once",),
    ),
    "4.2": Held(
        says="The `else` of a select taken for a non-blocking default.",
        tests=("tests/sync/test_notify.py::test_first_look_takes_a_stored_permit",),
        reason=(
            "Python has no `select!`; what it stands for, arming without waiting, is"
            " `Notified.enable`, which never suspends"
        ),
    ),
    "4.3": Held(
        says="Wait for the notification first, let the cancel join later.",
        tests=(f"{MATRIX}[stop-between-arm-and-recheck-wait_until_or_stopped]",),
        rules=("late-cancel",),
    ),
    "4.4": Held(
        says="Notify before the state is published.",
        tests=(
            f"{PUBLISH}::test_the_change_is_made_in_the_thread_of_the_loop_before_anybody_wakes",
        ),
        rules=("notify-before-publish",),
    ),
    "4.5": Held(
        says="Notify as a counter of events.",
        tests=("tests/sync/test_notify.py::test_a_permit_is_never_doubled",),
        rules=("notify-as-counter",),
    ),
    # -- the list for reviews
    "7.1": Held(
        says="Plain synchronous predicates go through the two functions; no copied loop.",
        tests=("tests/sync/test_sequencer.py::test_weakness_9_there_is_one_loop",),
        rules=("copied-loop",),
    ),
    "7.2": Held(
        says="State and stop flag last, and live in one place.",
        tests=(
            "tests/sync/test_latch.py::test_is_one_way",
            "tests/sync/test_stop.py::test_is_sticky_and_keeps_the_first_reason",
        ),
        reason=(
            "of other people's state a program cannot tell how many copies there are;"
            " the primitives keep one each and let nobody write to it"
        ),
    ),
    "7.3": Held(
        says="The publisher changes the state first, and then notifies.",
        tests=(f"{MATRIX}[change-after-arming-wait_until]",),
        rules=("notify-before-publish",),
    ),
    "7.4": Held(
        says="The waiter goes round: check, arm, check again, wait.",
        tests=(
            f"{WAIT}::test_row_changes_exactly_at_a_point",
            f"{MATRIX}[false-notification-Subscription.recv]",
        ),
        rules=("check-once", "copied-loop"),
    ),
    "7.5": Held(
        says="Stop and notification are in one wait set that can be cancelled.",
        tests=(
            "tests/races/test_sync_sweep.py::test_cancelled_at_any_turn_nothing_is_lost",
            f"{WAIT}::test_only_a_foreign_stop_costs_a_task",
        ),
        rules=("late-cancel", "poll-stop"),
    ),
    "7.6": Held(
        says="It is decided what wins when both are ready.",
        tests=(
            f"{MATRIX}[change-and-stop-together-wait_until_or_stopped]",
            f"{MATRIX}[change-and-stop-together-Limiter.acquire]",
            f"{MATRIX}[ready-and-stopped-before-Watch.changed]",
            "tests/sync/test_sequencer.py::test_stop_wins_when_it_races_advance",
            "tests/sync/test_channel.py::test_stopped_and_closed_in_one_step",
        ),
    ),
    "7.7": Held(
        says="No synchronous lock guard crosses an await.",
        rules=("lock-across-await",),
    ),
    "7.8": Held(
        says="The bounded tests of the interleavings are there.",
        tests=(
            "tests/sync/test_matrix.py::test_the_table_is_complete",
            "tests/sync/test_matrix.py::test_the_rows_of_the_contract_come_first",
        ),
    ),
    "7.9": Held(
        says="Where events or permits must be kept, a primitive that keeps them is used.",
        tests=(
            "tests/sync/test_channel.py::test_many_senders_and_receivers_lose_and_double_nothing",
            "tests/sync/test_broadcast.py::test_exactly_the_last_values_are_kept",
        ),
        rules=("notify-as-counter",),
    ),
}
