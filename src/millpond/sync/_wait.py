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
from inspect import isawaitable
from typing import TypeAlias

from millpond._base import StopSignal, reach
from millpond.errors import Stopped, UsageError
from millpond.sync._notify import Notify

Predicate: TypeAlias = Callable[[], object]


class WaitOutcome(enum.Enum):
    """Why `wait_until_or_stopped` returned."""

    READY = "ready"
    STOPPED = "stopped"


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


async def _wait(notify: Notify, stop: StopSignal | None, predicate: Predicate) -> WaitOutcome:
    unused = False  # a `notify_one` that this call took and has not acted on
    try:
        while True:
            if stop is not None and stop.is_stopped():
                return WaitOutcome.STOPPED
            ready = _holds(predicate)
            unused = False  # ready: used. Not ready: it came for nothing, as it may.
            if ready:
                return WaitOutcome.READY
            reach("before_arm")
            with notify.notified() as armed:
                notified = armed.enable()
                unused = armed.used_one
                reach("after_arm")
                if stop is not None and stop.is_stopped():
                    return WaitOutcome.STOPPED
                if _holds(predicate):
                    unused = False
                    return WaitOutcome.READY
                if notified:
                    continue
                try:
                    await armed.wait(stop=stop)
                except Stopped:
                    return WaitOutcome.STOPPED
                unused = armed.used_one
    finally:
        if unused:
            notify.notify_one()


def _holds(predicate: Predicate) -> bool:
    answer = predicate()
    if isawaitable(answer):
        if isinstance(answer, Coroutine):
            answer.close()  # dropped unawaited, it would warn on top of the error
        msg = (
            f"`predicate` must be a plain function, but {predicate!r} returned an awaitable,"
            f" which is always true; read the state synchronously"
        )
        raise UsageError(msg)
    return bool(answer)
