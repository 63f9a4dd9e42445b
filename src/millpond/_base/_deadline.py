"""A named limit on the time that a block may take."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from millpond.errors import DeadlineError, UsageError


class Deadline:
    """Ends the block with a `DeadlineError` when it takes longer than *timeout*.

    It knows by its own mark whether it fired, so nested limits cannot be mistaken
    for each other, nor for a TimeoutError that the block raised itself.

    Args:
        layer: What the error and the outcome will name.
        timeout: Seconds. None sets no limit.
        on_fired: Called right after the block was told to end. Obedience is counted from
            there: a loop that was held up tells it later than *timeout*.

    Ordering:
        A result that arrives in the tick of its timeout is kept. A cancel from
        outside in the tick of the timeout stays a cancel.
    """

    __slots__ = (
        "_cancels",
        "_handle",
        "_layer",
        "_loop",
        "_on_fired",
        "_started",
        "_task",
        "_timeout",
        "expired",
        "fired",
    )

    def __init__(
        self, layer: str, timeout: float | None, *, on_fired: Callable[[], None] | None = None
    ) -> None:
        self._layer = layer
        self._on_fired = on_fired
        self._timeout = timeout
        self._handle: asyncio.Handle | None = None
        self.fired = False  # whether its time ran out inside the block
        self.expired = False  # whether leaving the block raised this deadline's own error

    def __enter__(self) -> Self:
        if self._handle is not None or self.fired:
            msg = "a deadline is good for one block; make a new one"
            raise UsageError(msg)
        if self._timeout is None:
            return self
        task = asyncio.current_task()
        if task is None:
            msg = "a deadline needs a task to interrupt; use it inside a coroutine of a task"
            raise UsageError(msg)
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._cancels = task.cancelling()
        self._handle = self._loop.call_later(self._timeout, self._on_time)
        return self

    def _on_time(self) -> None:
        # Two turns later: a result that another callback of this very tick delivers has its
        # wake-up in the next turn, perhaps behind us; it must get there first.
        self._handle = self._loop.call_soon(self._last_turn)

    def _last_turn(self) -> None:
        self._handle = self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        self.fired = True
        self._task.cancel()
        if self._on_fired is not None:
            self._on_fired()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._handle is None or self._timeout is None:
            return
        self._handle.cancel()
        self._handle = None
        if not self.fired:
            return
        others = self._task.uncancel() > self._cancels
        if exc_type is asyncio.CancelledError and not others:
            self.expired = True
            elapsed = self._loop.time() - self._started
            raise DeadlineError(layer=self._layer, timeout=self._timeout, elapsed=elapsed) from exc
