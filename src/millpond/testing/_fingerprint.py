"""Whether two suspended programs are in the same state: a digest of all that they can still see.

The live objects are walked from the roots that the caller names, and numbered in the order of
the visit, so that two states which differ in addresses only have the same digest: also in
another process, under another hash seed.

Left out, because nothing that runs can depend on them: tracebacks, the source positions of
functions beyond their first line, reference counts. Known gaps, named in the documentation:
locals that are not set yet, objects of C types that show nothing of their inside, and module
globals.
"""

import asyncio
import collections
import contextvars
import enum
import functools
import gc
import hashlib
import marshal
import random
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

Out: TypeAlias = list[Any]
Kids: TypeAlias = Iterable[Any]
Reader: TypeAlias = Callable[[Any, Out, "dict[int, int]"], Kids]
"""Writes what an object is, and returns what it leads to."""

_PLAIN: Final[dict[type, str]] = {
    int: "i", float: "f", str: "s", bytes: "b", bool: "B", type(None): "N", complex: "c",
}  # fmt: skip
"""Types whose values marshal writes as they are. The letter keeps 1, 1.0 and True apart."""


def fingerprint(now: float, roots: Sequence[object], ignored: Sequence[object]) -> bytes:
    """Return a digest of 16 bytes.

    Args:
        now: The virtual time.
        roots: From where to walk, in an order that does not depend on chance.
        ignored: What is numbered first and never looked into.
    """
    numbers = {id(one): number for number, one in enumerate(ignored)}
    keep: list[object] = []  # an address must not be used again within one walk
    out: Out = [now]
    readers = _READERS
    stack: list[Any] = list(reversed(roots))
    pop, write = stack.pop, out.append
    while stack:
        one = pop()
        kind = cast("type[object]", type(one))
        letter = _PLAIN.get(kind)
        if letter is not None:
            write(letter)
            write(one)
            continue
        number = numbers.get(id(one))
        if number is not None:
            write(-number)
            write("@")
            continue
        numbers[id(one)] = len(numbers)
        keep.append(one)
        reader = readers.get(kind)
        if reader is None:
            reader = readers[kind] = _find_reader(kind)
        write(kind.__qualname__)
        kids = reader(one, out, numbers)
        if kids:
            stack.extend(reversed(kids if isinstance(kids, list | tuple) else list(kids)))
    return hashlib.blake2b(marshal.dumps(out, 2), digest_size=16).digest()


# -- what is in an object ------------------------------------------------------------------------


def _nothing(_: Any, _out: Out, _numbers: dict[int, int]) -> Kids:
    return ()


