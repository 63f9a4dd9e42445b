"""Random programs: whatever the stages do and whenever the run is ended, the books balance."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.errors import SourceFailed, SupplierFailed
from millpond.flow import Capacity, Outcome, Pipeline, Run, Status
from tests.flow.conftest import check_over, turns, virtually

stable = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class Odd(BaseException):
    """An error for the whole process."""


@dataclass(frozen=True)
class Step:
    """What one call of a stage does: waits some turns and some seconds, then ends somehow."""

    turns: int
    seconds: float
    end: str

    async def go(self) -> None:
        """Do it."""
        await turns(self.turns)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.end == "fails":
            raise OSError(self.end)
        if self.end == "cancels itself":
            raise asyncio.CancelledError
        if self.end == "ends the process":
            raise Odd


def steps(*ends: str) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for the behaviours that a stage repeats in turn."""
    step = st.builds(
        Step,
        turns=st.integers(0, 4),
        seconds=st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 4.0, 30.0]),
        end=st.sampled_from(["ok", "ok", "ok", *ends]),
    )
    return st.lists(step, min_size=1, max_size=5)


@dataclass(frozen=True)
class Program:
    """One random world, and what is done to the run in it."""

    items: int
    capacity: tuple[int, int, int, int]
    supply: list[Step]
    send: list[Step] | None
    request: list[Step]
    consume: list[Step]
    discard: list[Step]
    source: list[Step] | None
    ttl_t: float | None
    ttl_q: float | None
    max_unread: int
    target: int | None
    actions: list[tuple[str, int, float]]


SIZES = st.integers(1, 3)

programs = st.builds(
    Program,
    items=st.integers(0, 9),
    capacity=st.tuples(SIZES, SIZES, SIZES, SIZES),
    supply=steps("fails"),
    send=st.none() | steps("fails", "cancels itself"),
    request=steps("fails", "cancels itself", "ends the process"),
    consume=steps("fails", "cancels itself", "ends the process"),
    discard=steps("fails"),
    source=st.none() | steps(),
    ttl_t=st.sampled_from([None, None, 1.5, 0.2, 300.0]),
    ttl_q=st.sampled_from([None, None, 1.5, 0.2]),
    max_unread=st.integers(1, 4),
    target=st.none() | st.integers(1, 5),
    actions=st.lists(
        st.tuples(
            st.sampled_from(["stop", "cancel", "leave", "slow reader"]),
            st.integers(0, 40),
            st.sampled_from([0.0, 0.0, 0.7, 3.0, 20.0]),
        ),
        max_size=3,
    ),
)


class Play:
    """Plays a program, and keeps count of everything that came to be."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._calls: Counter[str] = Counter()
        self.made = 0
        self.answered: list[str] = []
        self.discarded_t: Counter[int] = Counter()
        self.discarded_q: Counter[str] = Counter()
        self.pulled: list[int] = []

    def _next(self, stage: str, behaviours: list[Step]) -> Step:
        self._calls[stage] += 1
        return behaviours[self._calls[stage] % len(behaviours)]

    async def _supply(self) -> int:
        await self._next("supply", self._program.supply).go()
        self.made += 1
        return self.made

    async def _send(self, item: int) -> int:
        await self._next("send", self._program.send or []).go()
        return item

    async def _request(self, item: int) -> str:
        await self._next("request", self._program.request).go()
        self.answered.append(f"answer {item}")
        return self.answered[-1]

    async def _consume(self, _t: int, q: str, item: int) -> str:
        await self._next("consume", self._program.consume).go()
        assert q == f"answer {item}"
        return q

    def _discard_t(self, t: int) -> Awaitable[object]:
        self.discarded_t[t] += 1
        return self._next("discard", self._program.discard).go()

    def _discard_q(self, q: str) -> None:
        self.discarded_q[q] += 1

    async def _items(self) -> AsyncIterator[int]:
        for item in range(self._program.items):
            if self._program.source is not None:
                await self._next("source", self._program.source).go()
            self.pulled.append(item)
            yield item

    def run(self) -> Run[int, str]:
        """Return the run of the program."""
        program = self._program
        physical, t_slots, q_slots, q_pending = program.capacity
        pipeline: Pipeline[int, int, str, str] = Pipeline(
            supply=self._supply,
            request=self._request,
            consume=self._consume,
            send=None if program.send is None else self._send,
            discard_t=self._discard_t,
            discard_q=self._discard_q,
            capacity=Capacity(
                physical=physical, t_slots=t_slots, q_slots=q_slots, q_pending=q_pending
            ),
            ttl_t=program.ttl_t,
            ttl_q=program.ttl_q,
            max_unread=program.max_unread,
            request_timeout=20,
            consume_timeout=20,
            grace=2,
        )
        return pipeline.run(self._items(), target=program.target)

    async def play(self) -> None:
        """Run it, act on it, and check every promise at the end."""
        outcomes: list[Outcome[Any, Any]] = []
        run = self.run()
        slow = any(action == "slow reader" for action, _, _ in self._program.actions)

        async def read() -> None:
            async for outcome in run:
                run.check_invariants()
                outcomes.append(outcome)
                if slow:
                    await asyncio.sleep(2)

        async with run:
            reader = asyncio.create_task(read())
            leaves = False
            for action, count, seconds in self._program.actions:
                await asyncio.sleep(seconds)
                await turns(count)
                run.check_invariants()
                if action == "stop":
                    run.stop("played")
                elif action == "cancel":
                    run.cancel("played")
                elif action == "leave":
                    leaves = True
                    break
            if not leaves:
                await asyncio.wait({reader})
        try:
            await reader
        except (SupplierFailed, SourceFailed, Odd) as error:
            ended = error
            assert run.statistics().open == 0
            assert isinstance(ended, SupplierFailed | Odd)
        self._check(run, outcomes)

    def _check(self, run: Run[int, str], outcomes: list[Outcome[Any, Any]]) -> None:
        check_over(run, outcomes)
        assert sorted(outcome.item for outcome in outcomes) == self.pulled
        assert self.discarded_t == Counter(range(1, self.made + 1))
        assert self.discarded_q == Counter(self.answered)
        for outcome in outcomes:
            ok = outcome.status is Status.OK
            assert (outcome.value is not None) == ok
            assert ok == (not outcome.degraded_reason)
            assert (outcome.layer != "") == (outcome.status is Status.TIMED_OUT)
            assert outcome.status is not Status.ABANDONED


@stable
@given(programs)
def test_any_program_ends_with_balanced_books(program: Program) -> None:
    """R1, R2, O1, E1, D1, W1, W2: it ends, one outcome per pulled item, nothing left."""
    play = Play(program)
    virtually(play.play)
