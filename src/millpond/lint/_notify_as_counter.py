"""notify-as-counter: the number of wake-ups is taken for a number of events."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, chains, inside, with_inside
from millpond.lint._names import chain, last
from millpond.lint._waits import Wait, is_cleared, wait_of


def look(module: Module) -> Iterator[Sighting]:
    """Find loops that count notifications."""
    for function in module.coroutines:
        for loop in module.own(function):
            if isinstance(loop, ast.For):
                yield from _look_at_for(module, loop)
            elif isinstance(loop, ast.While):
                yield from _look_at_while(module, loop)


def _waits(module: Module, loop: ast.While | ast.For) -> list[Wait]:
    """Return the waits for a pulse that every turn of the loop makes."""
    found: list[Wait] = []
    for statement in loop.body:
        # Under a `with`, too: that is how a notification is armed.
        for node in with_inside(*_unconditional(statement)):
            wait = wait_of(module, node)
            if wait is not None and (
                wait.kind == "notify" or (wait.kind == "event" and is_cleared(module, wait.source))
            ):
                found.append(wait)
    return found


def _unconditional(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [it for below in statement.body for it in _unconditional(below)]
    if isinstance(statement, ast.Expr | ast.Assign):
        return [statement]
    return []


def _look_at_for(module: Module, loop: ast.For) -> Iterator[Sighting]:
    is_count = (
        isinstance(loop.iter, ast.Call) and module.names.resolve(loop.iter.func) == "builtins.range"
    )
    if not is_count or any(isinstance(node, ast.If | ast.While) for node in inside(loop)):
        return
    waits = _waits(module, loop)
    if waits and not _does_more(loop, waits[0]):
        yield Sighting(
            waits[0].node,
            f"one turn of `for ... in {ast.unparse(loop.iter)}` is taken for one event of"
            f" `{waits[0].source}`",
        )


def _look_at_while(module: Module, loop: ast.While) -> Iterator[Sighting]:
    waits = _waits(module, loop)
    if not waits:
        return
    counters = [
        node
        for statement in loop.body
        for node in _flat(statement)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add | ast.Sub)
        and isinstance(node.value, ast.Constant)
        and chain(node.target)
    ]
    tests = [loop.test] + [node.test for node in inside(loop) if isinstance(node, ast.If)]
    for counter in counters:
        name = chain(counter.target)
        decides = any(name in chains(test) for test in tests)
        blind = not any(chains(test) for test in tests)
        if decides and all(_is_only_of(test, name) for test in tests if chains(test)):
            yield Sighting(
                counter, f"`{name}` counts wake-ups by `{waits[0].source}`, and decides by them"
            )
        elif blind and not _does_more(loop, waits[0]):
            yield Sighting(counter, f"`{name}` counts wake-ups by `{waits[0].source}`")


def _flat(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [it for below in statement.body for it in _flat(below)]
    return [statement]


def _is_only_of(test: ast.expr, name: str) -> bool:
    """Whether a test compares the counter with something that stays as it is."""
    return isinstance(test, ast.Compare) and name in chains(test)


def _does_more(loop: ast.While | ast.For, wait: Wait) -> bool:
    """Whether a loop does something besides waiting: then it may look at the state there."""
    for node in with_inside(*loop.body):
        if isinstance(node, ast.Call):
            name = last(chain(node.func)) or "?"
            if isinstance(node.func, ast.Attribute) and not chain(node.func):
                name = node.func.attr
            if name not in {"notified", "enable", "wait", "clear", "wait_for", "timeout"}:
                return True
        if isinstance(node, ast.Await) and node is not wait.node:
            return True
    return False


RULE = Rule(
    name="notify-as-counter",
    why="Notifications coalesce and may come for nothing, so their number says nothing about"
    " how often something happened.",
    mend="Count at the source and wait with `wait_until(notify, lambda: count >= n)`, or send"
    " each event through a `Channel` or a `Limiter`.",
    look=look,
)