def _name(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(getattr(one, "__qualname__", None) or getattr(one, "__name__", ""))
    return ()


def _sequence(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(len(one))
    return list(one)


def _mapping(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(len(one))
    return [part for pair in one.items() for part in pair]


def _set(one: Any, out: Out, numbers: dict[int, int]) -> Kids:
    out.append(len(one))
    return sorted(one, key=lambda part: _order(part, numbers))


def _order(part: Any, numbers: dict[int, int]) -> tuple[str, int, str]:
    """Order the members of a set without their addresses, as far as that can be done."""
    kind = cast("type[object]", type(part))
    if kind in _PLAIN:
        return kind.__qualname__, 0, repr(part)
    if isinstance(part, asyncio.Task):
        return kind.__qualname__, part.__hash__(), part.get_name()
    return kind.__qualname__, numbers.get(id(part), 1 << 60), ""


def _coroutine(one: Any, out: Out, _: dict[int, int]) -> Kids:
    frame = getattr(one, "cr_frame", None) or getattr(one, "gi_frame", None)
    if frame is None:
        frame = getattr(one, "ag_frame", None)
    out.append(one.__qualname__)
    if frame is None:
        out.append(-1)
        return ()
    out.append(frame.f_lasti)
    # The values of the frame: locals, cells, and the stack, where loops and `async with` keep
    # theirs. The function itself and the frame say nothing more.
    hidden = (types.FrameType, types.FunctionType, types.CodeType)
    return [part for part in gc.get_referents(one) if not isinstance(part, hidden)]


def _function(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(one.__qualname__)
    out.append(one.__code__.co_firstlineno)
    return [
        *(one.__closure__ or ()),
        *(one.__defaults__ or ()),
        *(one.__kwdefaults__ or {}).items(),
    ]


def _bound_in_c(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(one.__qualname__)
    owner = getattr(one, "__self__", None)
    return () if owner is None or isinstance(owner, types.ModuleType) else (owner,)


def _method(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(one.__func__.__qualname__)
    return (one.__self__,)


def _cell(one: Any, out: Out, _: dict[int, int]) -> Kids:
    try:
        return (one.cell_contents,)
    except ValueError:
        out.append("empty")
        return ()


def _partial(one: Any, _out: Out, _: dict[int, int]) -> Kids:
    return (one.func, one.args, one.keywords)


def _reference(one: Any, out: Out, _: dict[int, int]) -> Kids:
    target = one()
    if target is None:
        out.append("dead")
        return ()
    return (target,)


def _task(one: Any, out: Out, numbers: dict[int, int]) -> Kids:
    out += (one.get_name(), one._must_cancel, one.cancelling())
    # The context has no public name on 3.11.
    contexts = [part for part in gc.get_referents(one) if isinstance(part, contextvars.Context)]
    return [*_future(one, out, numbers), one.get_coro(), one._fut_waiter, *contexts]


def _future(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out += (one._state, one._log_traceback)
    kids: list[Any] = [one._callbacks]
    if one._state == "FINISHED":
        kids += (one._exception, one._result)
    # Whatever a subclass adds.
    kids += getattr(one, "__dict__", {}).values()
    return kids


def _context(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(len(one))
    return [part for var in sorted(one, key=lambda var: var.name) for part in (var.name, one[var])]


def _variable(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(one.name)
    return ()


def _error(one: Any, _out: Out, _: dict[int, int]) -> Kids:
    facts = [part for pair in one.__dict__.items() for part in pair]
    return [*one.args, one.__cause__, one.__context__, one.__suppress_context__, *facts]


def _member(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(one.name)
    return ()


def _iterator(one: Any, out: Out, _: dict[int, int]) -> Kids:
    try:
        return list(one.__reduce__()[1:])
    except TypeError:
        out.append(repr(one))
        return ()


def _dice(one: Any, _out: Out, _: dict[int, int]) -> Kids:
    return (one.getstate(),)


def _bytes_like(one: Any, _out: Out, _: dict[int, int]) -> Kids:
    return (bytes(one),)


def _as_text(one: Any, out: Out, _: dict[int, int]) -> Kids:
    out.append(repr(one))
    return ()


def _any(one: Any, _out: Out, _: dict[int, int]) -> Kids:
    return gc.get_referents(one)


_EMPTY: Final[Any] = ((), [], {}, set(), range(0), "", b"", {}.values(), {}.items())
_ITERATORS: Final[Any] = (
    *(type(iter(empty)) for empty in _EMPTY),
    *(type(reversed(empty)) for empty in _EMPTY[1:3]),
    enumerate,
    zip,
    map,
    filter,
    reversed,
)

_KINDS: Final[Any] = (
    (
        (type, types.ModuleType, property, types.GetSetDescriptorType, types.MemberDescriptorType),
        _name,
    ),
    ((types.CodeType, types.FrameType, types.TracebackType), _nothing),
    ((enum.Enum,), _member),
    ((asyncio.Task,), _task),
    ((asyncio.Future,), _future),
    ((types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType), _coroutine),
    ((types.FunctionType,), _function),
    ((types.MethodType,), _method),
    (
        (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
        _bound_in_c,
    ),
    ((types.CellType,), _cell),
    ((functools.partial,), _partial),
    ((weakref.ref,), _reference),
    ((contextvars.Context,), _context),
    ((contextvars.ContextVar,), _variable),
    ((BaseException,), _error),
    ((random.Random,), _dice),
    ((bytearray, memoryview), _bytes_like),
    ((range, slice), _as_text),
    (_ITERATORS, _iterator),
)
_EXACT: Final[dict[type, Reader]] = {
    tuple: _sequence,
    list: _sequence,
    collections.deque: _sequence,
    dict: _mapping,
    types.MappingProxyType: _mapping,
    collections.OrderedDict: _mapping,
    set: _set,
    frozenset: _set,
}
_READERS: Final[dict[type, Reader]] = dict(_EXACT)


def _find_reader(kind: type) -> Reader:
    """Return how objects of *kind* are read; found once for each."""
    found: Reader | None = next((r for kinds, r in _KINDS if issubclass(kind, kinds)), None)
    if found is not None:
        return found
    if kind.__module__ == "itertools":
        return _iterator
    for base, reader in _EXACT.items():
        if issubclass(kind, base):
            # A subclass may add attributes to what it holds.
            return lambda one, out, numbers: [
                *reader(one, out, numbers),
                *getattr(one, "__dict__", {}).items(),
            ]
    for base in _PLAIN:
        if issubclass(kind, base):
            return _as_text
    return _any
