"""Running a stage of an item inside the item's own context.

Workers outlive items, and a persistent worker does not inherit the submitter's context
variables. So each item carries the context that was current when it was pulled, and
its stages run in it: in the worker's own task (a task of its own would open a window in
which the stage has returned and the worker is cancelled), step by step.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from millpond.errors import UsageError

V = TypeVar("V")


async def run_in_context(
    context: Context, role: str, function: Callable[..., Awaitable[V]], *args: object
) -> V:
    """Call *function*, the user's *role*, and await its result, all inside *context*.

    Raises:
        UsageError: If it returns something that cannot be awaited.

    Cancellation:
        Delivered to the stage, as if it had been awaited directly.
    """
    work = context.run(function, *args)
    if not isawaitable(work):
        msg = f"`{role}` must be an async function, but {function!r} returned {work!r}"
        raise UsageError(msg)
    task = asyncio.current_task()
    requests = 0 if task is None else task.cancelling()
    try:
        result = await _Stepped(context, _awaiting(work))
    except asyncio.CancelledError:
        raise
    except BaseException:
        forget_stray_cancels(task, requests)
        raise
    forget_stray_cancels(task, requests)
    return result


def forget_stray_cancels(task: "asyncio.Task[Any] | None", requests: int) -> None:
    """Undo cancel requests that a stage left on the worker, beyond *requests*.

    `asyncio.TaskGroup` of Python 3.11 and 3.12 leaves one behind when a child fails while
    the group exits. The worker serves other items after this one.
    """
    while task is not None and task.cancelling() > requests:
        task.uncancel()


async def _awaiting(work: Awaitable[V]) -> V:
    return await work


class _Stepped(Generic[V]):
    """Drives a coroutine so that each of its steps runs inside a context."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, context: Context, coroutine: Coroutine[Any, Any, V]) -> None:
        self._context = context
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, V]:
        step, sent = self._coroutine.send, None
        while True:
            try:
                waits_for = self._context.run(step, sent)
            except StopIteration as end:
                result: V = end.value
                return result
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - thrown on into the coroutine
                step, sent = self._coroutine.throw, error
            else:
                step = self._coroutine.send
