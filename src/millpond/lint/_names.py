"""What a name stands for: the thing it was imported as, and the kind of object it holds.

Nothing is imported or run. A name that is bound in two ways, or in a way that is not
understood, stands for nothing: a rule that needs it stays silent.
"""

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

HERE = "<here>."
"""Before the name of a class or function of the module itself."""
UNKNOWN = "?"

_BUILTINS = frozenset(dir(builtins))
_INNER = re.compile(
    r"^(?P<front>asyncio|millpond\.sync)\."
    r"(?:locks|tasks|timeouts|queues|exceptions|subprocess|_\w+)\.(?=[A-Z]|wait|sleep|shield|time)"
)
_ANNOTATED_OPTIONAL = ("typing.Optional", "typing.Final", "typing.ClassVar", "typing.Annotated")


def chain(node: ast.AST) -> str:
    """Return ``a.b.c`` for such an expression, else an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def last(dotted: str) -> str:
    """Return the part behind the last dot."""
    return dotted.rpartition(".")[2]


class Names:
    """The bindings of one module."""

    def __init__(
        self,
        tree: ast.Module,
        nodes: list[ast.AST],
        scope_of: Callable[[ast.AST], Scope],
        class_of: Callable[[ast.AST], ast.ClassDef | None],
    ) -> None:
        self._tree = tree
        self._scope_of = scope_of
        self._class_of = class_of
        self._imports: defaultdict[Scope, dict[str, str]] = defaultdict(dict)
        self._defined: set[str] = set()  # classes and functions of the module itself
        self._bound: defaultdict[Scope, set[str]] = defaultdict(set)
        self._passed_on: defaultdict[Scope, set[str]] = defaultdict(set)
        self._values: defaultdict[tuple[Scope, str], list[ast.expr | None]] = defaultdict(list)
        self._annotations: defaultdict[tuple[Scope, str], list[ast.expr]] = defaultdict(list)
        # By class and attribute; the scope is where the value's own names are looked up.
        self._held: defaultdict[tuple[ast.ClassDef, str], list[tuple[ast.expr, ast.AST, bool]]] = (
            defaultdict(list)
        )
        self._holders: defaultdict[str, set[ast.ClassDef]] = defaultdict(set)
        for node in nodes:
            self._learn(node)

    # -- collecting

    def _learn(self, node: ast.AST) -> None:  # noqa: C901, PLR0912 - a case per kind of binding
        match node:
            case ast.Import() | ast.ImportFrom():
                self._learn_import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                if not isinstance(node, ast.Lambda):
                    self._learn_definition(node)
                for argument in _arguments(node):
                    self._bound[node].add(argument.arg)
                    if argument.annotation is not None:
                        self._annotations[node, argument.arg].append(argument.annotation)
                    else:
                        self._values[node, argument.arg].append(None)
            case ast.ClassDef():
                self._learn_definition(node)
            case ast.Global() | ast.Nonlocal():
                self._passed_on[self._scope_of(node)].update(node.names)
            case ast.ExceptHandler(name=str(name)):
                self._bound[self._scope_of(node)].add(name)
            case ast.Assign():
                for target in node.targets:
                    self._learn_value(target, node.value)
            case ast.NamedExpr():
                self._learn_value(node.target, node.value)
            case ast.AnnAssign():
                self._learn_annotation(node)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        self._learn_value(item.optional_vars, item.context_expr)
            case ast.Name(ctx=ast.Store() | ast.Del()):
                self._bound[self._scope_of(node)].add(node.id)
            case _:
                pass

    def _learn_definition(self, node: Function | ast.ClassDef) -> None:
        scope = self._scope_of(node)
        self._bound[scope].add(node.name)
        if scope is self._tree:
            self._defined.add(node.name)

    def _learn_import(self, node: ast.Import | ast.ImportFrom) -> None:
        table = self._imports[self._scope_of(node)]
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.partition(".")[0]
                table[alias.asname or head] = alias.name if alias.asname else head
        else:
            front = "." * node.level + (node.module or "")
            for alias in node.names:
                table[alias.asname or alias.name] = f"{front}.{alias.name}"

    def _learn_value(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._values[self._scope_of(target), target.id].append(value)
        elif isinstance(target, ast.Attribute) and chain(target.value) in {"self", "cls"}:
            owner = self._class_of(target)
            if owner is not None:
                self._hold(owner, target.attr, value, annotated=False)
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for index, part in enumerate(target.elts):
                if len(values) == len(target.elts):
                    self._learn_value(part, values[index])
                elif isinstance(part, ast.Name):
                    self._values[self._scope_of(part), part.id].append(None)

    def _learn_annotation(self, node: ast.AnnAssign) -> None:
        target = node.target
        owner = self._class_of(node)
        if isinstance(target, ast.Name):
            scope = self._scope_of(node)
            self._annotations[scope, target.id].append(node.annotation)
            if isinstance(scope, ast.ClassDef):
                self._hold(scope, target.id, node.annotation, annotated=True)
        elif isinstance(target, ast.Attribute) and chain(target.value) == "self" and owner:
            self._hold(owner, target.attr, node.annotation, annotated=True)

    def _hold(self, owner: ast.ClassDef, name: str, value: ast.expr, *, annotated: bool) -> None:
        self._held[owner, name].append((value, value, annotated))
        self._holders[name].add(owner)

    # -- asking

    def resolve(self, node: ast.AST) -> str:
        """Return the dotted name that an expression was imported as, else an empty text.

        Classes and functions of the module itself begin with `HERE`.
        """
        dotted = chain(node)
        if not dotted:
            return ""
        head, dot, rest = dotted.partition(".")
        found = self._resolve_head(head, self._scope_of(node))
        return _INNER.sub(r"\g<front>.", f"{found}{dot}{rest}") if found else ""

    def _resolve_head(self, name: str, scope: Scope) -> str:
        first = True
        while True:
            # The body of a class is no scope for the functions in it.
            if first or not isinstance(scope, ast.ClassDef):
                known = self._imports[scope].get(name)
                if known is not None:
                    return known
                if name in self._bound[scope] and name not in self._passed_on[scope]:
                    is_here = (
                        scope is self._tree
                        and name in self._defined
                        and (scope, name) not in self._values
                    )
                    return HERE + name if is_here else ""
            if scope is self._tree:
                return f"builtins.{name}" if name in _BUILTINS else ""
            first = False
            scope = self._scope_of(scope)

    def kind(self, node: ast.AST, *, depth: int = 0) -> str:
        """Return what an expression was made by or is annotated as, else an empty text.

        ``asyncio.Event`` for an attribute that was assigned ``asyncio.Event()``.
        """
        if depth > 4:  # noqa: PLR2004 - a name for a name for a name ... of itself
            return ""
        match node:
            case ast.Call(func=ast.Subscript(value=made)) | ast.Call(func=made):
                if last(chain(made)) == "field":
                    for keyword in node.keywords:
                        if keyword.arg == "default_factory":
                            return self.resolve(keyword.value)
                return self.resolve(made)
            case ast.Name():
                return self._kind_of_name(node, depth)
            case ast.Attribute():
                return self._kind_of_attribute(node, depth)
            case _:
                return ""

    def _kind_of_name(self, node: ast.Name, depth: int) -> str:
        scope = self._scope_of(node)
        while node.id not in self._bound[scope] or node.id in self._passed_on[scope]:
            if scope is self._tree:
                return ""
            scope = self._scope_of(scope)
        annotated = [self._of_annotation(it) for it in self._annotations[scope, node.id]]
        values = [] if annotated else self._values[scope, node.id]
        return _only([*annotated, *(self._of_value(value, depth) for value in values)])

    def _kind_of_attribute(self, node: ast.Attribute, depth: int) -> str:
        owner = self._class_of(node) if chain(node.value) in {"self", "cls"} else None
        if owner is None or owner not in self._holders[node.attr]:
            # Somebody else's attribute: known if all classes here that have it agree.
            owners = self._holders[node.attr]
        else:
            owners = {owner}
        kinds: list[str] = []
        for holder in owners:
            held = self._held[holder, node.attr]
            annotations = [value for value, _, annotated in held if annotated]
            if annotations:
                kinds += [self._of_annotation(value) for value in annotations]
            else:
                kinds += [self._of_value(value, depth) for value, _, _ in held]
        return _only(kinds)

    def _of_value(self, value: ast.expr | None, depth: int) -> str:
        if isinstance(value, ast.Constant) and value.value is None:
            return ""
        if value is None:
            return UNKNOWN
        return self.kind(value, depth=depth + 1) or UNKNOWN

    def _of_annotation(self, node: ast.expr) -> str:  # noqa: PLR0911 - a case per form
        match node:
            case ast.Constant(value=str(text)):
                with suppress(SyntaxError):
                    inner = ast.parse(text, mode="eval").body
                    return self._of_parsed(inner)
                return UNKNOWN
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return _only([self._of_annotation(left), self._of_annotation(right)]) or UNKNOWN
            case ast.Constant(value=None):
                return ""
            case ast.Subscript(value=value, slice=inside):
                outer = self.resolve(value)
                if outer in _ANNOTATED_OPTIONAL:
                    parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                    return self._of_annotation(parts[0])
                return outer or UNKNOWN
            case _:
                return self.resolve(node) or UNKNOWN

    def _of_parsed(self, node: ast.expr) -> str:
        """Resolve an annotation that was written as a text: its names are the module's."""
        if isinstance(node, ast.BinOp):
            return _only([self._of_parsed(node.left), self._of_parsed(node.right)]) or UNKNOWN
        if isinstance(node, ast.Constant) and node.value is None:
            return ""
        if isinstance(node, ast.Subscript):
            node = node.value
        head, dot, rest = chain(node).partition(".")
        found = self._resolve_head(head, self._tree) if head else ""
        return f"{found}{dot}{rest}" if found else UNKNOWN

    def is_bound_in(self, scope: Scope, name: str) -> bool:
        """Whether *name* is a variable of that function, and not of one around it."""
        return name in self._bound[scope] and name not in self._passed_on[scope]


def _only(kinds: list[str]) -> str:
    found = {kind for kind in kinds if kind}
    return found.pop() if len(found) == 1 and UNKNOWN not in found else ""


def _arguments(node: Function | ast.Lambda) -> Iterator[ast.arg]:
    given = node.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
    for rest in (given.vararg, given.kwarg):
        if rest is not None:
            yield rest


def parameters(node: Function) -> set[str]:
    """Return the names of a function's parameters."""
    return {argument.arg for argument in _arguments(node)}
