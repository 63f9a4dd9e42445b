"""Keeps code under test from reaching the real world, or from blocking its loop.

While a `Fence` stands, calls named in `_calls` raise instead of doing what they do, in the
thread that put the fence up; other threads do not notice. Allowed are files (`open`), what a
module does while it is imported (once in a process, not once in a schedule), and what pytest,
hypothesis, coverage and the debugger do on their own account; `logging` and `warnings`, too,
may look at the clock.

Not seen, because nothing in Python is called by a name that could be replaced:

* a function that was imported by name before (``from time import monotonic``),
* ``datetime.now()``, `sqlite3`, `queue.SimpleQueue`, locks, and other types written in C,
* reading from a TLS connection that was made outside of the fence.
"""

import asyncio
import functools
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias, cast, final

from millpond.errors import UsageError
from millpond.testing._calls import BLOCKING, LOOP, LOOP_METHODS, OUTSIDE, Call, Reason

_STANDARD: Final = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES: Final = (f"{_STANDARD}site-packages{os.sep}", f"{_STANDARD}dist-packages{os.sep}")
_KIT: Final = f"{Path(__file__).parent}{os.sep}"

_TOOLS: Final = frozenset({"_pytest", "cmd", "coverage", "hypothesis", "pdb", "pluggy", "pytest"})
"""May call anything: it does not come back to the code under test."""
_WRITERS: Final = frozenset({"logging", "warnings"})
"""May look at the clock: what they write does not come back either."""

Function: TypeAlias = Callable[..., Any]


class FencedCallError(UsageError):
    """A call that a fence forbids.

    Args:
        text: What was called, where, why it may not be, and what to use instead.
        call: The function's full name.
        place: File and line of the code that called it.
    """

    def __init__(self, text: str, *, call: str = "", place: str = "") -> None:
        self.call = call
        self.place = place
        super().__init__(text)


@final
class OutsideCallError(FencedCallError):
    """A scenario called the real world. Whatever answers there differs from run to run."""


@final
class BlockingCallError(FencedCallError):
    """A coroutine called something that blocks the whole event loop."""


