"""Outcome: a value, or what prevented it."""

import pytest

from millpond._base import Outcome, Status
from millpond.errors import UsageError


@pytest.mark.parametrize("status", [Status.OK, Status.DEGRADED])
@pytest.mark.parametrize("value", [0, None, "", "x"])
def test_unwrap_returns_the_value(status: Status, value: object) -> None:
    """Also one that is false, and None where that is the result."""
    assert Outcome(item=1, status=status, value=value).unwrap() == value


@pytest.mark.parametrize("status", [status for status in Status if not status.has_value])
def test_unwrap_raises_the_error(status: Status) -> None:
    """The very object, whatever the status."""
    error = ValueError("why")
    outcome: Outcome[int, str] = Outcome(item=1, status=status, error=error)
    with pytest.raises(ValueError, match="why") as caught:
        outcome.unwrap()
    assert caught.value is error


@pytest.mark.parametrize("status", [status for status in Status if not status.has_value])
def test_unwrap_without_value_and_error_says_the_reason(status: Status) -> None:
    """Status and reason are all there is to say."""
    outcome: Outcome[int, str] = Outcome(item=1, status=status, degraded_reason="stopped")
    with pytest.raises(UsageError, match=rf"no value: {status} \(stopped\)"):
        outcome.unwrap()
    bare: Outcome[int, str] = Outcome(item=1, status=status)
    with pytest.raises(UsageError, match="no reason given"):
        bare.unwrap()


def test_a_degraded_value_beside_an_error_is_still_a_value() -> None:
    """Something came; the error says why it is not better."""
    outcome = Outcome(item=1, status=Status.DEGRADED, value="half", error=ValueError("late"))
    assert outcome.unwrap() == "half"


def test_status_reads_as_text() -> None:
    """It goes to JSON and to people."""
    assert [f"{status}" for status in Status] == [
        "ok",
        "degraded",
        "failed",
        "timed_out",
        "expired",
        "cancelled",
        "skipped",
        "abandoned",
    ]
    assert [status for status in Status if status.has_value] == [Status.OK, Status.DEGRADED]


def test_outcomes_do_not_share_their_timings() -> None:
    """A default that is shared would mix them up."""
    one: Outcome[int, str] = Outcome(item=1, status=Status.OK)
    two: Outcome[int, str] = Outcome(item=1, status=Status.OK)
    assert one == two
    assert one.timings is not two.timings
