"""copied-loop: the loop of `wait_until`, written out once more."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import EXITS, Module, inside, leaves
from millpond.lint._names import chain, last
from millpond.lint._waits import Wait, notified_by, wait_of


def look(module: Module) -> Iterator[Sighting]:
    """Find loops that check, arm, check and park, and do nothing else."""
    for function in module.coroutines:
        for loop in module.own(function):
            if not isinstance(loop, ast.While):
                continue
            waits = [wait for node in inside(loop) if (wait := wait_of(module, node))]
            sources = {wait.source for wait in waits if wait.kind == "notify"}
            if (
                len(waits) == 1
                and len(sources) == 1
                and _is_sync(loop.test)
                and _has_predicate(loop)
                and all(_is_plain(module, statement) for statement in loop.body)
            ):
                name = _replacement(loop, waits[0])
                yield Sighting(
                    loop,
                    f"this loop around `{sources.pop()}` does what `{name}` does, and no more",
                )


def _replacement(loop: ast.While, wait: Wait) -> str:
    asks = any(
        isinstance(node, ast.Call) and last(chain(node.func)) == "is_stopped"
        for node in inside(loop)
    )
    return "wait_until_or_stopped" if wait.stop or asks else "wait_until"


def _is_sync(node: ast.expr) -> bool:
    return not any(isinstance(it, ast.Await | ast.NamedExpr) for it in (node, *inside(node)))


def _has_predicate(loop: ast.While) -> bool:
    if not isinstance(loop.test, ast.Constant):
        return True
    return any(
        isinstance(node, ast.If)
        and leaves(node.body)
        and not isinstance(node.body[0], ast.Continue)
        for node in inside(loop)
    )


def _is_plain(module: Module, statement: ast.stmt) -> bool:  # noqa: PLR0911 - a case each
    """Whether a statement belongs to the loop of `wait_until`."""
    match statement:
        case ast.If():
            return _is_sync(statement.test) and all(
                _is_plain(module, below) for below in (*statement.body, *statement.orelse)
            )
        case ast.With() | ast.AsyncWith():
            return all(
                bool(notified_by(module, item.context_expr)) for item in statement.items
            ) and all(_is_plain(module, below) for below in statement.body)
        case ast.Try(finalbody=[], orelse=[]):
            return all(_is_plain(module, below) for below in statement.body) and all(
                last(chain(handler.type) if handler.type else "") == "Stopped"
                and all(isinstance(below, EXITS) for below in handler.body)
                for handler in statement.handlers
            )
        case ast.Assign(value=value) | ast.Expr(value=value):
            return _is_step(module, value)
        case ast.Return(value=value):
            return value is None or _is_sync(value)
        case ast.Raise() | ast.Break() | ast.Continue() | ast.Pass():
            return True
        case _:
            return False


def _is_step(module: Module, value: ast.expr) -> bool:
    if isinstance(value, ast.Await):
        wait = wait_of(module, value)
        # Inside a `wait_for` it has a timer, which is a contract of its own.
        return wait is not None and not any(
            isinstance(node, ast.Call) and last(chain(node.func)) == "wait_for"
            for node in inside(value)
        )
    is_enable = isinstance(value, ast.Call) and last(chain(value.func)) == "enable"
    return bool(notified_by(module, value)) or is_enable


RULE = Rule(
    name="copied-loop",
    why="Each copy of the check, arm, check again, park protocol is one more place where an"
    " edit can lose a wake-up.",
    mend="Call `wait_until(notify, predicate)` or `wait_until_or_stopped(notify, stop,"
    " predicate)`; keep a loop only for a contract that they do not have.",
    look=look,
)
