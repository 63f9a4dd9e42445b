"""Which awaits wait for a notification, an event, a stop, or time."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from millpond.lint._module import Module, chains
from millpond.lint._names import chain, last

EVENTS = frozenset({"asyncio.Event", "anyio.Event", "trio.Event"})
CONDITIONS = frozenset({"asyncio.Condition", "anyio.Condition", "trio.Condition"})
SLEEPS = frozenset({"asyncio.sleep", "anyio.sleep", "trio.sleep"})
TIMEOUT_ERRORS = frozenset({"builtins.TimeoutError", "asyncio.TimeoutError"})
_SCOPES = frozenset(
    {"timeout", "timeout_at", "fail_after", "fail_at", "move_on_after", "move_on_at", "Deadline"}
)
_BOUNDS = frozenset({"timeout", "deadline", "grace", "timeout_seconds"})
_STOP_WORD = re.compile(
    r"(?:^|_)(?:stop(?:s|ped|ping)?|shut_?down|shutting_?down|cancel(?:s|l?ed|l?ing|lation)?"
    r"|clos(?:e|ed|ing)|quit|quitting|exit(?:ed|ing)?|terminat(?:e|ed|ing|ion)|abort(?:ed|ing)?"
    r"|kill(?:ed)?|end(?:ed|ing)?)(?:$|_)",
    re.IGNORECASE,
)


def is_stop_word(dotted: str) -> bool:
    """Whether a name speaks of an end: ``self._stopping``, ``shutdown``."""
    return any(_STOP_WORD.search(part) for part in dotted.split("."))


@final
@dataclass(frozen=True, slots=True)
class Wait:
    """One await of a notification."""

    node: ast.Await
    source: str
    """What notifies: ``self._changed``."""
    kind: str
    """``notify``, ``event`` or ``condition``."""
    stop: bool = False
    """Whether a stop ends it too."""


def wait_of(module: Module, node: ast.AST) -> Wait | None:
    """Say what an await waits for, if that is a bare notification."""
    return _wait_of(module, node) if isinstance(node, ast.Await) else None


def _wait_of(module: Module, node: ast.Await) -> Wait | None:
    value = node.value
    # What bounds a wait, or shields it, does not change what it waits for.
    while (
        isinstance(value, ast.Call)
        and value.args
        and module.names.resolve(value.func) in {"asyncio.wait_for", "asyncio.shield"}
    ):
        value = value.args[0]
    source = notified_by(module, value)
    if source:
        return Wait(node, source, "notify")
    match value:
        case ast.Call(func=ast.Attribute(value=waited, attr="wait")):
            return _call_of_wait(module, node, value, waited)
        case _:
            return None


def _call_of_wait(module: Module, node: ast.Await, call: ast.Call, waited: ast.expr) -> Wait | None:
    source = notified_by(module, waited)
    if source:
        return Wait(node, source, "notify", stop=mentions_stop(call))
    kind = module.names.kind(waited)
    source = chain(waited)
    if source and kind in EVENTS:
        return Wait(node, source, "event")
    if source and kind in CONDITIONS:
        return Wait(node, source, "condition")
    return None


def mentions_stop(call: ast.Call) -> bool:
    """Whether a call is given a stop signal by name."""
    return any(keyword.arg == "stop" and not is_none(keyword.value) for keyword in call.keywords)


def is_none(node: ast.AST) -> bool:
    """Whether it is the literal None."""
    return isinstance(node, ast.Constant) and node.value is None


def notified_by(module: Module, node: ast.AST) -> str:
    """Return the `Notify` that an expression is a notification of, else an empty text."""
    call = node
    if isinstance(node, ast.Name):
        function = module.function_of(node)
        if function is None:
            return ""
        call = next(_notified_values(module, function, node.id), node)
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "notified"
        and not call.args
    ):
        return chain(call.func.value)
    return ""


def _notified_values(module: Module, function: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield the ``notify.notified()`` that *name* is bound to in a function."""
    for node in module.own(function):
        if isinstance(node, ast.Assign):
            bound = any(chain(target) == name for target in node.targets)
            values = [node.value] if bound else []
        elif isinstance(node, ast.With | ast.AsyncWith):
            values = [
                item.context_expr
                for item in node.items
                if item.optional_vars is not None and chain(item.optional_vars) == name
            ]
        else:
            continue
        for value in values:
            if isinstance(value, ast.Call) and last(chain(value.func)) == "notified":
                yield value


def is_cleared(module: Module, source: str) -> bool:
    """Whether an event is cleared somewhere in the module: a pulse, not a state."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "clear"
        and last(chain(node.func.value)) == last(source)
        for node in module.nodes
    )


def call_of(module: Module, node: ast.AST, name: str) -> ast.Call | None:
    """Return an awaited call of the function *name* of `millpond.sync`, by any import."""
    if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
        found = module.names.resolve(node.value.func)
        if found.startswith("millpond.") and last(found) == name:
            return node.value
    return None


def is_sleep(module: Module, node: ast.AST) -> bool:
    """Whether it is an await of a sleep."""
    return (
        isinstance(node, ast.Await)
        and isinstance(node.value, ast.Call)
        and module.names.resolve(node.value.func) in SLEEPS
    )


def bounds_itself(module: Module, node: ast.AST) -> bool:
    """Whether an awaited expression ends by itself after some time."""
    if not isinstance(node, ast.Call):
        return False
    name = module.names.resolve(node.func)
    if name in SLEEPS:
        return True
    if name == "asyncio.wait_for":
        position = 1
        if len(node.args) > position and not is_none(node.args[position]):
            return True
    return any(keyword.arg in _BOUNDS and not is_none(keyword.value) for keyword in node.keywords)


def is_bounded(module: Module, node: ast.AST, *, up_to: ast.AST) -> bool:
    """Whether a timeout stands around *node*, inside *up_to*."""
    for around in module.above(node):
        if around is up_to:
            return False
        if isinstance(around, ast.With | ast.AsyncWith) and any(
            is_timeout_scope(item.context_expr) for item in around.items
        ):
            return True
    return False


def is_timeout_scope(node: ast.expr) -> bool:
    """Whether a context manager ends its block after some time."""
    return (
        is_scope(node)
        and isinstance(node, ast.Call)
        and not (len(node.args) == 1 and is_none(node.args[0]))
    )


def is_scope(node: ast.expr) -> bool:
    """Whether a context manager is a timeout, be it one that never fires."""
    if not isinstance(node, ast.Call):
        return False
    name = last(chain(node.func))
    has_deadline = any(keyword.arg == "deadline" for keyword in node.keywords)
    return name in _SCOPES or (name == "CancelScope" and has_deadline)


def stop_chains(node: ast.AST) -> set[str]:
    """Return the names in *node* that speak of an end."""
    return {dotted for dotted in chains(node) if is_stop_word(dotted)}
