"""How a caller sleeps: one future, completed by whichever source fires first.

Every wait of the library ends up in `park`. A source that wakes it (a limiter, an
inventory, a notification, a stop) completes the future with None and says what it
did in state of its own; whoever was parked acts on that state, never on the
wake-up. No helper task is made per wait, with one exception: a foreign
`StopSignal` offers only a coroutine, and one task cannot await two things.
"""

import asyncio
from typing import Protocol, cast

from millpond._base._home import Home, Parked
from millpond.errors import UsageError

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
HELPER_GRACE_SECONDS = 1.0


class StopSignal(Protocol):
    """What a wait needs to know of a stop. `is_stopped` is the authority.

    `wait_stopped` must be safe to cancel and to start again, any number of times.
    """

    def is_stopped(self) -> bool:
        """Whether the stop was asked for. Once true, it stays true."""
        ...

    async def wait_stopped(self) -> None:
        """Return once `is_stopped()` is true."""
        ...


class PushStop:
    """A stop signal that completes futures itself, so that no task is needed.

    A plain class to inherit from: every wait asks whether its stop is one, and asking an
    abstract class or a protocol costs as much as the wait.
    """

    __slots__ = ("_home", "_parked", "_stopped")

    def __init__(self, owner: str) -> None:
        self._home = Home(owner)
        self._stopped = False
        self._parked: dict[Parked, None] = {}

    def is_stopped(self) -> bool:
        """Whether the stop was asked for."""
        return self._stopped

    async def wait_stopped(self) -> None:
        """Return once the stop was asked for.

        Cancellation:
            Safe, and the wait may be started again any number of times.
        """
        if not self._stopped:
            await park(self._home.new_parked(), self)

    def attach(self, parked: Parked) -> None:
        """Complete *parked* when the stop is asked for. For waits; see `wait_stopped`."""
        if self._stopped:
            wake(parked)
        else:
            self._home.adopt(parked)
            self._parked[parked] = None

    def detach(self, parked: Parked) -> None:
        """Forget *parked*, if it is known."""
        self._parked.pop(parked, None)


class EitherStop:
    """Stopped when one of two signals is. Made by `either`."""

    __slots__ = ("parts",)

    def __init__(self, *parts: StopSignal) -> None:
        self.parts = parts

    def is_stopped(self) -> bool:
        """Whether one of the parts is stopped."""
        return any(part.is_stopped() for part in self.parts)

    @property
    def reason(self) -> str:
        """The reason of the first part that is stopped."""
        return next((reason_of(part) for part in self.parts if part.is_stopped()), "")

    async def wait_stopped(self) -> None:
        """Return once one of the parts is stopped.

        Cancellation:
            Safe, and the wait may be started again any number of times.
        """
        if not self.is_stopped():
            await park(asyncio.get_running_loop().create_future(), self)


def either(first: StopSignal | None, second: StopSignal | None) -> StopSignal | None:
    """Return one signal for both; None stands for no signal."""
    if first is None or first is second:
        return second
    return first if second is None else EitherStop(*_parts(first), *_parts(second))


def _parts(stop: StopSignal) -> tuple[StopSignal, ...]:
    # Flat: an EitherStop inside another would be parked on as a foreign signal, with a task.
    return stop.parts if isinstance(stop, EitherStop) else (stop,)


def reason_of(stop: StopSignal) -> str:
    """Return why *stop* stopped, as far as it can say."""
    return str(getattr(stop, "reason", ""))


def wake(parked: Parked) -> None:
    """Complete *parked*, unless another source was first."""
    if not parked.done():
        parked.set_result(None)


async def park(parked: Parked, stop: StopSignal | None) -> None:
    """Sleep until *parked* is completed, or *stop* is asked for.

    Cancellation:
        Safe. Nothing stays attached to *stop*. What a source did just before the
        cancel is for the caller to undo.
    """
    if stop is None:
        await parked
    elif isinstance(stop, PushStop):
        stop.attach(parked)
        try:
            await parked
        finally:
            stop.detach(parked)
    elif isinstance(stop, EitherStop):
        await _park_beside(parked, stop.parts)
    else:
        await _park_beside(parked, (stop,))


async def pause(seconds: float, stop: StopSignal | None = None) -> None:
    """Sleep for *seconds*, or until *stop* is asked for, whichever comes first.

    Cancellation:
        Safe.
    """
    loop = asyncio.get_running_loop()
    parked: Parked = loop.create_future()
    timer = loop.call_later(seconds, wake, parked)
    try:
        await park(parked, stop)
    finally:
        timer.cancel()


async def _park_beside(parked: Parked, stops: tuple[StopSignal, ...]) -> None:
    """Sleep beside any number of signals; a foreign one costs a task meanwhile."""
    pushed = [stop for stop in stops if isinstance(stop, PushStop)]
    foreign = [stop for stop in stops if not isinstance(stop, PushStop)]
    failures: list[BaseException] = []
    helpers: set[asyncio.Task[None]] = set()
    try:
        for stop in pushed:
            stop.attach(parked)
        for signal in foreign:
            relay = _relay(parked, signal, failures)
            helpers.add(asyncio.create_task(relay, name="millpond-foreign-stop"))
        await parked
    finally:
        for stop in pushed:
            stop.detach(parked)
        for helper in helpers:
            helper.cancel()
        if helpers:
            # Bounded: a foreign `wait_stopped` that ignores its cancel cannot hold us.
            await asyncio.wait(helpers, timeout=HELPER_GRACE_SECONDS)
    if failures:
        raise failures[0]


async def _relay(parked: Parked, stop: StopSignal, failures: list[BaseException]) -> None:
    """Complete *parked* when *stop* is asked for, or when nobody can tell any more."""
    wait_seconds = FIRST_PAUSE_SECONDS
    while True:
        try:
            await stop.wait_stopped()
        except BaseException as error:  # noqa: BLE001 - it travels to whoever is parked
            if parked.done() and cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
                return  # our own cancel, or what it led to: the wait is over
            if isinstance(error, asyncio.CancelledError):
                error = UsageError(
                    f"the wait for {stop!r} was cancelled from elsewhere, so its stop"
                    f" could not be seen any more; `wait_stopped` must end by the stop only"
                )
            failures.append(error)
            wake(parked)
            return
        if stop.is_stopped():
            wake(parked)
            return
        # It returned although nothing is stopped. Look again, but do not spin.
        try:
            await asyncio.sleep(wait_seconds)
        except asyncio.CancelledError:
            if not parked.done():
                failures.append(UsageError("the helper task of a foreign stop was cancelled"))
                wake(parked)
            raise
        wait_seconds = min(2 * wait_seconds, LONGEST_PAUSE_SECONDS)
