"""notify-before-publish: the wake-up is sent first, the state that it speaks of set after."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import EXITS, Module, chains, with_inside
from millpond.lint._names import Function, chain, last

NOTIFY_CALLS = frozenset({"notify_waiters", "notify_one"})
_CHANGES = frozenset(
    {"append", "appendleft", "add", "extend", "insert", "pop", "popleft", "remove", "discard"}
    | {"clear", "update", "setdefault"}
)
_CLOCKS = frozenset({"time", "monotonic", "loop_time", "now"})
_WAITS = frozenset({"wait_until", "wait_until_or_stopped", "wait_until_or_raise"})


@dataclass(slots=True)
class _Progress:
    """What a function has done so far."""

    notified: dict[str, ast.stmt] = field(default_factory=dict[str, ast.stmt])
    """By the notification, where it was sent."""
    published: bool = False
    """Whether any state was changed before the first notification."""
    late: dict[str, tuple[ast.stmt, str]] = field(default_factory=dict[str, tuple[ast.stmt, str]])
    """By the notification, where it was sent and what was changed after it."""


def look(module: Module) -> Iterator[Sighting]:
    """Find notifications that are followed by the change they tell of."""
    if not any(isinstance(node, ast.Attribute) and _is_notify(node) for node in module.nodes):
        return
    read = _read_by_waiters(module)
    for function in module.functions:
        progress = _Progress()
        _walk(module, function, function.body, progress, read)
        for source, (place, state) in progress.late.items():
            yield Sighting(place, f"`{source}` is notified before `{state}` is changed")


def _is_notify(node: ast.Attribute) -> bool:
    return node.attr in NOTIFY_CALLS


def _read_by_waiters(module: Module) -> dict[str, set[str]]:
    """Return, by the last name of a notification, the names that its waiters look at."""
    read: dict[str, set[str]] = {}
    for node in module.nodes:
        if (
            isinstance(node, ast.Call)
            and last(chain(node.func)) in _WAITS
            and len(node.args) >= 2  # noqa: PLR2004 - the notification and the predicate
            and chain(node.args[0])
        ):
            names = _names_read(module, node.args[-1])
            read.setdefault(last(chain(node.args[0])), set()).update(names)
    return read


def _names_read(module: Module, predicate: ast.expr) -> set[str]:
    """Return the last names that a predicate reads, through one method of its own."""
    dotted = chains(predicate.body if isinstance(predicate, ast.Lambda) else predicate)
    names = {last(it) for it in dotted}
    for function in module.functions:
        if function.name in names:
            names |= {last(it) for it in chains(*function.body)}
    return names


def _walk(
    module: Module,
    function: Function,
    block: list[ast.stmt],
    progress: _Progress,
    read: dict[str, set[str]],
) -> bool:
    """Go through a block in order. Return whether its end is reached."""
    for statement in block:
        _look_at(module, function, statement, progress, read)
        bodies = [
            getattr(statement, name, [])
            for name in ("body", "orelse", "finalbody")
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        for body in bodies:
            before = dict(progress.notified)
            if body and not _walk(module, function, body, progress, read):
                progress.notified = before  # that way does not lead here
        if isinstance(statement, EXITS):
            return False
    return True


def _look_at(
    module: Module,
    function: Function,
    statement: ast.stmt,
    progress: _Progress,
    read: dict[str, set[str]],
) -> None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner) as func)) if _is_notify(func):
            source = chain(owner)
            if source:
                progress.notified[source] = statement
                progress.late.pop(source, None)  # told again, after the change
            return
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete() | ast.Expr():
            pass
        case _:
            return
    for state in _changed(module, function, statement):
        if not progress.notified:
            progress.published = True
        for source, place in progress.notified.items():
            if source not in progress.late and _is_told(
                source, state, statement, read, published=progress.published
            ):
                progress.late[source] = (place, state)


def _changed(module: Module, function: Function, statement: ast.stmt) -> Iterator[str]:
    """Yield the attributes and outer variables that a statement changes."""
    for node in with_inside(statement):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGES
        ):
            target: ast.AST = node.func.value
        elif isinstance(node, ast.Attribute | ast.Name | ast.Subscript) and isinstance(
            node.ctx, ast.Store | ast.Del
        ):
            target = node.value if isinstance(node, ast.Subscript) else node
        else:
            continue
        name = chain(target)
        is_local = "." not in name and module.names.is_bound_in(function, name)
        if name and not is_local:
            yield name


def _is_told(
    source: str,
    state: str,
    statement: ast.stmt,
    read: dict[str, set[str]],
    *,
    published: bool,
) -> bool:
    """Whether a notification by *source* speaks of *state*."""
    known = read.get(last(source))
    if known is not None:
        return last(state) in known
    # Nobody waits in this module. Only the plain case is certain: nothing was changed
    # before, and what is changed after belongs to the same owner.
    value = getattr(statement, "value", None)
    is_reset = isinstance(value, ast.Constant) and value.value is None
    same_owner = source.rpartition(".")[0] == state.rpartition(".")[0] and "." in source
    is_time = isinstance(value, ast.Call) and last(chain(value.func)) in _CLOCKS
    return same_owner and not published and not is_reset and not is_time


RULE = Rule(
    name="notify-before-publish",
    why="A waiter that runs in between reads the old state and goes back to sleep, and no"
    " second notification comes.",
    mend="Change the state first, release its lock if it has one, and notify last.",
    look=look,
)
