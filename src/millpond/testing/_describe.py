"""Who waits where: one line for a task, from its coroutine down to what holds it."""

import asyncio
import functools
import gc
import inspect
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, final

_LIBRARIES: Final = tuple(
    f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(asyncio.__file__).parent)
)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,}")

_MOST_LETTERS: Final = 200
"""Of an error's text: one line is promised."""

_MOST_NAMES: Final = 8
"""Of tasks that one task waits for."""


@final
class _Spot(NamedTuple):
    """A place in a chain of awaits."""

    path: str
    line: int
    function: str
    owner: object = None
    """Of a library's method, the object."""
    waits_for: Any = None
    """What `asyncio.wait` waits for."""

    @property
    def is_library(self) -> bool:
        """Whether it is asyncio's or ours, not the user's."""
        return is_library(self.path)

    @property
    def call(self) -> str:
        """What a user calls it: ``Semaphore.acquire``, whichever base class defines it."""
        name = self.function.rpartition(".")[2]
        if self.owner is None or name == self.function:
            return self.function
        return f"{type(self.owner).__name__}.{name}"

    def __str__(self) -> str:
        return f"{_short(self.path)}:{self.line} {self.function}"


def is_library(path: str) -> bool:
    """Whether a source file is part of asyncio or of millpond, so that users did not write it."""
    return path.startswith(_LIBRARIES) or os.path.split(path)[1] == "contextlib.py"


def who_waits(frame: FrameType | None) -> str:
    """Name the call that makes a future, as its user called it: ``Semaphore.acquire``.

    Args:
        frame: Where the future is made.
    """
    name = "a future"
    while frame is not None and is_library(frame.f_code.co_filename):
        function = frame.f_code.co_name
        if function == "_run":  # of the loop: nobody stands behind it
            break
        if not function.startswith("_"):
            owner = frame.f_locals.get("self")
            name = function if owner is None else f"{type(owner).__name__}.{function}"
        frame = frame.f_back
    return name


def describe_task(task: "asyncio.Task[Any]", *, origin: Mapping[int, str] | None = None) -> str:
    """Return one line: the task's name, where it stands, and what it waits for.

    The places are lines of the user's code, from the outermost coroutine to the innermost;
    what follows is the call of a library that does not return. Nothing in it depends on
    chance, and looking changes nothing: the error of a failed task counts as unseen.

    Args:
        task: Any task, in any state, of any loop.
        origin: Who made a future, by its id, where that is known.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     gate = asyncio.Event()
        ...     waiter = asyncio.create_task(gate.wait(), name="W")
        ...     print(describe_task(waiter))
        ...     await asyncio.sleep(0)
        ...     print(describe_task(waiter))
        ...     gate.set()
        ...     print(describe_task(waiter))
        ...     await waiter
        ...     print(describe_task(waiter))
        >>> asyncio.run(main())
        W: Event.wait [not started]
        W: Event.wait [waiting]
        W: Event.wait [done, wake-up queued]
        W: returned
    """
    name = task.get_name()
    if task.done():
        return f"{name}: {_end_of(task)}"
    coroutine = task.get_coro()
    spots = list(_spots(coroutine))
    last = max((n for n, spot in enumerate(spots) if not spot.is_library), default=-1)
    where = [str(spot) for spot in spots if not spot.is_library]
    # The outermost call that does not say it is private: what the user's line awaits.
    inside = spots[last + 1 :]
    if inside:
        where.append(next((s for s in inside if not _is_private(s)), inside[0]).call)
    facts = list(_facts(task, coroutine, inside, origin or {}))
    return f"{name}: {' > '.join(where) or '?'} [{'; '.join(facts)}]"


def describe_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> str:
    """Return a line for each task, indented, in the order of their names."""
    lines = sorted((describe_task(task) for task in tasks), key=_by_number)
    return "\n".join(f"  {line}" for line in lines)


def owner_of(handle: asyncio.Handle) -> "asyncio.Task[Any] | None":
    """Return the task that a queued callback will step or wake; None if it is no task's."""
    owner: Any = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined] # private
    task: asyncio.Task[Any] | None = owner if isinstance(owner, asyncio.Task) else None
    return task


def describe_queue(handles: Iterable[asyncio.Handle]) -> str:
    """Return a line for each callback that is queued, indented: a task, or a function's name."""
    lines: dict[str, None] = {}
    for handle in list(handles):
        if handle.cancelled():
            continue
        task = owner_of(handle)
        lines[describe_task(task) if task is not None else f"callback {_name_of(handle)}"] = None
    return "\n".join(f"  {line}" for line in lines)


