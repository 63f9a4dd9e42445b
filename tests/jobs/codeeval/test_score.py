"""pass@k: against its definition, and at its edges."""

from itertools import combinations
from math import isclose

import pytest

from millpond.jobs.codeeval._score import mean_pass_at_k, pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_it_is_the_share_of_draws_with_a_pass(n: int) -> None:
    """Counted out over every draw of k from n samples."""
    for c in range(n + 1):
        for k in range(1, n + 1):
            draws = list(combinations([1] * c + [0] * (n - c), k))
            expected = sum(map(any, draws)) / len(draws)
            assert isclose(pass_at_k(n, c, k), expected, abs_tol=1e-12)


def test_it_is_exact_where_people_compare() -> None:
    """pass@1 is a plain share; all or none passing is 1 or 0."""
    assert pass_at_k(3, 1, 1) == 1 / 3
    assert pass_at_k(10, 10, 5) == 1.0
    assert pass_at_k(10, 0, 5) == 0.0
    assert pass_at_k(10, 6, 5) == 1.0  # fewer failures than draws


def test_it_is_stable_for_many_samples() -> None:
    """No overflow, no loss: binomials of this size have 600 digits."""
    assert isclose(pass_at_k(2000, 1, 100), 0.05)
    assert 0.0 < pass_at_k(2000, 3, 1000) < 1.0


@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (1, 1, 2, "pass@2 needs at least 2 samples, got 1"),
        (3, 1, 0, "`k` must be >= 1, got 0"),
        (3, 4, 1, r"`c` must be from 0 to 3 \(`n`\), got 4"),
        (3, -1, 1, r"`c` must be from 0 to 3 \(`n`\), got -1"),
        (0, 0, 1, "pass@1 needs at least 1 samples, got 0"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(
    n: int, c: int, k: int, message: str
) -> None:
    """No estimate is better than a wrong one."""
    with pytest.raises(ValueError, match=message):
        pass_at_k(n, c, k)


def test_the_mean_is_over_problems() -> None:
    """Each problem counts once, however many samples it has."""
    assert mean_pass_at_k([(1, 1), (4, 0)], 1) == 0.5


def test_the_mean_does_not_depend_on_the_order() -> None:
    """Problems end in any order, and the last digit must not tell."""
    counts = [(10, c) for c in (8, 3, 7, 7, 8, 3, 5, 3)]
    assert mean_pass_at_k(counts, 3) == mean_pass_at_k(sorted(counts), 3)


def test_there_is_no_mean_over_a_part() -> None:
    """One problem with too few samples, or none at all: None."""
    assert mean_pass_at_k([(4, 1), (1, 1)], 2) is None
    assert mean_pass_at_k([], 1) is None
