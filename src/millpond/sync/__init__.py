"""Waiting for state, without lost wake-ups.

Law of this floor: nothing that changed goes unnoticed. Publish the state first, then
notify; act on the state, never on the wake-up.

Which contract wants which primitive:

====================================================  =================================
What you need                                         What to use
====================================================  =================================
a state may have changed, and wake-ups may coalesce   state + `Notify` + `wait_until`
the same, and a stop must end the wait                ... + `wait_until_or_stopped`
the same, and the change comes from a thread          ... + `publish_threadsafe`
a stop that stays asked for, for everything below     `Stop`
something becomes ready once, and stays so            `Latch`
work in parallel, finished strictly by number         `Sequencer`
every item is received once                           `Channel`
every subscriber gets every item, or learns its lag   `Broadcast`
only the latest value counts                          `Watch`
one result, delivered once                            `Oneshot`
a counted number of permits                           `millpond.flow.Limiter`
====================================================  =================================

A bounded `Channel` counts its own room. `Notify` keeps no log: whatever must be counted
or kept goes through a primitive that holds the items or permits.

A state, its changes, and a stop:

    >>> import asyncio
    >>> from millpond.sync import *
    >>> async def state() -> None:
    ...     changed, stop, done = Notify(), Stop(), []
    ...
    ...     def publish() -> None:
    ...         done.append("answer")  # the state first,
    ...         changed.notify_waiters()  # then the hint
    ...
    ...     asyncio.get_running_loop().call_soon(publish)
    ...     print(await wait_until_or_stopped(changed, stop, lambda: done))
    ...     await wait_until(changed, lambda: done)  # holds already: returns at once
    ...     stop.stop("enough")
    ...     print(await wait_until_or_stopped(changed, stop.child(), lambda: done))
    >>> asyncio.run(state())
    WaitOutcome.READY
    WaitOutcome.STOPPED

From a thread:

    >>> async def thread() -> None:
    ...     changed, done = Notify(), []
    ...     loop = asyncio.get_running_loop()
    ...     worker = asyncio.to_thread(publish_threadsafe, loop, lambda: done.append(1), changed)
    ...     await asyncio.gather(worker, wait_until(changed, lambda: done))
    ...     print(done)
    >>> asyncio.run(thread())
    [1]

Ready once, and turns by number:

    >>> async def turns() -> None:
    ...     ready, line = Latch(), Sequencer()
    ...
    ...     async def work(number: int) -> None:
    ...         await ready.wait_ready()
    ...         await line.wait_turn(number)
    ...         print("turn", number)
    ...         line.advance(number)
    ...
    ...     workers = asyncio.gather(work(1), work(0))
    ...     ready.mark_ready()
    ...     await workers
    >>> asyncio.run(turns())
    turn 0
    turn 1

Items and values:

    >>> async def values() -> None:
    ...     queue, news, level, answer = Channel(1), Broadcast(8), Watch(0), Oneshot()
    ...     reader, follower = news.subscribe(), level.subscribe()
    ...     await queue.send("item")
    ...     news.send("headline")
    ...     level.set(7)
    ...     answer.send(42)
    ...     await follower.changed()
    ...     print(await queue.recv(), await reader.recv(), follower.borrow(), await answer.recv())
    >>> asyncio.run(values())
    item headline 7 42
"""

from millpond._base import StopSignal
from millpond.sync._broadcast import Broadcast, BroadcastStatistics, Subscription
from millpond.sync._channel import Channel, ChannelStatistics, Slot
from millpond.sync._latch import Latch
from millpond.sync._notify import Notified, Notify
from millpond.sync._oneshot import Oneshot
from millpond.sync._publish import publish_threadsafe
from millpond.sync._sequencer import Sequencer, SequencerStatistics, SlowTurn, TurnReport
from millpond.sync._stop import Stop
from millpond.sync._turn_ledger import Segment
from millpond.sync._wait import WaitOutcome, wait_until, wait_until_or_stopped
from millpond.sync._watch import Watch, WatchSubscription

__all__ = [
    "Broadcast",
    "BroadcastStatistics",
    "Channel",
    "ChannelStatistics",
    "Latch",
    "Notified",
    "Notify",
    "Oneshot",
    "Segment",
    "Sequencer",
    "SequencerStatistics",
    "Slot",
    "SlowTurn",
    "Stop",
    "StopSignal",
    "Subscription",
    "TurnReport",
    "WaitOutcome",
    "Watch",
    "WatchSubscription",
    "publish_threadsafe",
    "wait_until",
    "wait_until_or_stopped",
]
