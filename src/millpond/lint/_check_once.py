"""check-once: a state is looked at once, then a notification is taken for its change."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, chains, leaves, with_inside
from millpond.lint._names import Function, chain, last, parameters
from millpond.lint._waits import Wait, is_cleared, notified_by, wait_of

_REFUSALS = frozenset({"IndexError", "KeyError", "QueueEmpty", "Empty", "WouldBlock"})
"""What taking something raises when nothing is there: that is a look, too."""
_CHECKS = (ast.If, ast.While, ast.Assert, ast.IfExp, ast.Return, ast.Match)


def look(module: Module) -> Iterator[Sighting]:
    """Find waits under an ``if`` after which the state is not looked at again."""
    for function in module.coroutines:
        for node in module.own(function):
            wait = wait_of(module, node)
            if wait is None or (wait.kind == "event" and not is_cleared(module, wait.source)):
                continue  # an event that is never cleared is a state of its own
            guard = _guard(module, wait)
            if guard is None:
                continue
            state = _state(function, guard, wait)
            if state and not _is_checked_again(module, function, guard, wait, state):
                name = min(state)
                yield Sighting(
                    wait.node,
                    f"`{name}` is looked at once, in line {guard.lineno}, and not again after"
                    f" the wait for `{wait.source}`",
                )


def _guard(module: Module, wait: Wait) -> ast.If | None:
    """Return the ``if`` that decides whether to wait: around it, or before it and leaving."""
    node = module.statement(wait.node)
    while True:
        for before in reversed(module.before(node)):
            if isinstance(before, ast.If) and leaves(before.body) and not before.orelse:
                return before
            if not _is_arming(module, before):
                break
        above = module.parent(node)
        if isinstance(above, ast.If):
            return above
        if not isinstance(above, ast.With | ast.AsyncWith | ast.Try):
            return None
        node = above


def _is_arming(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement makes or arms a notification, or clears an event."""
    match statement:
        case ast.Assign(value=value):
            return bool(notified_by(module, value)) or _is_call_of(value, {"enable"})
        case ast.Expr(value=value):
            return _is_call_of(value, {"enable", "clear"})
        case _:
            return False


def _is_call_of(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and last(chain(node.func)) in names


def _state(function: Function, guard: ast.If, wait: Wait) -> set[str]:
    """Return what the test looks at, unless that is the notification itself or an argument."""
    test = guard.test
    looked_at = chains(test)
    if any(dotted.startswith(f"{wait.source}.") for dotted in looked_at):
        return set()
    arguments = parameters(function) - {"self", "cls"}
    armed = {
        chain(item.optional_vars)
        for node in ast.walk(function)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if item.optional_vars is not None and last(chain_of_call(item.context_expr)) == "notified"
    }
    return {
        dotted
        for dotted in looked_at
        if dotted != wait.source
        and not (dotted in arguments and isinstance(_bare(test), ast.Name | ast.Compare))
        and dotted.partition(".")[0] not in armed
    }


def chain_of_call(node: ast.expr) -> str:
    """Return the name of what is called."""
    return chain(node.func) if isinstance(node, ast.Call) else ""


def _bare(test: ast.expr) -> ast.expr:
    while isinstance(test, ast.UnaryOp):
        test = test.operand
    return test


def _is_checked_again(
    module: Module, function: Function, guard: ast.If, wait: Wait, state: set[str]
) -> bool:
    statement = module.statement(wait.node)
    loop: ast.AST = function
    for around in module.above(guard):
        if isinstance(around, ast.While):
            loop = around
            if state & chains(around.test):
                return True
            if _goes_round(module, statement, around):
                return True
            break
        if isinstance(around, ast.For | ast.AsyncFor):
            loop = around
            break
    for follower in module.later(statement, up_to=loop):
        if isinstance(follower, ast.Try) and any(
            last(dotted) in _REFUSALS
            for handler in follower.handlers
            if handler.type is not None
            for dotted in chains(handler.type)
        ):
            return True
        for node in with_inside(follower):
            if isinstance(node, _CHECKS) and state & chains(_tested(node)):
                return True
    return False


def _goes_round(module: Module, statement: ast.stmt, loop: ast.While) -> bool:
    """Whether the next thing after the wait is the next turn of the loop."""
    follower = next(module.later(statement, up_to=loop), None)
    return follower is None or isinstance(follower, ast.Continue)


def _tested(node: ast.AST) -> ast.AST:
    match node:
        case ast.If() | ast.While() | ast.Assert() | ast.IfExp():
            return node.test
        case ast.Match():
            return node.subject
        case _:
            return node


RULE = Rule(
    name="check-once",
    why="A notification may come for nothing, or for a change that somebody else has used up,"
    " and one that came before the wait began is lost.",
    mend="Use `wait_until(notify, predicate)`, which looks again after every wake-up.",
    look=look,
)
