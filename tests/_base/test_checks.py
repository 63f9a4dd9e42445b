"""Checks of arguments say what was expected and what came."""

import math
import re

import pytest

from millpond._base import at_least, at_least_one, seconds


@pytest.mark.parametrize("value", [1, 2, 10**9])
def test_at_least_one_accepts(value: int) -> None:
    """Whole numbers from one on."""
    at_least_one("n", value)


@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, "1", None])
def test_at_least_one_refuses(value: object) -> None:
    """Also a bool, which is an int to Python and a mistake to everybody else."""
    expected = re.escape(f"`n` must be an integer >= 1, got {value!r}")
    with pytest.raises(ValueError, match=f"^{expected}$"):
        at_least_one("n", value)


def test_at_least_has_its_own_bound() -> None:
    """Which the message names."""
    at_least(0, "n", 0)
    with pytest.raises(ValueError, match="`n` must be an integer >= 0, got -1"):
        at_least(0, "n", -1)


@pytest.mark.parametrize("value", [0, 0.0, 1, 0.5, 1e9, None])
def test_seconds_accepts(value: object) -> None:
    """Whole and broken ones, and none."""
    seconds("timeout", value)


@pytest.mark.parametrize("value", [-1, -0.1, math.inf, math.nan, True, "1"])
def test_seconds_refuses(value: object) -> None:
    """What cannot be waited for."""
    expected = re.escape(f"`timeout` must be seconds >= 0 or None, got {value!r}")
    with pytest.raises(ValueError, match=f"^{expected}$"):
        seconds("timeout", value)


def test_seconds_that_are_not_optional_refuse_none() -> None:
    """And do not offer it."""
    with pytest.raises(ValueError, match="`wait` must be seconds >= 0, got None"):
        seconds("wait", None, optional=False)
