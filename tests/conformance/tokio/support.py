"""What a Rust test does by hand, in the words of asyncio.

A spawned future is a task that has run up to its first wait; polling is letting the loop
come to rest; dropping a future is cancelling its task. A model checker's run is the same
scenario in every order of its parties, and cancelled at every turn.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from tests.toolkit import end, quiet, turns

R = TypeVar("R")

MOST_DELAY = 2
"""Turns of the loop between the starts of two parties, at most."""

MOST_TURNS = 100
"""A sweep that goes on for longer has no end."""


class Scenario(NamedTuple):
    """A run of something new: who takes part, and what holds at the end."""

    parties: list[Coroutine[Any, Any, object]]
    check: Callable[[], None]


async def spawn(work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
    """Start *work*, and return when it has ended or waits for something."""
    task = asyncio.create_task(work)
    await quiet()
    return task


async def pending(*tasks: "asyncio.Task[Any]") -> None:
    """Expect that all *tasks* wait, and that nothing will wake them by itself."""
    await quiet()
    assert not [task for task in tasks if task.done()]


async def ready(task: "asyncio.Task[R]") -> R:
    """Expect that *task* has ended, or does so by itself. Return or raise its outcome."""
    await quiet()
    assert task.done(), f"still waits: {task}"
    return task.result()


async def drop(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel *tasks*, and expect that each of them was still waiting."""
    await end(*tasks)
    assert all(task.cancelled() for task in tasks)


async def in_every_order(make: Callable[[], Scenario]) -> None:
    """Run a scenario with its parties started in every order, close and far apart.

    All must come to their end in each run, without help.
    """
    unused = [make()]
    count = len(unused[0].parties)
    for order in itertools.permutations(range(count)):
        for delays in itertools.product(range(MOST_DELAY + 1), repeat=count):
            parties, check = unused.pop() if unused else make()
            tasks: list[asyncio.Task[object]] = []
            for place, delay in zip(order, delays, strict=True):
                await turns(delay)
                tasks.append(asyncio.create_task(parties[place]))
            await quiet()
            stuck = [task for task in tasks if not task.done()]
            await end(*stuck)
            assert not stuck, f"stuck with parties in the order {order}, delays {delays}"
            for task in tasks:
                task.result()
            check()


async def cancelled_at_every_turn(make: Callable[[], Scenario]) -> None:
    """Run a scenario and cancel its first party, a turn later each time, in both orders.

    The cancel comes before or after the other steps of the same turn. All other parties
    must come to their end; the sweep is over when the first one ends before its cancel.
    """
    for cancel_first in (True, False):
        for turn in range(MOST_TURNS):
            if await _ends_before_cancel(make(), turn, cancel_first=cancel_first):
                assert turn, "the first party never waited, so no cancel could meet it"
                break
        else:
            msg = f"the first party had not ended after {MOST_TURNS} turns"
            raise AssertionError(msg)


async def _ends_before_cancel(scenario: Scenario, turn: int, *, cancel_first: bool) -> bool:
    victim: asyncio.Task[object]

    async def cancel() -> bool:
        await turns(turn)
        return not victim.cancel()

    canceller = asyncio.create_task(cancel()) if cancel_first else None
    tasks = [asyncio.create_task(party) for party in scenario.parties]
    victim, *others = tasks
    canceller = canceller or asyncio.create_task(cancel())
    has_ended = await canceller
    await quiet()
    stuck = [task for task in others if not task.done()]
    await end(*stuck)
    assert not stuck, f"stuck after a cancel at turn {turn} (cancel first: {cancel_first})"
    assert victim.done()
    for task in tasks:
        if not task.cancelled():
            task.result()
    scenario.check()
    return has_ended
