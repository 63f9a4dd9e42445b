"""Retry: what is worth another attempt, when it may begin, and what never is."""

import asyncio
import datetime as dt
import email.utils
import math
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.errors import DeadlineError, InputError, Stopped, Transient, UsageError
from millpond.flow import Attempt, Retry
from millpond.sync import Stop
from tests.toolkit import ForeignStop, end, quiet, run_virtual

STEADY = settings(derandomize=True, deadline=None, database=None)
"""The same examples in each run, however busy the machine is."""


class Answer:
    """A response as HTTP clients hang it on an error."""

    def __init__(self, status: object, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.headers = headers or {}


class StatusError(Exception):
    """What ``raise_for_status`` raises, in the shape that all clients share."""

    def __init__(self, status: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"status {status}")
        self.response = Answer(status, headers)


class Calls:
    """A function that fails as it is told, then answers."""

    def __init__(self, *ends: BaseException | str) -> None:
        self.ends: Iterator[BaseException | str] = iter(ends)
        self.times: list[float] = []

    async def __call__(self) -> str:
        """Fail or answer."""
        self.times.append(asyncio.get_running_loop().time())
        end = next(self.ends)
        if isinstance(end, BaseException):
            raise end
        return end


@pytest.fixture(name="httpx2")
def _httpx2() -> ModuleType:
    """The real client; the environments of the races do not have it."""
    module: ModuleType = pytest.importorskip("httpx2", reason="httpx2 is not installed here")
    return module


# --- What is retried --------------------------------------------------------------------

WORTH = [
    Transient("busy"),
    TimeoutError(),
    DeadlineError(layer="request", timeout=1, elapsed=1),
    ConnectionError(),
    ConnectionResetError(),
    BrokenPipeError(),
    *(StatusError(status) for status in (408, 425, 429, 500, 502, 503, 504, 529)),
]
NOT_WORTH = [
    TypeError(),
    ValueError(),
    KeyError("x"),
    AttributeError(),
    AssertionError(),
    OSError("disk full"),
    RuntimeError(),
    UsageError("wrong"),
    InputError("wrong"),
    Stopped(),
    *(StatusError(status) for status in (200, 301, 400, 401, 403, 404, 409, 422, 501)),
    StatusError("500"),
    StatusError(None),
]


@pytest.mark.parametrize("error", WORTH, ids=repr)
def test_is_worth_another_attempt(error: Exception) -> None:
    """It may pass."""
    assert Retry().is_worth(error)


@pytest.mark.parametrize("error", NOT_WORTH, ids=repr)
def test_is_not_worth_another_attempt(error: Exception) -> None:
    """It would fail again; a mistake in the code above all."""
    assert not Retry().is_worth(error)


def test_also_adds_kinds_and_takes_none_away() -> None:
    """A status that was judged stays judged."""
    retry = Retry(also=lambda error: isinstance(error, LookupError))
    assert retry.is_worth(KeyError("x"))
    assert not retry.is_worth(ValueError())
    assert retry.is_worth(Transient("busy"))


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        AttributeError(),
        NameError(),
        ImportError(),
        SyntaxError(),
        UsageError("wrong"),
        InputError("wrong"),
    ],
    ids=repr,
)
def test_also_cannot_make_a_mistake_worth_it(error: Exception) -> None:
    """It would be met again, however generous *also* is."""
    retry = Retry(also=lambda _: True)
    assert not retry.is_worth(error)
    assert retry.is_worth(ValueError())


@pytest.mark.parametrize(
    ("name", "worth"),
    [
        ("ConnectError", True),
        ("ReadError", True),
        ("WriteError", True),
        ("CloseError", True),
        ("ConnectTimeout", True),
        ("ReadTimeout", True),
        ("WriteTimeout", True),
        ("PoolTimeout", True),
        ("RemoteProtocolError", True),
        ("ProxyError", True),
        ("UnsupportedProtocol", False),
        ("LocalProtocolError", False),
        ("DecodingError", False),
        ("TooManyRedirects", False),
        ("InvalidURL", False),
        ("StreamConsumed", False),
    ],
)
def test_errors_of_httpx2(httpx2: ModuleType, name: str, worth: bool) -> None:
    """Transport errors may pass, unless the request itself is wrong; the rest may not."""
    kind: Any = getattr(httpx2, name)
    error = kind() if name == "StreamConsumed" else kind("what happened")
    assert Retry().is_worth(error) == worth


