"""pass@k, by the unbiased estimator."""

import math
from collections.abc import Iterable


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the chance that at least one of *k* samples passes.

    Estimated from *n* samples of which *c* passed: one minus the chance that *k*
    drawn without replacement all fail, ``1 - C(n-c, k) / C(n, k)``, computed as a
    product so that no large number appears.

    Args:
        n: Samples graded, at least *k*.
        c: Samples that passed, from 0 to *n*.
        k: Draws, at least 1.

    Raises:
        ValueError: If the numbers contradict each other. With fewer than *k*
            samples there is no unbiased estimate.

    Example:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
        (0.25, 0.5, 1.0)
    """
    if k < 1:
        msg = f"`k` must be >= 1, got {k}"
        raise ValueError(msg)
    if n < k:
        msg = f"pass@{k} needs at least {k} samples, got {n}"
        raise ValueError(msg)
    if not 0 <= c <= n:
        msg = f"`c` must be from 0 to {n} (`n`), got {c}"
        raise ValueError(msg)
    if c == n or k == 1:
        return c / n  # exact, where the product would round
    all_fail = 1.0
    for i in range(n - c + 1, n + 1):
        all_fail *= 1.0 - k / i
    return 1.0 - all_fail


def mean_pass_at_k(counts: Iterable[tuple[int, int]], k: int) -> float | None:
    """Return the mean of `pass_at_k` over problems.

    Args:
        counts: Samples graded and samples passed, a pair per problem.
        k: Draws, at least 1.

    Returns:
        None when there is no problem, or one with fewer than *k* samples: an
        average over some of the problems would look like an average over all.

    Raises:
        ValueError: As `pass_at_k` does, except for too few samples.
    """
    pairs = list(counts)
    if not pairs or any(n < k for n, _ in pairs):
        return None
    # `fsum`, so that the order in which problems end does not show in the last digit.
    return math.fsum(pass_at_k(n, c, k) for n, c in pairs) / len(pairs)
