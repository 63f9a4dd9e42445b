"""Which failures are worth another attempt, and when it may begin.

There is one owner of retries: turn off those of the client library.
"""

import email.utils
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast, final

from millpond._base import (
    StopSignal,
    at_least_one,
    chance,
    loop_time,
    not_negative,
    pause,
    reason_of,
    seconds,
    wall_time,
)
from millpond.errors import InputError, Stopped, Transient, UsageError

V = TypeVar("V")

MISTAKES = frozenset({"UnsupportedProtocol", "LocalProtocolError"})
"""Transport errors of httpx that say that the request itself is wrong."""

MOST_DOUBLINGS = 1000
"""Beyond, a float overflows; any wait has reached its longest long before."""

OUR_BUGS = (
    TypeError,
    AttributeError,
    NameError,
    ImportError,
    SyntaxError,
    UsageError,
    InputError,
)
"""Mistakes in code or settings: the next attempt would meet them again."""

WORTH_ANOTHER = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP status codes that may pass."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that failed and will be followed by another."""

    number: int
    """From 1."""
    error: Exception
    wait: float
    """Seconds until the next one."""


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """Calls again after failures that may pass, with growing pauses and positive jitter.

    Retried are `Transient`, `TimeoutError`, `ConnectionError`, transport errors of httpx
    and httpx2, HTTP answers of status 408, 425, 429, 500, 502, 503, 504 and 529 (an
    error with a ``response``, as ``raise_for_status`` makes it), and what *also* accepts.
    A cancel never is, and neither is a mistake in code or settings (`OUR_BUGS`: TypeError
    and its kin, whatever *also* says).

    A pause lasts as long as ``Retry-After`` says, or else ``first_wait * 2 ** n`` up to
    ``longest_wait``; up to *jitter* of it is added, nothing ever subtracted. An attempt
    that could not begin before the deadline is not waited for.

    Args:
        attempts: How many in all, at least 1.
        first_wait: Seconds before the second attempt.
        longest_wait: Seconds; the pause grows no further. Retry-After may exceed it.
        jitter: The share of a pause that may be added to it.
        also: Says for other errors whether they may pass.
        chance: Returns a number from 0 to 1, for the jitter.

    Example:
        >>> import asyncio
        >>> from millpond.errors import Transient
        >>> answers = iter([Transient("busy"), "42"])
        >>> async def ask():
        ...     answer = next(answers)
        ...     if isinstance(answer, Exception):
        ...         raise answer
        ...     return answer
        >>> asyncio.run(Retry(3, first_wait=0).call(ask))
        '42'
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 30.0
    jitter: float = 0.25
    also: Callable[[Exception], bool] | None = None
    chance: Callable[[], float] = chance

    def __post_init__(self) -> None:
        at_least_one("attempts", self.attempts)
        seconds("first_wait", self.first_wait, optional=False)
        seconds("longest_wait", self.longest_wait, optional=False)
        not_negative("jitter", self.jitter, "a share", optional=False)

    def is_worth(self, error: Exception) -> bool:
        """Whether another attempt may end better than *error*."""
        if isinstance(error, OUR_BUGS):
            return False
        if isinstance(error, Transient | TimeoutError | ConnectionError):
            return True
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(status, int):
            return status in WORTH_ANOTHER
        if _is_transport_error(error):
            return True
        return self.also is not None and self.also(error)

    def wait_after(self, error: Exception, number: int) -> float:
        """Return the seconds to wait after attempt *number* (from 1) failed with *error*."""
        asked = _retry_after(error)
        if asked is None:
            asked = min(self.longest_wait, self.first_wait * 2.0 ** min(number - 1, MOST_DOUBLINGS))
        return asked * (1 + self.jitter * self.chance())

    async def call(
        self,
        function: Callable[[], Awaitable[V]],
        *,
        deadline: float | None = None,
        stop: StopSignal | None = None,
        on_retry: Callable[[Attempt], None] | None = None,
    ) -> V:
        """Await ``function()``, again after failures that may pass; return its result.

        Args:
            function: Called anew for each attempt.
            deadline: By the loop's clock. An attempt that could not begin before it is
                not waited for; ending one that runs is the caller's business.
            stop: Ends a pause. An attempt that runs is not interrupted.
            on_retry: Told of each failure that another attempt follows.

        Raises:
            Exception: The error of the last attempt.
            Stopped: When *stop* is asked for during a pause.

        Cancellation:
            Passes through at once, from an attempt as from a pause.
        """
        number = 1
        while True:
            try:
                return await function()
            except Exception as error:
                if number >= self.attempts or not self.is_worth(error):
                    raise
                wait = self.wait_after(error, number)
                if deadline is not None and loop_time() + wait >= deadline:
                    raise
                if on_retry is not None:
                    on_retry(Attempt(number=number, error=error, wait=wait))
            await pause(wait, stop)
            if stop is not None and stop.is_stopped():
                raise Stopped(reason_of(stop))
            number += 1


def _is_transport_error(error: Exception) -> bool:
    """Whether it is httpx's or httpx2's, known by name: neither is a dependency."""
    if type(error).__name__ in MISTAKES:
        return False
    return any(
        kind.__name__ == "TransportError" and kind.__module__.split(".")[0] in ("httpx", "httpx2")
        for kind in type(error).__mro__
    )


def _retry_after(error: Exception) -> float | None:
    """Return the seconds that the other side asked for: a number or a date of HTTP."""
    asked: object = getattr(error, "retry_after", None)
    if asked is None:
        headers: object = getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            asked = cast("Mapping[str, object]", headers).get("Retry-After")
    if asked is None:
        return None
    try:
        wait = float(str(asked))
    except ValueError:
        try:
            # A date is wall-clock time by its nature.
            wait = email.utils.parsedate_to_datetime(str(asked)).timestamp() - wall_time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, wait) if math.isfinite(wait) else None