@pytest.mark.parametrize(("status", "worth"), [(429, True), (503, True), (404, False)])
def test_status_errors_of_httpx2(httpx2: ModuleType, status: int, worth: bool) -> None:
    """The real ``raise_for_status``, with the header in any case."""
    request = httpx2.Request("GET", "http://127.0.0.1/")
    response = httpx2.Response(status, headers={"retry-after": "7"}, request=request)
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        response.raise_for_status()
    assert Retry().is_worth(caught.value) == worth
    assert Retry(jitter=0).wait_after(caught.value, 1) == 7


async def test_a_refused_connection_of_httpx2_is_retried(httpx2: ModuleType) -> None:
    """A real one, on a loopback port where nobody listens."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    attempts: list[Attempt] = []
    async with httpx2.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx2.ConnectError):
            await Retry(3, first_wait=0).call(
                lambda: client.get(f"http://127.0.0.1:{port}/"), on_retry=attempts.append
            )
    assert [attempt.number for attempt in attempts] == [1, 2]


# --- How often --------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_ends_with_the_last_error_after_all_attempts(attempts: int) -> None:
    """The error of the last one, as it is; every earlier one was told."""

    async def main() -> None:
        errors = [Transient(f"number {number}") for number in range(1, attempts + 1)]
        calls, told = Calls(*errors), list[Attempt]()
        with pytest.raises(Transient) as caught:
            await Retry(attempts).call(calls, on_retry=told.append)
        assert caught.value is errors[-1]
        assert len(calls.times) == attempts
        assert [attempt.error for attempt in told] == errors[:-1]
        assert [attempt.number for attempt in told] == list(range(1, attempts))

    run_virtual(main())


def test_stops_at_the_first_success() -> None:
    """And returns it."""

    async def main() -> None:
        calls = Calls(Transient("busy"), TimeoutError(), "42", "never asked")
        assert await Retry(9).call(calls) == "42"
        assert len(calls.times) == 3

    run_virtual(main())


@pytest.mark.parametrize("error", [TypeError("mine"), KeyError("x"), StatusError(401)], ids=repr)
def test_what_is_not_worth_it_passes_at_once(error: Exception) -> None:
    """One attempt, no pause, nobody told."""

    async def main() -> None:
        calls, told = Calls(error), list[Attempt]()
        with pytest.raises(type(error)) as caught:
            await Retry().call(calls, on_retry=told.append)
        assert caught.value is error
        assert (len(calls.times), told) == (1, [])

    run_virtual(main())


@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
async def test_a_cancel_is_never_retried(kind: type[BaseException]) -> None:
    """R30: not even where everything else is."""
    calls = Calls(kind(), "never asked")
    coroutine = Retry(also=lambda _: True, first_wait=0).call(calls).__await__()
    with pytest.raises(kind):
        next(coroutine)
    assert len(calls.times) == 1


@pytest.mark.parametrize("where", ["attempt", "pause"])
async def test_a_cancel_from_outside_passes_through(where: str) -> None:
    """R30: from an attempt as from a pause."""
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        if where == "pause":
            msg = "busy"
            raise Transient(msg)
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(Retry(first_wait=3600, longest_wait=3600).call(ask))
    await quiet()
    assert not task.done()
    await end(task)
    assert task.cancelled()
    assert asked == 1


# --- When -------------------------------------------------------------------------------


def test_pauses_grow_to_their_longest() -> None:
    """Doubling from the first, as the clock of the loop shows."""

    async def main() -> None:
        calls = Calls(*(Transient("busy") for _ in range(6)), "42")
        retry = Retry(7, first_wait=1, longest_wait=10, jitter=0)
        assert await retry.call(calls) == "42"
        pauses = [late - early for early, late in zip(calls.times, calls.times[1:], strict=False)]
        assert pauses == pytest.approx([1, 2, 4, 8, 10, 10])

    run_virtual(main())


def test_the_pause_that_is_told_is_the_pause_that_is_made() -> None:
    """Jitter is drawn once."""

    async def main() -> None:
        calls, told = Calls(Transient("busy"), Transient("busy"), "42"), list[Attempt]()
        await Retry(3).call(calls, on_retry=told.append)
        pauses = [late - early for early, late in zip(calls.times, calls.times[1:], strict=False)]
        assert pauses == pytest.approx([attempt.wait for attempt in told])

    run_virtual(main())


@STEADY
@given(
    number=st.integers(1, 200),
    first=st.floats(0, 1e3),
    longest=st.floats(0, 1e4),
    jitter=st.floats(0, 10),
    chance=st.floats(0, 1),
)
def test_a_pause_stays_within_its_bounds(
    number: int, first: float, longest: float, jitter: float, chance: float
) -> None:
    """Never less than the plain pause, never more than the jitter's share above it."""
    retry = Retry(first_wait=first, longest_wait=longest, jitter=jitter, chance=lambda: chance)
    wait = retry.wait_after(Transient("busy"), number)
    plain = min(longest, first * 2.0 ** (number - 1))
    assert plain <= wait <= plain * (1 + jitter) * (1 + 1e-9)
    assert wait <= longest * (1 + jitter) * (1 + 1e-9)