@final
class Fence:
    """Forbids calls to the real world in the thread that enters it, until it is left.

    Fences may stand in each other, and in several threads. When the last is down, everything
    is as it was. A replacement that somebody else put over ours meanwhile is left in place.
    """

    def __init__(self) -> None:
        self.breach: FencedCallError | None = None
        """The first call that was refused: the code under test may have swallowed it."""
        self._calls = _OUTSIDE
        self._is_about_the_loop = False
        self._paused = 0
        self._thread = 0
        self._imports = 0

    @classmethod
    def blocking(cls) -> Self:
        """Return one that forbids what blocks, while a loop is running in its thread."""
        fence = cls()
        fence._calls = _BLOCKING
        fence._is_about_the_loop = True
        return fence

    def __enter__(self) -> Self:
        if self._thread:
            msg = "a Fence is entered once at a time; make a second one"
            raise UsageError(msg)
        self._imports = _imports_in(sys._getframe())
        self._thread = threading.get_ident()
        with _changing:
            _standing.setdefault(self._thread, []).append(self)
            for target in self._calls:
                _gates[target].close()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with _changing:
            for target in self._calls:
                _gates[target].open()
            here = _standing[self._thread]
            here.remove(self)
            if not here:
                del _standing[self._thread]
        self._thread = 0

    @contextmanager
    def paused(self) -> Generator[None]:
        """Allow everything inside the block, for what the kit itself has to do."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def _meet(
        self,
        target: tuple[int, str],
        caller: FrameType,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
    ) -> None:
        """Refuse the call, if it is one of ours."""
        call = self._calls.get(target)
        if call is None or self._paused:
            return
        if self._is_about_the_loop and asyncio._get_running_loop() is None:
            return
        if _is_trusted(caller, call):
            return
        if call.when is not None:
            try:
                if not call.when(*arguments, **options):
                    return
            except TypeError:
                return  # the function itself says best what is wrong with its arguments
        if _imports_in(caller) > self._imports:
            return
        kind = BlockingCallError if self._is_about_the_loop else OutsideCallError
        self._refuse(_error(kind, call.shown, call.reason, caller))

    def _refuse(self, error: FencedCallError) -> NoReturn:
        if self.breach is None:
            self.breach = error
        raise error


class OutsideMethods:
    """The methods of an event loop that need the real world. Here they raise."""


def _outside_method(name: str) -> Function:
    def refuse(self: object, *arguments: object, **options: object) -> NoReturn:  # noqa: ARG001 - stands for any
        error = _error(OutsideCallError, f"loop.{name}", LOOP, sys._getframe(1))
        for fence in reversed(_standing.get(threading.get_ident(), [])):
            if not fence._is_about_the_loop:
                fence._refuse(error)
        raise error

    refuse.__name__ = name
    refuse.__qualname__ = f"OutsideMethods.{name}"
    return refuse


for _name in LOOP_METHODS:
    setattr(OutsideMethods, _name, _outside_method(_name))


# -- what stands in place of the functions -------------------------------------------------------


@final
class _Gate:
    """A function that some fence forbids. Closed while any such fence stands."""

    __slots__ = ("_count", "_guard", "_own", "_owner", "name", "original")

    def __init__(self, call: Call) -> None:
        self.name = call.name
        self.original: Function = getattr(call.owner, call.name)
        self._owner = call.owner
        self._count = 0
        self._own = False
        self._guard: Function | None = None

    def close(self) -> None:
        self._count += 1
        if self._count > 1:
            return
        original: Function = getattr(self._owner, self.name)
        self._own = self.name in vars(self._owner)
        if self._guard is None or original is not self.original:
            self.original = original
            is_method = isinstance(self._owner, type)
            self._guard = _guarding_method(self) if is_method else _Guard(self)
        setattr(self._owner, self.name, self._guard)

    def open(self) -> None:
        self._count -= 1
        there = cast("Mapping[str, object]", vars(self._owner))
        if self._count or there.get(self.name) is not self._guard:
            return
        if self._own:
            setattr(self._owner, self.name, self.original)
        else:  # it was inherited
            delattr(self._owner, self.name)

    @property
    def target(self) -> tuple[int, str]:
        return id(self._owner), self.name


@final
class _Guard:
    """Stands for a function of a module.

    Not a function itself: one that is kept as an attribute of a class, which a module may do
    that is imported meanwhile, would become a method there.
    """

    def __init__(self, gate: _Gate) -> None:
        functools.update_wrapper(self, gate.original)
        self._target = gate.target
        self._original = gate.original

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        _meet_all(self._target, arguments, options)
        return self._original(*arguments, **options)


def _guarding_method(gate: _Gate) -> Function:
    """Return what stands for a method."""
    original, target = gate.original, gate.target

    @functools.wraps(original)
    def guard(*arguments: Any, **options: Any) -> Any:
        _meet_all(target, arguments, options)
        return original(*arguments, **options)

    return guard


def _meet_all(target: tuple[int, str], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    fences = _standing.get(threading.get_ident())
    if fences:
        caller = sys._getframe(2)  # beyond the guard
        for fence in reversed(fences):
            fence._meet(target, caller, arguments, options)


_OUTSIDE: Final = {call.target: call for call in OUTSIDE}
_BLOCKING: Final = {call.target: call for call in BLOCKING}
_gates: Final = {call.target: _Gate(call) for call in (*OUTSIDE, *BLOCKING)}
_standing: Final[dict[int, list[Fence]]] = {}
"""The fences of each thread, the innermost last."""
_changing: Final = threading.Lock()


# -- who called ----------------------------------------------------------------------------------


def _is_trusted(caller: FrameType, call: Call) -> bool:
    root = str(caller.f_globals.get("__name__", "")).partition(".")[0]
    return (
        root in _TOOLS
        or root.startswith("pytest_")
        or (root in _WRITERS and call.owner.__name__ == "time" and call.name != "sleep")
    )


def _imports_in(frame: FrameType | None) -> int:
    """Count the imports that are under way."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_name == "_find_and_load" and (
            frame.f_globals.get("__name__") == "importlib._bootstrap"
        )
        frame = frame.f_back
    return count


def _error(
    kind: Callable[..., FencedCallError], call: str, reason: Reason, caller: FrameType
) -> FencedCallError:
    through, place = _responsible(caller)
    msg = (
        f"`{call}` was called at {place}{f' (by `{through}`)' if through else ''}:"
        f" {reason.why}; use {reason.instead}"
    )
    return kind(msg, call=call, place=place)


def _responsible(caller: FrameType) -> tuple[str, str]:
    """Return the place that is to be mended, and the function of the library that it called."""
    frame: FrameType | None = caller
    through = ""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_KIT):
            break  # the loop has called a function of the library by itself
        if not _is_standard(path):
            return through, f"{_shown(path)}:{frame.f_lineno}"
        through = f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "", f"{_shown(caller.f_code.co_filename)}:{caller.f_lineno}"


def _is_standard(path: str) -> bool:
    return path.startswith("<frozen ") or (
        path.startswith(_STANDARD) and not path.startswith(_PACKAGES)
    )


def _shown(path: str) -> str:
    """Return *path*, relative where it is below the current directory."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)
