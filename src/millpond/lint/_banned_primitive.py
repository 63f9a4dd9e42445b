"""banned-primitive: parts of asyncio that lose wake-ups, cancels or permits."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module

_PERMITS = (
    (
        "Its permits belong to nobody: one that is released twice raises the capacity, and one"
        " whose thread still runs is given away."
    ),
    "Use `millpond.flow.Limiter`, whose permits are objects that go back once.",
)
BANNED = {
    "asyncio.Condition": (
        (
            "On Python 3.11 and 3.12 it loses a notify() when the woken waiter is cancelled, and"
            " the others sleep on."
        ),
        "Keep the state in plain attributes, and wait with `wait_until(notify, predicate)`.",
    ),
    "asyncio.wait_for": (
        (
            "On Python 3.11 it swallows a cancel that comes in the tick of the result, and runs"
            " the coroutine in another task."
        ),
        "Use `async with asyncio.timeout(seconds)` around the await.",
    ),
    "asyncio.Semaphore": _PERMITS,
    "asyncio.BoundedSemaphore": _PERMITS,
}
"""By name: why, and what to use instead."""


def look(module: Module) -> Iterator[Sighting]:
    """Find every use, except in annotations and in tests of a type."""
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name = module.names.resolve(node)
        if name in BANNED and not _only_names_a_type(module, node):
            why, mend = BANNED[name]
            yield Sighting(node, f"use of `{name}`", why, mend)


def _only_names_a_type(module: Module, node: ast.AST) -> bool:
    child = node
    while not isinstance(child, ast.stmt):
        above = module.parent(child)
        match above:
            case ast.arg() | ast.ExceptHandler():
                return True
            case ast.AnnAssign(annotation=annotation) if annotation is child:
                return True
            case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if (
                returns is child
            ):
                return True
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "cast")) if (
                child in above.args
            ):
                return True
            case ast.Subscript(slice=inside) if inside is child:
                return True  # a type argument: `list[asyncio.Semaphore]()`
            case _:
                child = above
    return False


RULE = Rule(
    name="banned-primitive",
    why="It loses wake-ups, cancels or permits.",
    mend="Use the part of millpond that keeps them.",
    look=look,
)
