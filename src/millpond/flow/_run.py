"""One run of a pipeline: begun, read, stopped or cancelled, and always ended.

Invariants:
    R1  A run ends, whatever its parts do: every wait of the winding down is bounded.
    R2  When it has ended, every pulled item has one outcome, the books balance, nothing
        is in stock, and no task of ours is alive but those named as abandoned.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, final

from millpond._base import Deadline, Outcome, Status, StopSignal, park, reason_of
from millpond.errors import DeadlineError, SourceFailed, UsageError
from millpond.flow._intake import CLOSE_SECONDS
from millpond.flow._machinery import OBEY_SECONDS, Machinery
from millpond.flow._outcomes import QUEUED
from millpond.flow._recipe import Recipe
from millpond.sync import Notify, Stop, wait_until_or_stopped

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
V = TypeVar("V")

logger = logging.getLogger("millpond.flow")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """What a run looks like at one moment."""

    pulled: int
    open: int
    """Pulled, and without an outcome."""
    unread: int
    by_status: Mapping[Status, int]
    unrecorded: int
    """Outcomes that the journal could not keep."""
    t_stock: int
    q_stock: int
    producing: int
    """T being produced."""
    in_flight: int
    """Requests under way."""
    consuming: int
    """Pairs in use."""
    retries: int
    live_t: int
    peak_in_flight: int
    peak_live_t: int
    abandoned: tuple[str, ...]
    """Stages that did not obey, by name."""

    @property
    def ended(self) -> int:
        """How many items have their outcome."""
        return sum(self.by_status.values())


@final
class Run(Generic[I, V]):
    """A run: an async context manager, and an async iterator over its outcomes.

    Made by `Pipeline.run`. Entering starts the workers and does not wait; leaving waits
    until all has ended: at once after the last outcome, otherwise as `cancel`.
    """

    def __init__(
        self,
        recipe: Recipe[I, V],
        items: Iterable[I] | AsyncIterable[I],
        *,
        stop: StopSignal | None,
        target: int | None,
    ) -> None:
        self._recipe = recipe
        self._items = items
        self._stop_signal = stop
        self._target = target
        self._machinery: Machinery[I, V] | None = None
        self._forced = Stop()
        self._worker_ended = Notify()
        self._workers: dict[asyncio.Task[None], str] = {}
        self._puller: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._cancelled = False
        self._source_told = False
        self._error_told = False
        self._abandoned: tuple[str, ...] = ()

    # -- the caller's side

    async def __aenter__(self) -> Self:
        if self._machinery is not None:
            msg = "this run was started already; call `pipeline.run(items)` for each run"
            raise UsageError(msg)
        machinery = self._machinery = Machinery(
            self._recipe, self._items, on_end=self._on_end, on_abandoned=self._replace
        )
        if self._stop_signal is not None and self._stop_signal.is_stopped():
            machinery.intake.close(reason_of(self._stop_signal) or "stopped before it began")
        self._puller = self._start("source", machinery.intake.pull())
        counts = self._recipe.capacity.workers
        for letter, count, loop in (
            ("S", counts.supply, machinery.supply_loop),
            ("P", counts.request, machinery.request_loop),
            ("C", counts.consume, machinery.consume_loop),
        ):
            for number in range(1, count + 1):
                self._start(f"{letter}{number}", loop())
        if self._stop_signal is not None:
            self._listener = asyncio.create_task(
                self._listen(self._stop_signal), name="millpond-stop-listener"
            )
        self._supervisor = asyncio.create_task(self._supervise(), name="millpond-supervisor")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        supervisor = self._supervisor
        if supervisor is None:
            return
        machinery = self._begun()
        if not machinery.ending.is_stopped():
            self.cancel("the block was left")
        cancelled = await self._supervised(supervisor)
        if supervisor.cancelled():
            # A closing loop cancels every task, ours too. What it began to wind down is
            # wound down by a new one, while this block is waited for.
            self._forced.stop("the supervisor was cancelled")
            supervisor = self._supervisor = asyncio.create_task(
                self._supervise(), name="millpond-supervisor"
            )
            cancelled = await self._supervised(supervisor) or cancelled
        if cancelled is not None:
            raise cancelled
        supervisor.result()
        if exc_type is None and machinery.error is not None and not self._error_told:
            raise machinery.error

    async def _supervised(self, supervisor: "asyncio.Task[None]") -> asyncio.CancelledError | None:
        cancelled: asyncio.CancelledError | None = None
        while not supervisor.done():
            try:
                # Does not cancel the supervisor when we are cancelled; R1 bounds it.
                await asyncio.wait({supervisor})
            except asyncio.CancelledError as error:
                cancelled = error
                self._forced.stop("cancelled while the run was winding down")
        return cancelled

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome[I, V]:
        """Return the next outcome, once the journal has committed it.

        Raises:
            SupplierFailed: After the last outcome, when the supplier failed for good.
            SourceFailed: After the last outcome, when the source of items raised.

        Cancellation:
            Safe: the outcome stays for the next call.

        Ordering:
            In the order in which items ended.
        """
        machinery = self._begun()
        outcome = await machinery.outcomes.read()
        if outcome is not None:
            return outcome
        if machinery.error is not None:
            self._error_told = True
            raise machinery.error
        raise StopAsyncIteration

    def stop(self, reason: str = "") -> None:
        """Ask for the end: nothing new is pulled, what is in flight comes home."""
        self._begun().intake.close(reason or "the run was stopped")
        self._end_source()

    def cancel(self, reason: str = "") -> None:
        """End now: requests are cancelled at once, consumers get the grace.

        A second call forces: the grace is over. Whoever does not obey is abandoned by
        name. Every pulled item has its outcome all the same.
        """
        machinery = self._begun()
        if self._cancelled:
            self._forced.stop(reason)
            return
        self._cancelled = True
        machinery.ending.stop(reason or "the run was cancelled")

    def statistics(self) -> RunStatistics:
        """Return a snapshot. Nothing is changed by it."""
        machinery = self._begun()
        outcomes, stock = machinery.outcomes, machinery.inventory.statistics()
        return RunStatistics(
            pulled=outcomes.pulled,
            open=outcomes.open_count,
            unread=outcomes.unread_count,
            by_status=dict(outcomes.by_status),
            unrecorded=outcomes.unrecorded,
            t_stock=stock.t.stocked,
            q_stock=stock.q.stocked,
            producing=machinery.gate.t_out,
            in_flight=machinery.in_flight,
            consuming=stock.leased,
            retries=machinery.retries,
            live_t=machinery.live_t,
            peak_in_flight=machinery.peak_in_flight,
            peak_live_t=machinery.peak_live_t,
            abandoned=(*machinery.abandoned.values(), *self._abandoned),
        )

    def check_invariants(self) -> None:
        """Check that the books balance. Changes nothing; may be called at any time.

        Raises:
            InvariantViolated: With the figures.
        """
        self._begun().check_invariants()

    def __repr__(self) -> str:
        if self._machinery is None:
            return "<Run, not started>"
        now = self.statistics()
        return f"<Run {now.ended} ended, {now.open} open, {now.in_flight} in flight>"

    # -- the workers' side

    def _begun(self) -> Machinery[I, V]:
        if self._machinery is None:
            msg = "the run was not started; use `async with pipeline.run(items) as run:`"
            raise UsageError(msg)
        return self._machinery

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=f"millpond-{name}")
        self._workers[task] = name
        task.add_done_callback(self._on_worker_end)
        return task

    def _replace(self, task: "asyncio.Task[Any]") -> None:
        """Start a worker in the place of one whose stage was abandoned."""
        machinery = self._begun()
        name = self._workers[task]
        work = machinery.request_loop() if name.startswith("P") else machinery.consume_loop()
        self._start(f"{name}'", work)

    def _on_worker_end(self, task: "asyncio.Task[None]") -> None:
        self._worker_ended.notify_waiters()
        machinery = self._begun()
        if task is self._puller and not task.cancelled() and (broken := task.exception()):
            machinery.fail(broken)  # also when all items have ended: it is no end of input
            return
        if machinery.ending.is_stopped() or (task is self._puller and task.cancelled()):
            if not task.cancelled():
                task.exception()  # seen: the run ends anyway, with its first error
            return
        if task.cancelled():
            # Somebody outside cancelled our worker: as if they had cancelled the run.
            self.cancel(f"worker {self._workers[task]} was cancelled from outside")
        elif error := task.exception():
            machinery.fail(error)

    def _on_end(self) -> None:
        """Look at the target after an item ended."""
        machinery = self._begun()
        if self._target is None or machinery.intake.closed.is_stopped():
            return
        if machinery.outcomes.by_status[Status.OK] >= self._target:
            self.stop(f"the target of {self._target} was reached")

    async def _listen(self, signal: StopSignal) -> None:
        try:
            if not signal.is_stopped():
                # Looks again when a foreign signal returns too early, without spinning.
                await park(asyncio.get_running_loop().create_future(), signal)
        except Exception as error:  # noqa: BLE001 - a foreign signal that is broken ends the run
            self._begun().fail(error)
        else:
            self.stop(reason_of(signal))

    def _end_source(self) -> None:
        """Cancel the pulling once; what it does to clean up is not interrupted."""
        puller = self._puller
        if puller is not None and not self._source_told and not self._begun().intake.closing:
            self._source_told = True
            puller.cancel()

    async def _supervise(self) -> None:
        machinery = self._begun()
        try:
            await machinery.ending.wait_stopped()
            await self._wind_down()
        finally:
            # Reached with the work undone only when this task itself is cancelled, as a
            # closing loop does: then everything that can be done without waiting is.
            try:
                for task in self._workers:
                    task.cancel()
                self._end_open_items()
                machinery.inventory.clear()
            finally:
                machinery.outcomes.close()  # a reader must learn of the end in any case

    async def _wind_down(self) -> None:
        machinery = self._begun()
        machinery.winding_down.stop(machinery.ending.reason)
        machinery.intake.close(machinery.ending.reason)
        # Those that ignore their cancel already are cancelled once more, and not waited for.
        deaf = machinery.abandoned.keys()
        consumers = {task for task, name in self._workers.items() if name.startswith("C")} - deaf
        self._end_source()
        for task in self._workers.keys() - consumers - {self._puller}:
            task.cancel()
        if self._listener is not None:
            self._listener.cancel()
        await self._ended(consumers, self._recipe.grace)
        for task in consumers:
            task.cancel()
        if self._puller is not None:
            await self._ended({self._puller}, CLOSE_SECONDS)
            self._puller.cancel()
        ours = self._workers.keys() - deaf
        if self._listener is not None:
            ours.add(self._listener)
        await self._ended(ours, OBEY_SECONDS, forcible=False)
        stages = {entry.worker for entry in machinery.outcomes.open_entries}
        for task, name in self._workers.items():
            if not task.done() and task not in stages and task not in deaf:
                self._abandoned += (name,)
                logger.error("abandoned, still running: %s", name)
        self._end_open_items()
        machinery.inventory.clear()
        # Each disposal bounds itself, so these end.
        await machinery.t_disposer.idle()
        await machinery.q_disposer.idle()
        await self._ended(set(machinery.supplier.keepers), OBEY_SECONDS, forcible=False)
        if machinery.intake.error is not None and machinery.error is None:
            machinery.error = SourceFailed(
                pulled=machinery.outcomes.pulled, cause=machinery.intake.error
            )
            machinery.error.__cause__ = machinery.intake.error

    async def _ended(
        self, tasks: "set[asyncio.Task[None]]", seconds: float, *, forcible: bool = True
    ) -> None:
        """Wait until *tasks* are done, *seconds* are over, or the end is forced."""
        forced = self._forced if forcible else Stop()
        for task in tasks:
            task.add_done_callback(lambda _: self._worker_ended.notify_waiters())
        try:
            with Deadline("winding down", seconds):
                await wait_until_or_stopped(
                    self._worker_ended, forced, lambda: all(task.done() for task in tasks)
                )
        except DeadlineError:
            return

    def _end_open_items(self) -> None:
        """Give every item that has no outcome yet the one that fits."""
        machinery = self._begun()
        reason = machinery.ending.reason
        for entry in machinery.outcomes.open_entries:
            if entry.worker is not None and not entry.worker.done():
                status = Status.ABANDONED
                self._abandoned += (f"{entry.stage} of {entry.key}",)
                logger.error("abandoned, still running: %s of %s", entry.stage, entry.key)
            elif machinery.error is not None or entry.stage == QUEUED:
                status = Status.SKIPPED
            else:
                status = Status.CANCELLED
            machinery.outcomes.finish(
                entry,
                status,
                stage=entry.stage,
                error=machinery.error if status is Status.SKIPPED else None,
                reason=reason,
            )