def _name_of(handle: Any) -> str:
    callback = handle._callback
    while isinstance(callback, functools.partial):
        callback = callback.func
    name: str = getattr(callback, "__qualname__", type(callback).__name__)
    return name.replace(".<locals>", "")


# -- what holds it -------------------------------------------------------------------------------


def _facts(
    task: Any, coroutine: object, inside: list[_Spot], origin: Mapping[int, str]
) -> Iterator[str]:
    future = task._fut_waiter
    if future is not None:
        yield "done, wake-up queued" if future.done() else _what_holds(future, inside, origin)
    elif asyncio.current_task(task.get_loop()) is task:
        yield "running"
    elif _is_new(coroutine):
        yield "not started"
    else:
        yield "runnable"
    if task._must_cancel or (future is not None and future.cancelled()):
        yield "cancel pending"


def _what_holds(future: Any, inside: list[_Spot], origin: Mapping[int, str]) -> str:
    if isinstance(future, asyncio.Task):
        return f"task {future.get_name()!r}"
    children: Any = getattr(future, "_children", None)  # of `gather`
    if _are_many(children):
        return _named("gather", children)
    for spot in inside:
        tasks: Any = getattr(spot.owner, "_tasks", None)
        if isinstance(spot.owner, asyncio.TaskGroup) and _are_many(tasks):
            return _named("a group", tasks)
        futures: Any = spot.waits_for
        if spot.function == "wait" and _are_many(futures):
            return _named("wait", futures)
    if id(future) in origin:
        return _without_addresses(origin[id(future)])
    return "waiting"


def _are_many(futures: object) -> bool:
    # What asyncio keeps under a private name may be something else in another version.
    return isinstance(futures, list | tuple | set)


def _named(what: str, futures: Collection[Any]) -> str:
    unfinished = [future for future in futures if not future.done()]
    names = sorted(
        (repr(f.get_name()) if isinstance(f, asyncio.Task) else "a future" for f in unfinished),
        key=_by_number,
    )
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES:] = [f"{len(names) - _MOST_NAMES} more"]
    return f"{what} of {', '.join(names) or 'nothing'}"


def _is_new(coroutine: object) -> bool:
    return inspect.iscoroutine(coroutine) and (
        inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    )


def _end_of(task: Any) -> str:
    if task.cancelled():
        return "cancelled"
    error = task._exception  # `exception()` would tell asyncio that somebody has seen it
    if error is None:
        return "returned"
    text = _without_addresses(" ".join(str(error).split()))
    if len(text) > _MOST_LETTERS:
        text = f"{text[:_MOST_LETTERS]}..."
    return f"raised {type(error).__name__}{': ' if text else ''}{text}"


# -- where it stands -----------------------------------------------------------------------------


def _spots(awaitable: Any) -> Iterator[_Spot]:
    """Walk from the outermost coroutine to the innermost."""
    seen: set[int] = set()
    while awaitable is not None and id(awaitable) not in seen:
        seen.add(id(awaitable))
        frame = _first(awaitable, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            code = frame.f_code
            path, name = code.co_filename, code.co_qualname.replace(".<locals>", "")
            if is_library(path):
                # Not asked of users' frames: before Python 3.13, a frame keeps what it shows.
                variables = frame.f_locals
                owner = variables.get("self") if "." in name else None
                yield _Spot(path, frame.f_lineno, name, owner, variables.get("fs"))
            else:
                yield _Spot(path, frame.f_lineno, name)
            awaitable = _first(awaitable, "cr_await", "gi_yieldfrom", "ag_await")
            continue
        # What stands between two coroutines and has no frame, such as a step of an async
        # generator (the inside of an `@asynccontextmanager`), refers to the next one.
        awaitable = next((part for part in gc.get_referents(awaitable) if _has_frame(part)), None)


def _first(awaitable: Any, *names: str) -> Any:
    return next(
        (found for name in names if (found := getattr(awaitable, name, None)) is not None), None
    )


def _has_frame(one: object) -> bool:
    # Of its type: an object that makes up attributes as it is asked has no frame for it.
    return any(hasattr(type(one), name) for name in ("cr_frame", "gi_frame", "ag_frame"))


def _is_private(spot: _Spot) -> bool:
    return spot.function.rpartition(".")[2].startswith("_")


# -- words that do not depend on chance ----------------------------------------------------------


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub("0x...", text)


def _by_number(text: str) -> list[tuple[int, str]]:
    """Sort ``task-10`` behind ``task-9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]
