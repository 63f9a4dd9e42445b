"""timeout-as-success: a wait for a state that ran out of time is taken for its success."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, chains, inside, with_inside
from millpond.lint._names import Function, chain, last
from millpond.lint._waits import (
    TIMEOUT_ERRORS,
    bounds_itself,
    call_of,
    is_bounded,
    is_stop_word,
    is_timeout_scope,
    wait_of,
)

_SPEAKING = frozenset({"debug", "info", "warning", "error", "exception", "log", "print", "say"})
_QUIET_SCOPES = frozenset({"move_on_after", "move_on_at"})


def look(module: Module) -> Iterator[Sighting]:
    """Find waits whose timeout is dropped, with nobody looking at the state afterwards."""
    for function in module.coroutines:
        if is_stop_word(function.name) or function.name in {"__aexit__", "disconnect"}:
            continue  # an end that is given some time goes on in any case
        for node in module.own(function):
            match node:
                case ast.Try():
                    for handler in node.handlers:
                        if _catches_timeout(module, handler.type):
                            yield from _look_at(module, function, node, handler)
                case ast.With() | ast.AsyncWith() if _is_suppressed(module, node):
                    yield from _look_at(module, function, node, None)
                case _:
                    pass


def _catches_timeout(module: Module, caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is not None and module.names.resolve(kind) in TIMEOUT_ERRORS for kind in kinds)


def _is_suppressed(module: Module, block: ast.With | ast.AsyncWith) -> bool:
    for item in block.items:
        call = item.context_expr
        if not isinstance(call, ast.Call):
            continue
        if module.names.resolve(call.func) == "contextlib.suppress" and any(
            module.names.resolve(kind) in TIMEOUT_ERRORS for kind in call.args
        ):
            return True
        # These end in silence, unless somebody keeps the scope to ask it.
        if last(chain(call.func)) in _QUIET_SCOPES and item.optional_vars is None:
            return True
    return False


def _look_at(
    module: Module,
    function: Function,
    block: ast.Try | ast.With | ast.AsyncWith,
    handler: ast.ExceptHandler | None,
) -> Iterator[Sighting]:
    waited = _timed_wait(module, block)
    if waited is None:
        return
    state = chains(waited) - {"self"}
    sources = {dotted for dotted in state if not dotted.startswith("asyncio.")}
    if any(is_stop_word(dotted) for dotted in sources):
        return  # a pause that a stop may end
    success = None if handler is None else _success(handler)
    where = min(sources) if sources else "the state"
    if success:
        yield Sighting(success, f"a timeout of the wait for `{where}` is answered with success")
        return
    if handler is not None and not _is_dropped(handler):
        return
    if any(isinstance(around, ast.While | ast.For) for around in module.above(block)):
        return  # looks again
    if not _is_asked(module, function, block, sources):
        place = handler if handler is not None else block
        yield Sighting(
            place.body[0] if isinstance(place, ast.ExceptHandler) else place,
            f"after a timeout of the wait for `{where}`, it goes on as if that had happened",
        )


def _timed_wait(module: Module, block: ast.Try | ast.With | ast.AsyncWith) -> ast.expr | None:
    """Return what is waited for in *block*, if the wait has a timeout."""
    own = isinstance(block, ast.With | ast.AsyncWith) and any(
        is_timeout_scope(item.context_expr) for item in block.items
    )
    found: list[ast.expr] = []
    for node in with_inside(*block.body):
        if not isinstance(node, ast.Await):
            continue
        call = call_of(module, node, "wait_until")
        wait = wait_of(module, node)
        bounded = own or bounds_itself(module, node.value) or is_bounded(module, node, up_to=block)
        if not bounded or (call is None and wait is None):
            return None  # something else may have run out of time
        found.append(node.value)
    return found[0] if len(found) == 1 else None


def _success(handler: ast.ExceptHandler) -> ast.stmt | None:
    """Return the statement of a handler that says it went well."""
    final = handler.body[-1]
    if isinstance(final, ast.Return) and final.value is not None:
        value = final.value
        said = isinstance(value, ast.Constant) and value.value is True
        if said or last(chain(value)) in {"READY", "OK", "SUCCESS", "DONE"}:
            return final
    return None


def _is_dropped(handler: ast.ExceptHandler) -> bool:
    """Whether a handler does nothing, or only speaks of it."""
    for statement in handler.body:
        match statement:
            case ast.Pass() | ast.Return(value=None):
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Expr(value=ast.Call(func=func)) if last(chain(func)) in _SPEAKING:
                continue
            case _:
                return False
    return True


def _is_asked(module: Module, function: Function, block: ast.stmt, sources: set[str]) -> bool:
    """Whether the state is looked at after the wait."""
    names = {last(dotted) for dotted in sources} - {"wait", "wait_until", "notified", "wait_for"}
    for dotted in sources:
        names.update(part for part in dotted.split(".") if part not in {"self", "wait"})
    if isinstance(block, ast.Try) and block.orelse:
        return True  # success has a branch of its own
    for follower in module.later(block, up_to=function):
        for node in (follower, *inside(follower)):
            match node:
                case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
                    asked: ast.AST = test
                case ast.Return(value=ast.expr() as value):
                    asked = value
                case ast.IfExp(test=test) | ast.Match(subject=test):
                    asked = test
                case _:
                    continue
            found = {part for dotted in chains(asked) for part in dotted.split(".")}
            if found & names:
                return True
    return False


RULE = Rule(
    name="timeout-as-success",
    why="Running out of time proves nothing about the state, yet the caller goes on as if it"
    " had changed.",
    mend="Let the TimeoutError pass, return an outcome that tells the two apart, or look at the"
    " state again before going on.",
    look=look,
)
