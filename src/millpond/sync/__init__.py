"""Waiting for state, without lost wake-ups.

Which contract wants which primitive:

==========================================================  =================================
What you need                                               What to use
==========================================================  =================================
a state may have changed; wake-ups may coalesce             state + `Notify` + `wait_until`
the same, and a stop must end the wait                      ... + `wait_until_or_stopped`
a stop that stays asked for and reaches everything below    `Stop`
a counted number of permits                                 `millpond.flow.Limiter`
==========================================================  =================================

Law of this floor: nothing that changed goes unnoticed. Publish the state first,
then notify; act on the state, never on the wake-up.

Example:
    >>> import asyncio
    >>> from millpond.sync import Notify, Stop, wait_until_or_stopped
    >>> async def main() -> None:
    ...     changed, stop, done = Notify(), Stop(), []
    ...
    ...     async def worker() -> None:
    ...         done.append("answer")  # the state first,
    ...         changed.notify_waiters()  # then the hint
    ...
    ...     task = asyncio.create_task(worker())
    ...     print(await wait_until_or_stopped(changed, stop, lambda: done))
    ...     await task
    >>> asyncio.run(main())
    WaitOutcome.READY
"""

from millpond._base import StopSignal
from millpond.sync._notify import Notified, Notify
from millpond.sync._stop import Stop
from millpond.sync._wait import WaitOutcome, wait_until, wait_until_or_stopped

__all__ = [
    "Notified",
    "Notify",
    "Stop",
    "StopSignal",
    "WaitOutcome",
    "wait_until",
    "wait_until_or_stopped",
]
