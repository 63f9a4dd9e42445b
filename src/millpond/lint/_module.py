"""One parsed source file, and how to move in it."""

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias, cast

from millpond.lint._names import Function, Names, Scope, chain

Loop: TypeAlias = ast.While | ast.For | ast.AsyncFor
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
BARRIERS = (*FUNCTIONS, ast.ClassDef)
EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Module:
    """A file's tree, with the way up from each node."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._parents: dict[ast.AST, ast.AST] = {}
        # Of each statement: its block, its index there, and the block's field above.
        self._places: dict[ast.AST, tuple[list[ast.stmt], int, str]] = {}
        self._scopes: dict[ast.AST, Scope] = {}
        self._own: dict[ast.AST, list[ast.AST]] = {}
        # In source order, as far as a tree has one.
        self.nodes: list[ast.AST] = []
        self._read_tree()
        self.names = Names(tree, self.nodes, self.scope_of, self.class_of)

    def _read_tree(self) -> None:
        # Not recursive: a long chain of operators is deeper than Python's stack.
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            self.nodes.append(node)
            below: list[ast.AST] = []
            for name, value in ast.iter_fields(node):
                if isinstance(value, ast.AST):
                    below.append(value)
                elif isinstance(value, list):
                    self._read_list(cast("list[object]", value), name, below)
            for child in below:
                self._parents[child] = node
            pending.extend(reversed(below))

    def _read_list(self, values: list[object], field: str, below: list[ast.AST]) -> None:
        block = [value for value in values if isinstance(value, ast.stmt)]
        for index, statement in enumerate(block):
            self._places[statement] = (block, index, field)
        below.extend(value for value in values if isinstance(value, ast.AST))

    @cached_property
    def coroutines(self) -> list[ast.AsyncFunctionDef]:
        """Every ``async def``."""
        return [node for node in self.nodes if isinstance(node, ast.AsyncFunctionDef)]

    @cached_property
    def functions(self) -> list[Function]:
        """Every ``def`` and ``async def``."""
        return [
            node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    # -- up

    def parent(self, node: ast.AST) -> ast.AST:
        """Return the node above; the module is above itself."""
        return self._parents.get(node, self.tree)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes above, up to the function or class that it belongs to, and that."""
        while node is not self.tree:
            node = self.parent(node)
            yield node
            if isinstance(node, BARRIERS):
                return

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the function, class or module in which *node* is looked at.

        What stands in the head of a function (decorators, defaults) is outside of it.
        """
        known = self._scopes.get(node)
        if known is None:
            known = self._scopes[node] = self._find_scope(node)
        return known

    def _find_scope(self, node: ast.AST) -> Scope:
        if node is self.tree:
            return self.tree
        above = self.parent(node)
        if isinstance(above, ast.Lambda) and node is above.body:
            return above
        if isinstance(above, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            place = self._places.get(node)
            # A decorator stands in a list too, but is no statement.
            if place is not None and place[2] == "body":
                return above
        return self.scope_of(above)

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the ``def`` around *node*."""
        scope: ast.AST = self.scope_of(node)
        while isinstance(scope, ast.Lambda):
            scope = self.scope_of(scope)
        return scope if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class around *node*, through any number of functions."""
        scope = self.scope_of(node)
        while not isinstance(scope, ast.ClassDef | ast.Module):
            scope = self.scope_of(scope)
        return scope if isinstance(scope, ast.ClassDef) else None

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that *node* is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parent(node)
        return node

    # -- down and sideways

    def own(self, root: ast.AST) -> list[ast.AST]:
        """Return what is below *root* and runs with it: not the insides of functions."""
        known = self._own.get(root)
        if known is None:
            known = self._own[root] = list(inside(root))
        return known

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements before, in the same block."""
        block, index, _ = self._places[statement]
        return block[:index]

    def after(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements after, in the same block."""
        block, index, _ = self._places[statement]
        return block[index + 1 :]

    def later(self, statement: ast.stmt, *, up_to: ast.AST) -> Iterator[ast.stmt]:
        """Yield what runs after *statement*, in its block and those around, inside *up_to*."""
        node: ast.AST = statement
        while node is not up_to and node is not self.tree:
            if isinstance(node, ast.stmt):
                yield from self.after(node)
            node = self.parent(node)


def inside(*roots: ast.AST) -> Iterator[ast.AST]:
    """Yield what is below *roots*, in source order, without the insides of functions."""
    pending: list[ast.AST] = []
    for root in reversed(roots):
        pending.extend(reversed(list(ast.iter_child_nodes(root))))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, BARRIERS):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def with_inside(*roots: ast.AST) -> Iterator[ast.AST]:
    """Yield *roots*, each followed by what is below it and runs with it."""
    for root in roots:
        yield root
        if not isinstance(root, BARRIERS):
            yield from inside(root)


def chains(*roots: ast.AST) -> set[str]:
    """Return the longest ``a.b.c`` of each name that is used in *roots*."""
    found: set[str] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        dotted = chain(node)
        if dotted:
            found.add(dotted)
        else:
            pending.extend(ast.iter_child_nodes(node))
    return found


def leaves(block: list[ast.stmt]) -> bool:
    """Whether a block ends by going elsewhere."""
    return bool(block) and isinstance(block[-1], EXITS)