@pytest.mark.parametrize("number", [1100, 100_000])
def test_a_pause_has_a_length_after_any_number_of_attempts(number: int) -> None:
    """The doubling alone would leave what a float can hold."""
    retry = Retry(2 * number, first_wait=0.01, longest_wait=5, jitter=0)
    assert retry.wait_after(Transient("busy"), number) == 5


@STEADY
@given(asked=st.floats(0, 1e6), jitter=st.floats(0, 10), chance=st.floats(0, 1))
def test_retry_after_is_a_lower_bound(asked: float, jitter: float, chance: float) -> None:
    """Whoever comes earlier than asked is refused again; it may exceed the longest pause."""
    retry = Retry(longest_wait=1, jitter=jitter, chance=lambda: chance)
    wait = retry.wait_after(Transient("busy", retry_after=asked), 3)
    assert asked <= wait <= asked * (1 + jitter) * (1 + 1e-9)


def test_jitter_differs_from_call_to_call() -> None:
    """Or all who failed together would come back together."""
    waits = {Retry().wait_after(Transient("busy"), 1) for _ in range(50)}
    assert len(waits) > 40


# --- Retry-After ------------------------------------------------------------------------

PLAIN = Retry(first_wait=0.25, jitter=0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", 0.25),
        ("", 0.25),
        ("nan", 0.25),
        ("inf", 0.25),
        ("1e999", 0.25),
        ("Thu, 99 Foo 1970 00:00:00 GMT", 0.25),
        ("Thu, 01 Jan 9999919700001 00:00:00 -0000", 0.25),
    ],
)
def test_retry_after_in_seconds_or_rubbish(header: str, seconds: float) -> None:
    """Rubbish counts as nothing said."""
    assert PLAIN.wait_after(StatusError(429, {"Retry-After": header}), 1) == seconds


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0330"])
def test_retry_after_as_a_date(zone: str) -> None:
    """In any zone; the wall clock is what a date speaks of."""
    then = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=100)
    if zone == "-0330":
        then = then.astimezone(dt.timezone(-dt.timedelta(hours=3, minutes=30)))
    header = email.utils.format_datetime(then, usegmt=zone == "GMT")
    assert zone in header
    wait = PLAIN.wait_after(StatusError(503, {"Retry-After": header}), 1)
    assert 97 < wait <= 100


@STEADY
@given(header=st.text(max_size=60) | st.text("0123456789 :,+-JanMonGMT", max_size=40))
def test_no_retry_after_makes_the_retry_itself_fail(header: str) -> None:
    """Whatever a server sends, the pause is a finite number of seconds >= 0."""
    wait = PLAIN.wait_after(StatusError(429, {"Retry-After": header}), 1)
    assert math.isfinite(wait)
    assert wait >= 0


