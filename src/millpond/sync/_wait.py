"""Waiting for a state: check, arm, check again, sleep, and round again.

The story of the lost wake-up, which the order of these steps rules out:

1. A waiter looks: not ready.
2. The publisher makes it ready and notifies. Nobody is armed: the hint is gone.
3. The waiter goes to sleep, and sleeps for ever.

Armed before the second look, the waiter either sees the new state in that look, or
is woken from its sleep. On one event loop nothing can come between two synchronous
steps; the second look is kept because it is the contract, and because it survives an
edit that puts an await where none was.
"""

import enum
from collections.abc import Callable, Coroutine
from typing import TypeAlias

from millpond._base import StopSignal, park, reach, reason_of
from millpond.errors import Stopped, UsageError
from millpond.sync._notify import Notify

Predicate: TypeAlias = Callable[[], object]


class WaitOutcome(enum.Enum):
    """Why `wait_until_or_stopped` returned."""

    READY = "ready"
    STOPPED = "stopped"


# On Python 3.11 the name of an enum's member is looked up by a function.
_READY, _STOPPED = WaitOutcome.READY, WaitOutcome.STOPPED


async def wait_until(notify: Notify, predicate: Predicate) -> None:
    """Return once *predicate* holds.

    Args:
        notify: Notified after every change of the state that *predicate* reads.
        predicate: Synchronous, without side effects, safe to call again: it runs once
            when it holds already, and twice per turn of the wait. What it raises
            passes through.

    Raises:
        UsageError: If *predicate* returns an awaitable, which would always be true.

    Cancellation:
        Safe: nothing is consumed, nothing stays armed, an unused `notify_one` goes to
        the next waiter.
    """
    await _wait(notify, None, predicate)


async def wait_until_or_stopped(
    notify: Notify, stop: StopSignal, predicate: Predicate
) -> WaitOutcome:
    """Return READY once *predicate* holds, or STOPPED once *stop* is asked for.

    A foreign *stop* (any object with `is_stopped` and `wait_stopped`) costs one task,
    which exists only while this call sleeps.

    Args:
        notify: As in `wait_until`.
        stop: Looked at before *predicate*, each time.
        predicate: As in `wait_until`.

    Raises:
        UsageError: If *predicate* returns an awaitable.

    Cancellation:
        As in `wait_until`.

    Ordering:
        Stop beats ready whenever both hold.
    """
    return await _wait(notify, stop, predicate)


async def wait_until_or_raise(
    notify: Notify, stop: StopSignal | None, predicate: Predicate
) -> None:
    """Return once *predicate* holds; the form that public waits with ``stop=`` are made of.

    Raises:
        Stopped: When *stop* is asked for; it beats ready.

    Cancellation:
        As in `wait_until`.
    """
    if await _wait(notify, stop, predicate) is WaitOutcome.STOPPED and stop is not None:
        raise Stopped(reason_of(stop))


async def _wait(  # noqa: C901, PLR0912 - the canonical loop, in one place and in one piece
    notify: Notify, stop: StopSignal | None, predicate: Predicate
) -> WaitOutcome:
    unused = False  # a `notify_one` that this call took and has not acted on
    try:
        while True:
            if stop is not None and stop.is_stopped():
                return _STOPPED
            ready = predicate()
            if ready is not True and ready is not False:
                ready = _truth(ready, predicate)
            unused = False  # ready: used. Not ready: it came for nothing, as it may.
            if ready:
                return _READY
            reach("before_arm")
            unused = notify.take_permit()
            parked = None if unused else notify.arm()
            try:
                reach("after_arm")
                if stop is not None and stop.is_stopped():
                    return _STOPPED
                ready = predicate()
                if ready is not True and ready is not False:
                    ready = _truth(ready, predicate)
                if ready:
                    unused = False
                    return _READY
                if parked is None:
                    continue
                if stop is None:
                    await parked
                else:
                    await park(parked, stop)
                    if stop.is_stopped():
                        return _STOPPED
                unused = notify.act_on(parked)
                parked = None
            finally:
                # Left early: nothing stays armed, and what had reached us goes on.
                if parked is not None:
                    notify.disarm(parked)
    finally:
        if unused:
            notify.notify_one()


def _truth(answer: object, predicate: Predicate) -> bool:
    """Return what an answer that is no bool amounts to; refuse an awaitable."""
    if hasattr(type(answer), "__await__"):
        if isinstance(answer, Coroutine):
            answer.close()  # dropped unawaited, it would warn on top of the error
        msg = (
            f"`predicate` must be a plain function, but {predicate!r} returned an awaitable,"
            f" which is always true; read the state synchronously"
        )
        raise UsageError(msg)
    return bool(answer)
