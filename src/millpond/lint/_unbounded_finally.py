"""unbounded-finally: a clean-up waits, and nothing says for how long at most."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, with_inside
from millpond.lint._names import HERE, Function, chain
from millpond.lint._waits import bounds_itself, is_bounded, is_scope

_DEEPEST = 4


def look(module: Module) -> Iterator[Sighting]:
    """Find awaits in ``finally`` that no timeout bounds."""
    for function in module.coroutines:
        reported: set[ast.AST] = set()
        for block in module.own(function):
            if not isinstance(block, ast.Try | ast.TryStar) or not block.finalbody:
                continue
            for node in _unbounded(module, block.finalbody, function, depth=0):
                if node not in reported:  # one `finally` may stand in another
                    reported.add(node)
                    yield Sighting(node, f"{_description(node)} in `finally`, without a bound")


def _unbounded(
    module: Module, block: list[ast.stmt], function: ast.AST, *, depth: int
) -> Iterator[ast.expr | ast.stmt]:
    for node in with_inside(*block):
        match node:
            case ast.Await():
                bound = _ends_by_itself(module, node.value, depth)
            case ast.AsyncWith():
                bound = all(is_scope(item.context_expr) for item in node.items)  # waits for nothing
            case ast.AsyncFor():
                bound = False
            case _:
                continue
        if not bound and not is_bounded(module, node, up_to=function):
            yield node


def _ends_by_itself(module: Module, value: ast.expr, depth: int) -> bool:
    """Whether an awaited call has a bound: of its own, or in the function here that it calls."""
    if bounds_itself(module, value):
        return True
    if not isinstance(value, ast.Call) or depth >= _DEEPEST:
        return False
    called = _function_called(module, value)
    return called is not None and not any(_unbounded(module, called.body, called, depth=depth + 1))


def _function_called(module: Module, call: ast.Call) -> Function | None:
    """Return the function of this module that a call runs, if that is certain."""
    name = ""
    block: list[ast.stmt] = []
    match call.func:
        case ast.Name():
            name = module.names.resolve(call.func)
            block = module.tree.body if name.startswith(HERE) else []
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.class_of(call)
            block = [] if owner is None else owner.body
        case ast.Attribute(value=value, attr=name):
            kind = module.names.kind(value)
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and HERE + node.name == kind:
                    block = node.body
        case _:
            pass
    return _find(module, block, name.removeprefix(HERE))


def _find(module: Module, block: list[ast.stmt], name: str) -> Function | None:
    found = [
        node
        for node in block
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    # What an ordinary `def` returns may be anything.
    is_certain = len(found) == 1 and found[0] in module.coroutines
    return found[0] if is_certain else None


def _description(node: ast.AST) -> str:
    match node:
        case ast.Await(value=ast.Call(func=func)) if chain(func):
            return f"`await {chain(func)}(...)`"
        case ast.Await(value=value) if chain(value):
            return f"`await {chain(value)}`"
        case ast.AsyncWith():
            return "`async with`"
        case ast.AsyncFor():
            return "`async for`"
        case _:
            return "`await`"


RULE = Rule(
    name="unbounded-finally",
    why="It runs while a cancel or an error is on its way, and a peer that does not answer then"
    " holds the task, and the shutdown, for ever.",
    mend="Make the clean-up synchronous, or bound it:"
    " `async with asyncio.timeout(seconds)`, or `asyncio.wait(tasks, timeout=seconds)`.",
    look=look,
)
