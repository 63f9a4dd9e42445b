"""The three kinds of worker, and everything that one run of a pipeline shares.

Step orders (each is the ownership rule of its worker):

S   wait at the gate -> take Physical -> supply a T -> give Physical back -> take a T slot
    and own it -> put_t
P   wait at the gate -> take a pending permit -> take the next item -> (take Physical, send,
    give Physical back) -> await the answer, without Physical -> journal it -> take a Q slot
    and own it -> put_q -> give the pending permit back
C   claim a pair -> take Physical -> check freshness -> consume -> give Physical back ->
    the lease settles both

Invariants:
    W1  A slot that was taken goes back exactly once.
    W2  A pending permit goes back exactly once: after put_q, or when the request ended
        in any other way.
    W3  P holds no Physical while it awaits an answer.
    W4  A Q slot is taken only after its Q has returned.
    W5  C gets T and Q through `claim_pair` alone, S and P put through `put_t` and `put_q`.
    W6  A failed stage is data: it ends its item, never its worker. (A mistake in code or
        settings, `UsageError` and `InputError`, ends the run besides.)
    W7  A stage that ignores the cancel of its timeout is abandoned: its item has its outcome,
        another worker takes the worker's place, and what it holds stays out until it ends.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from millpond._base import Deadline, Status, loop_time, pause
from millpond.errors import (
    DeadlineError,
    Expired,
    InputError,
    InvariantViolated,
    Stalled,
    Stopped,
    SupplierFailed,
    UsageError,
)
from millpond.flow._disposal import Disposer
from millpond.flow._envelope import ResourceEnvelope
from millpond.flow._gate import AdmissionGate
from millpond.flow._intake import Intake
from millpond.flow._inventory import Inventory, PairLease
from millpond.flow._limiter import Limiter
from millpond.flow._outcomes import Entry, Outcomes
from millpond.flow._recipe import Recipe
from millpond.flow._stage import forget_stray_cancels, run_in_context
from millpond.flow._supplier import Made, Supplier
from millpond.sync import Notify, Stop, WaitOutcome, wait_until_or_stopped

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
V = TypeVar("V")
R = TypeVar("R")

SUPPLY_BACKOFF_SECONDS = 0.5
"""Between two attempts of a supplier that fails."""

OBEY_SECONDS = 1.0
"""How long a stage may take to obey a cancel before it is abandoned."""

logger = logging.getLogger("millpond.flow")


@dataclass(frozen=True, slots=True)
class Returned(Generic[I]):
    """A Q: the answer, and the item that it belongs to."""

    entry: Entry[I]
    answer: Any


class _ItemEnded(Exception):
    """The item has its outcome; its worker goes on to the next."""


class Machinery(Generic[I, V]):
    """Capacities, stock, gate and workers of one run."""

    def __init__(
        self,
        recipe: Recipe[I, V],
        items: Iterable[I] | AsyncIterable[I],
        *,
        on_end: Callable[[], None],
        on_abandoned: Callable[["asyncio.Task[Any]"], None],
    ) -> None:
        capacity = recipe.capacity
        self._recipe = recipe
        self._on_end = on_end
        self._on_abandoned = on_abandoned
        self.abandoned: dict[asyncio.Task[Any], str] = {}
        """Workers whose stage does not obey, with its name."""
        self.ending = Stop()
        """Stopped when the run is to wind down, by whatever cause."""
        self.winding_down = Stop()
        """Stopped when workers have to leave their waits."""
        self.error: BaseException | None = None
        """Why the run failed, if it did."""
        self.physical = Limiter(capacity.physical, name="physical")
        self.t_slots = Limiter(capacity.t_slots, name="t_slot")
        self.q_slots = Limiter(capacity.q_slots, name="q_slot")
        self.pending = Limiter(capacity.q_pending, name="q_pending")
        self.supplier: Supplier[Any] = Supplier(recipe.supply, recipe.discard_t)
        self.t_disposer: Disposer[Made[Any]] = Disposer(
            lambda made: made.dispose(), timeout=recipe.discard_timeout, name="T"
        )
        self.q_disposer: Disposer[Returned[I]] = Disposer(
            self._discard_q if recipe.discard_q is not None else None,
            timeout=recipe.discard_timeout,
            name="Q",
        )
        self.inventory: Inventory[Made[Any], Returned[I]] = Inventory(
            t_slots=self.t_slots,
            q_slots=self.q_slots,
            stop=self.winding_down,
            on_expired=self._on_expired,
        )
        self.gate = AdmissionGate(self.inventory, t=recipe.t_marks, q=recipe.q_marks)
        self.outcomes: Outcomes[I, V] = Outcomes(
            journal=recipe.journal,
            key=recipe.key,
            max_unread=recipe.max_unread,
            on_change=self._on_change,
            on_read=lambda: self.intake.look_again(),  # noqa: PLW0108 - made below
        )
        self.intake: Intake[I] = Intake(
            items,
            open_item=self.outcomes.open,
            has_room=self.outcomes.has_room,
            on_untaken=self._skip,
            on_closed=self._on_change,
        )
        self._t_wanted = Notify()
        self.inventory.subscribe(self._look_at_demand)
        self._failures = 0
        self._volley = 0
        self._probing = Limiter(1, name="probe of the supplier")
        self.in_flight = 0
        self.peak_in_flight = 0
        self.peak_live_t = 0
        self.retries = 0

    # -- what ends a run

    def fail(self, error: BaseException) -> None:
        """End the run because of *error*; the first one counts."""
        if self.error is None:
            self.error = error
        self.ending.stop(f"{type(error).__name__}: {error}")

    def _skip(self, entry: Entry[I]) -> None:
        reason = self.intake.closed.reason
        self.outcomes.finish(entry, Status.SKIPPED, stage=entry.stage, reason=reason)

    def _on_change(self) -> None:
        self._on_end()
        if self.intake.closed.is_stopped() and not self.outcomes.open_count:
            self.ending.stop("every item has its outcome")
        else:
            self._look_at_demand()

    # -- S

    async def supply_loop(self) -> None:
        """Produce T while somebody will need it."""
        with suppress(Stopped):
            while True:
                needed = await wait_until_or_stopped(
                    self._t_wanted, self.winding_down, self._t_is_needed
                )
                if needed is WaitOutcome.STOPPED:
                    return
                with await self.gate.admit_t(self.winding_down):
                    if not self._t_is_needed(own_tickets=1):
                        continue
                    self._look_at_demand()  # there may be work for one more
                    await self._produce()

    def _t_is_needed(self, own_tickets: int = 0) -> bool:
        """Whether open items outnumber the T that are there or on their way."""
        coming = self.gate.t_out - own_tickets
        ready = self.inventory.t_stock + self.inventory.granted
        return ready + coming < self.outcomes.unpaired

    def _look_at_demand(self) -> None:
        if self._t_is_needed():
            self._t_wanted.notify_one()

    async def _produce(self) -> None:
        if not self._failures:
            await self._supply_once()
            return
        # It fails: one worker at a time tries again, after a pause.
        async with self._probing.hold(stop=self.winding_down):
            if self._failures:
                await pause(SUPPLY_BACKOFF_SECONDS, self.winding_down)
            await self._supply_once()

    async def _supply_once(self) -> None:
        volley = self._volley
        async with self.physical.hold(label="supply", stop=self.winding_down):
            try:
                made = await self.supplier.make()
            except asyncio.CancelledError as error:
                if self._worker_is_cancelled():
                    raise
                self._supply_failed(error, volley)
                return
            except (UsageError, InputError) as error:
                self.fail(error)  # a mistake in code or settings: no attempt can mend it
                raise Stopped from error
            except Exception as error:  # noqa: BLE001 - data, until it happens too often
                self._supply_failed(error, volley)
                return
            except BaseException as error:  # KeyboardInterrupt and its kin end the run
                self.fail(error)
                raise Stopped from error
        self._failures = 0
        self.peak_live_t = max(self.peak_live_t, self.live_t)
        envelope = await ResourceEnvelope.create_with_slot(
            made,
            self.t_slots,
            ttl=self._recipe.ttl_t,
            discard=self.t_disposer,
            stop=self.winding_down,
        )
        self.inventory.put_t(envelope)

    def _supply_failed(self, error: BaseException, volley: int) -> None:
        # Workers that began before the last failure are its volley, not one more in a row.
        if volley == self._volley:
            self._volley += 1
            self._failures += 1
        if self._failures >= self._recipe.supply_failures:
            failure = SupplierFailed(failures=self._failures, cause=error)
            failure.__cause__ = error
            self.fail(failure)

    @property
    def live_t(self) -> int:
        """How many T exist: made, and their disposal not ended."""
        return self.supplier.made - self.t_disposer.statistics().ended

    # -- P

    async def request_loop(self) -> None:
        """Take items and bring their answers home."""
        closed = self.intake.closed
        with suppress(Stopped):
            while True:
                with await self.gate.admit_q(closed), await self.pending.acquire(stop=closed):
                    entry = await self.intake.next()
                    with suppress(_ItemEnded):
                        await self._bring(entry)

    async def _bring(self, entry: Entry[I]) -> None:
        recalled = self.outcomes.recall(entry)
        if recalled.finished is not None:
            self.outcomes.finish_again(entry, recalled.finished)
            return
        if recalled.has_answer:
            answer: Any = recalled.answer
        else:
            answer = await self._request(entry)
        entry.stage = "returned"
        envelope = await ResourceEnvelope.create_with_slot(
            Returned(entry, answer),
            self.q_slots,
            ttl=self._recipe.ttl_q,
            discard=self.q_disposer,
            stop=self.winding_down,
        )
        self.inventory.put_q(envelope)

    async def _request(self, entry: Entry[I]) -> Any:  # noqa: ANN401 - Q is the user's
        timeout, retry = self._recipe.request_timeout, self._recipe.retry
        deadline = None if timeout is None else loop_time() + timeout

        async def attempt() -> Any:  # noqa: ANN401 - Q is the user's
            sent: Any = entry.item
            if self._recipe.send is not None:
                async with self.physical.hold(label="send", stop=self.winding_down):
                    sent = await run_in_context(entry.context, "send", self._recipe.send, sent)
            return await run_in_context(entry.context, "request", self._recipe.request, sent)

        async def work() -> Any:  # noqa: ANN401 - Q is the user's
            if retry is None:
                answer = await attempt()
            else:
                answer = await retry.call(
                    attempt, deadline=deadline, on_retry=lambda _: self._count_retry()
                )
            self.outcomes.keep_answer(entry, answer)
            return answer

        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            return await self._stage(entry, "request", timeout, work)
        finally:
            self.in_flight -= 1

    def _count_retry(self) -> None:
        self.retries += 1

    # -- C

    async def consume_loop(self) -> None:
        """Claim pairs and consume them."""
        with suppress(Stopped):
            while True:
                async with self.inventory.claim_pair() as pair:
                    with suppress(_ItemEnded):
                        await self._consume(pair)

    async def _consume(self, pair: PairLease[Made[Any], Returned[I]]) -> None:
        entry = pair.q.entry
        self.outcomes.pair(entry)
        async with self.physical.hold(label=f"consume {entry.key}", stop=self.winding_down):
            try:
                pair.ensure_fresh()
            except Expired as error:
                self.outcomes.finish(entry, Status.EXPIRED, stage="consume", error=error)
                return
            resource, answer = pair.t.resource, pair.q.answer

            async def work() -> V:
                return await run_in_context(
                    entry.context, "consume", self._recipe.consume, resource, answer, entry.item
                )

            value = await self._stage(entry, "consume", self._recipe.consume_timeout, work)
            self.outcomes.finish(entry, Status.OK, stage="consume", value=value)

    # -- both

    async def _stage(  # noqa: C901, PLR0912, PLR0915 - one branch per way to end, in one place
        self, entry: Entry[I], name: str, limit: float | None, work: Callable[[], Awaitable[R]]
    ) -> R:
        """Run one stage of an item. A failure ends the item and raises `_ItemEnded`."""
        entry.stage = name
        task = entry.worker = asyncio.current_task()
        requests = 0 if task is None else task.cancelling()
        begun = loop_time()
        giving_up: asyncio.TimerHandle | None = None

        def watch_obedience() -> None:
            nonlocal giving_up
            assert task is not None  # noqa: S101 - a deadline fires in tasks only
            giving_up = task.get_loop().call_later(OBEY_SECONDS, self._abandon, entry, task, name)

        scope = Deadline(name, limit, on_fired=watch_obedience)
        status = Status.FAILED
        value: tuple[R] | None = None
        failure: BaseException | None = None
        try:
            with scope:
                value = (await work(),)
        except asyncio.CancelledError as error:
            if scope.fired and limit is not None and not self.winding_down.is_stopped():
                # A task group inside left a cancel request (3.11, 3.12), so the deadline
                # could not tell its own cancel from one of ours. There was none.
                forget_stray_cancels(task, requests)
                status = Status.TIMED_OUT
                failure = DeadlineError(layer=name, timeout=limit, elapsed=loop_time() - begun)
            elif self._worker_is_cancelled():
                raise
            else:
                status, failure = Status.CANCELLED, error
        except Stopped as error:
            if self.winding_down.is_stopped():
                raise
            failure = error
        except (UsageError, InputError) as error:
            failure = error
            self.fail(error)  # a mistake in code or settings: every other item would meet it too
        except Exception as error:  # noqa: BLE001 - data (W6)
            failure = error
            if scope.expired:
                status = Status.TIMED_OUT
        except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt and its kin end the run
            failure = error
            self.fail(error)
        finally:
            if giving_up is not None:
                giving_up.cancel()
            entry.timings[name] = loop_time() - begun
            entry.worker = None
        self._leave_if_abandoned(task)
        if value is not None:
            return value[0]
        self.outcomes.finish(
            entry,
            status,
            stage=name,
            layer=name if status is Status.TIMED_OUT else "",
            error=failure,
            reason=f"{name} cancelled itself" if status is Status.CANCELLED else "",
        )
        raise _ItemEnded

    def _abandon(self, entry: Entry[I], task: "asyncio.Task[Any]", name: str) -> None:
        """Go on without a stage that has ignored the cancel of its timeout (W7)."""
        if self.winding_down.is_stopped():
            return  # the end of the run has its own ways
        self.abandoned[task] = f"{name} of {entry.key}"
        logger.error("abandoned, still running: %s", self.abandoned[task])
        self.outcomes.finish(
            entry,
            Status.ABANDONED,
            stage=name,
            layer=name,
            reason=f"{name} ran out of time and ignores its cancel; it may still be running",
        )
        self._on_abandoned(task)
        stages = tuple(stage for stage in self.abandoned.values() if stage.startswith(name))
        held = [self.pending] if name == "request" else [self.physical, self.t_slots, self.q_slots]
        for limiter in held:
            if len(stages) >= limiter.capacity:
                self.fail(Stalled(capacity=limiter.name, stages=stages))

    def _leave_if_abandoned(self, task: "asyncio.Task[Any] | None") -> None:
        """End a worker that was replaced, now that its stage has ended after all."""
        if task is not None and self.abandoned.pop(task, None) is not None:
            raise Stopped("abandoned")

    def _worker_is_cancelled(self) -> bool:
        """Whether a CancelledError is meant for the worker, not raised by a stage itself."""
        task = asyncio.current_task()
        return self.winding_down.is_stopped() or (task is not None and task.cancelling() > 0)

    def _on_expired(self, envelope: ResourceEnvelope[Any]) -> None:
        if isinstance(envelope.resource, Returned):
            returned = cast("Returned[I]", envelope.resource)
            entry = returned.entry
            age = f"{envelope.age:.3g} s"
            self.outcomes.finish(
                entry,
                Status.EXPIRED,
                stage="returned",
                reason=f"the answer was {age} old before it was used",
            )

    def _discard_q(self, returned: Returned[I]) -> Awaitable[object] | None:
        discard = self._recipe.discard_q
        return None if discard is None else discard(returned.answer)

    def check_invariants(self) -> None:
        """Raise `InvariantViolated` if books do not balance. May run at any time."""
        self.inventory.check_invariants()
        stock = self.inventory.statistics()
        for name, slots, stocked, disposer in (
            ("t", self.t_slots, stock.t.stocked, self.t_disposer),
            ("q", self.q_slots, stock.q.stocked, self.q_disposer),
        ):
            now = slots.statistics()
            held = stocked + stock.granted + stock.leased + disposer.statistics().holding_slots
            ledger: dict[str, object] = {
                "slots": now,
                "stocked": stocked,
                "granted": stock.granted,
                "leased": stock.leased,
                "disposing": disposer.statistics().holding_slots,
            }
            if now.held != held:
                what = f"W1 {name}_slots held = stocked + granted + leased + being disposed of"
                raise InvariantViolated(what, ledger)
        for limiter in (self.t_slots, self.q_slots, self.pending, self.physical):
            now = limiter.statistics()
            if now.free + now.held + now.granted != now.capacity or now.free < 0:
                raise InvariantViolated("F1", {"limiter": limiter.name, "statistics": now})
