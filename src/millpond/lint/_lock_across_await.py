"""lock-across-await: a lock of the thread kind is held while other tasks run."""

import ast
import re
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module, inside, with_inside
from millpond.lint._names import chain, last

SYNC_LOCKS = frozenset(
    f"{module}.{name}"
    for module in ("threading", "multiprocessing", "_thread")
    for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock")
)
_LOCK_NAME = re.compile(r"(?:^|_)(?:r?lock|mutex)$", re.IGNORECASE)
SUSPENSIONS = (ast.Await, ast.AsyncWith, ast.AsyncFor)


def look(module: Module) -> Iterator[Sighting]:
    """Find awaits between taking and releasing a synchronous lock."""
    for function in module.coroutines:
        for node in module.own(function):
            if isinstance(node, ast.With):
                held = next(
                    (name for item in node.items if (name := _lock_of(module, item.context_expr))),
                    "",
                )
                spots = list(with_inside(*node.body)) if held else []
            elif isinstance(node, ast.Expr):
                held = _acquired(module, node)
                spots = list(_until_release(module, node, held)) if held else []
            else:
                continue
            spot = next((it for it in spots if _suspends(it)), None)
            if spot is not None:
                line = getattr(spot, "lineno", node.lineno)
                yield Sighting(node, f"`{held}` is held across the await in line {line}")


def _suspends(node: ast.AST) -> bool:
    return isinstance(node, SUSPENSIONS) or (
        isinstance(node, ast.comprehension) and bool(node.is_async)
    )


def _lock_of(module: Module, node: ast.expr) -> str:
    """Return the name of a synchronous lock, by what it was made by, else by its name."""
    name = chain(node)
    if not name:
        return ""
    kind = module.names.kind(node)
    if kind:
        return name if kind in SYNC_LOCKS else ""
    # A plain `with` is not possible with a lock of asyncio.
    return name if _LOCK_NAME.search(last(name)) else ""


def _acquired(module: Module, statement: ast.Expr) -> str:
    match statement.value:
        case ast.Call(func=ast.Attribute(value=lock, attr="acquire")):
            return chain(lock) if module.names.kind(lock) in SYNC_LOCKS else ""
        case _:
            return ""


def _until_release(module: Module, statement: ast.stmt, lock: str) -> Iterator[ast.AST]:
    for follower in module.after(statement):
        for node in (follower, *inside(follower)):
            if isinstance(node, ast.Call) and chain(node.func) == f"{lock}.release":
                return
            yield node


RULE = Rule(
    name="lock-across-await",
    why="Whoever wants the lock meanwhile blocks the whole event loop, also the task that would"
    " release it.",
    mend="Change the state in a plain `def` under the lock, leave the `with`, and await after it.",
    look=look,
)
