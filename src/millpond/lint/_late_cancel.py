"""late-cancel: a first wait is blind to the stop that the next one knows."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, chains, with_inside
from millpond.lint._names import chain
from millpond.lint._waits import (
    bounds_itself,
    call_of,
    is_bounded,
    is_stop_word,
    mentions_stop,
    wait_of,
)


@dataclass(frozen=True, slots=True)
class _First:
    node: ast.Await
    source: str
    is_bare: bool
    """A `Notify` itself: what follows need not be the same one."""


def look(module: Module) -> Iterator[Sighting]:
    """Find waits without a stop that are followed by one with it."""
    for function in module.coroutines:
        for node in module.own(function):
            first = _first(module, node)
            if first is None or is_bounded(module, first.node, up_to=function):
                continue
            for follower in module.later(module.statement(first.node), up_to=function):
                second = next(
                    (
                        it
                        for it in with_inside(follower)
                        if _is_stop_aware(module, function, it, first)
                    ),
                    None,
                )
                if second is not None:
                    line = getattr(second, "lineno", 0)
                    yield Sighting(
                        first.node,
                        f"no stop ends this wait for `{first.source}`; it is in the wait set"
                        f" only from line {line} on",
                    )
                    break


def _first(module: Module, node: ast.AST) -> _First | None:
    if not isinstance(node, ast.Await):
        return None
    wait = wait_of(module, node)
    if wait is not None:
        if wait.stop or is_stop_word(wait.source) or bounds_itself(module, node.value):
            return None
        return _First(node, wait.source, is_bare=wait.kind == "notify")
    call = call_of(module, node, "wait_until")
    if call is not None and call.args and not is_stop_word(chain(call.args[0])):
        return _First(node, chain(call.args[0]), is_bare=False)
    return None


def _is_stop_aware(
    module: Module, function: ast.AsyncFunctionDef, node: ast.AST, first: _First
) -> bool:
    if not isinstance(node, ast.Await):
        return False
    call = call_of(module, node, "wait_until_or_stopped")
    if call is not None:
        return first.is_bare or (bool(call.args) and chain(call.args[0]) == first.source)
    wait = wait_of(module, node)
    if wait is not None:
        return wait.stop and (first.is_bare or wait.source == first.source)
    value = node.value
    if not isinstance(value, ast.Call):
        return False
    if module.names.resolve(value.func) == "asyncio.wait" and value.args:
        members = _members(module, function, value.args[0])
        mentioned = chains(*members)
        return (
            any(is_stop_word(dotted) for dotted in mentioned)
            and any(keyword.arg == "return_when" for keyword in value.keywords)
            and (first.is_bare or any(_is_of(dotted, first.source) for dotted in mentioned))
        )
    return mentions_stop(value) and any(_is_of(it, first.source) for it in chains(value))


def _is_of(dotted: str, source: str) -> bool:
    return f"{dotted}.".startswith(f"{source}.")


def _members(module: Module, function: ast.AST, node: ast.expr) -> list[ast.expr]:
    """Return what an ``asyncio.wait`` waits for, with the tasks looked up."""
    values = {
        chain(target): it.value
        for it in module.own(function)
        if isinstance(it, ast.Assign)
        for target in it.targets
        if chain(target)
    }
    if isinstance(node, ast.Name):
        node = values.get(node.id, node)
    members = node.elts if isinstance(node, ast.Set | ast.List | ast.Tuple) else [node]
    return [*members, *(values[chain(it)] for it in members if chain(it) in values)]


RULE = Rule(
    name="late-cancel",
    why="During the first wait nobody hears the stop, so a shutdown hangs until a notification"
    " comes by chance.",
    mend="Put stop and notification into one wait from the start:"
    " `wait_until_or_stopped(notify, stop, predicate)`.",
    look=look,
)