def test_an_errors_own_retry_after_comes_first() -> None:
    """`Transient` says it without a response; None says nothing."""
    both = StatusError(429, {"Retry-After": "7"})
    both.retry_after = 3  # type: ignore[attr-defined] # a shape that some clients have
    assert PLAIN.wait_after(both, 1) == 3
    assert PLAIN.wait_after(Transient("busy", retry_after=None), 1) == 0.25
    assert PLAIN.wait_after(Transient("busy", retry_after=0), 1) == 0


def test_the_call_waits_as_long_as_it_was_asked() -> None:
    """Longer than the longest pause of its own."""

    async def main() -> None:
        calls = Calls(StatusError(429, {"Retry-After": "90"}), "42")
        await Retry(longest_wait=1, jitter=0).call(calls)
        assert calls.times[1] - calls.times[0] == pytest.approx(90)

    run_virtual(main())


# --- Deadline ---------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "asked"), [(10.0, 3), (3.0, 2), (3.001, 3), (0.5, 1), (0, 1)])
def test_no_attempt_that_could_not_begin_in_time_is_waited_for(budget: float, asked: int) -> None:
    """R33: pauses of 1 and 2 s; the error comes at once instead of after the deadline."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        calls = Calls(*(Transient("busy") for _ in range(3)))
        with pytest.raises(Transient):
            await Retry(3, first_wait=1, jitter=0).call(calls, deadline=start + budget)
        assert len(calls.times) == asked
        assert loop.time() <= start + max(budget, 0)

    run_virtual(main())


def test_a_retry_after_beyond_the_deadline_ends_it() -> None:
    """Waiting would be in vain; what the server said is in the error."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        calls = Calls(Transient("busy", retry_after=60), "never asked")
        with pytest.raises(Transient) as caught:
            await Retry().call(calls, deadline=start + 30)
        assert caught.value.retry_after == 60
        assert loop.time() == start

    run_virtual(main())


# --- Stop -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Stop, ForeignStop])
def test_a_stop_ends_a_pause(kind: type[Stop | ForeignStop]) -> None:
    """At once, and no further attempt is made."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        start, stop = loop.time(), kind()
        calls = Calls(Transient("busy"), "never asked")
        loop.call_later(1, stop.stop)
        with pytest.raises(Stopped):
            await Retry(first_wait=60, longest_wait=60).call(calls, stop=stop)
        assert loop.time() == start + 1
        assert len(calls.times) == 1

    run_virtual(main())


@pytest.mark.parametrize("kind", [Stop, ForeignStop])
def test_a_stop_does_not_interrupt_an_attempt(kind: type[Stop | ForeignStop]) -> None:
    """What it returns is paid for, and kept."""

    async def main() -> None:
        stop = kind()
        asyncio.get_running_loop().call_later(1, stop.stop)
        assert await Retry().call(lambda: asyncio.sleep(2, "42"), stop=stop) == "42"

    run_virtual(main())


# --- Mistakes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": 0}, "`attempts` must be an integer >= 1, got 0"),
        ({"attempts": 2.5}, "`attempts` must be an integer >= 1, got 2.5"),
        ({"first_wait": -1}, "`first_wait` must be seconds >= 0, got -1"),
        ({"first_wait": None}, "`first_wait` must be seconds >= 0, got None"),
        ({"longest_wait": math.inf}, "`longest_wait` must be seconds >= 0, got inf"),
        ({"jitter": -0.1}, r"`jitter` must be a share >= 0, got -0.1"),
        ({"jitter": math.nan}, "`jitter` must be a share >= 0, got nan"),
        ({"jitter": math.inf}, "`jitter` must be a share >= 0, got inf"),
        ({"jitter": True}, "`jitter` must be a share >= 0, got True"),
    ],
)
def test_refuses_what_cannot_be(options: dict[str, Any], message: str) -> None:
    """Each by its name, with what came."""
    with pytest.raises(ValueError, match=message):
        Retry(**options)
