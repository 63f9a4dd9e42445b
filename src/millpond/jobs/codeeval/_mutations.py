"""Completions that are wrong in a way that is certain beforehand.

Each takes a problem's canonical solution and spoils it so that the program ends in
one class and no other, whatever the problem is about:

- A *syntax error*, an *exception* or an *endless loop* is put before the first
  statement of the solution: the tests reach it as soon as they call the function.
- A *wrong value* needs more care. Changing a constant may change nothing that the
  tests look at; changing each ``return`` of a recursive function may cancel out; a
  value of another type ends in a TypeError. So the right solution stays, a wrapper
  takes its place, and what it returns is replaced by a value of the same shape
  that differs in every part, so that a test which looks at one part only sees it.
  The right solution works on copies, because a function may do its work on its
  arguments. Calls by which it calls itself are redirected to the right solution.
"""

import ast
import re

from millpond.jobs.codeeval._problems import INDENT, Problem, parse

SYNTAX_ERRORS = (
    "result = (",  # never closed
    "if True",  # no colon
    "for in range(3):",
    "return return",
)

EXCEPTIONS = (
    "undefined_name",
    "[][0]",
    "1 // 0",
    "None + 1",
)

_ENDLESS_LOOP = "while True:\n{indent}    pass"

_RIGHT = "_right_solution"

_WRAPPER = '''

import copy as _copy

{right} = {name}


def _spoil(value):
    """Return a value of the same shape that differs in every part."""
    if value is None:
        return 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        more = value + 1 + abs(value)
        return more if more > value else 0
    if isinstance(value, (str, bytes)):
        one, mark = ("1", "?") if isinstance(value, str) else (b"1", b"?")
        return value + (one if value[-1:].isdigit() else mark)
    if isinstance(value, tuple):
        make = getattr(value, "_make", tuple)
        return make(map(_spoil, value)) if value else (0,)
    if isinstance(value, list):
        return [_spoil(part) for part in value + value[-1:]] or [0]
    if isinstance(value, (set, frozenset)):
        other = type(value)(map(_spoil, value))
        return other if other != value else other | {{2}}
    if isinstance(value, dict):
        other = _copy.copy(value)
        for key, part in value.items():
            other[key] = _spoil(part)
        for key in list(value)[-1:]:
            other.setdefault(_spoil(key), value[key])
        return other if other != value else {{0: 0}}
    if hasattr(value, "__next__"):
        return map(_spoil, value)
    if callable(value):
        return lambda *args, **kwargs: _spoil(value(*args, **kwargs))
    try:
        return value + 1 + abs(value)
    except TypeError:
        return None


def {name}(*args, **kwargs):
    copies = (_copy.deepcopy(a) if isinstance(a, (list, dict, set)) else a for a in args)
    return _spoil({right}(*copies, **kwargs))
'''


def break_syntax(problem: Problem, variant: int) -> str:
    """Return a completion that Python refuses to compile."""
    return _insert(problem, SYNTAX_ERRORS[variant % len(SYNTAX_ERRORS)])


def raise_exception(problem: Problem, variant: int) -> str:
    """Return a completion that raises, and never an AssertionError."""
    return _insert(problem, EXCEPTIONS[variant % len(EXCEPTIONS)])


def loop_endlessly(problem: Problem) -> str:
    """Return a completion that never comes back."""
    return _insert(problem, _ENDLESS_LOOP)


def return_wrong_value(problem: Problem) -> str:
    """Return a completion whose result is wrong for every argument."""
    return _redirect_recursion(problem) + _WRAPPER.format(right=_RIGHT, name=problem.entry_point)


def _insert(problem: Problem, statement: str) -> str:
    """Put *statement* before the first line of code of the canonical solution."""
    body = problem.canonical_solution
    first = re.search(r"^([ \t]*)[^\s#]", body, re.MULTILINE)
    if first is None:  # nothing but comments: the body is the docstring
        return f"\n{INDENT}{statement.format(indent=INDENT)}\n"
    start, indent = first.start(), first[1]
    return f"{body[:start]}{indent}{statement.format(indent=indent)}\n{body[start:]}"


def _redirect_recursion(problem: Problem) -> str:
    """Make the canonical solution call `_RIGHT` where it calls itself."""
    name, body = problem.entry_point, problem.canonical_solution
    program = problem.prompt + body
    tree = parse(program)
    if tree is None:
        return body  # it cannot be called anyway
    if any(_binds_locally(node, name) for node in ast.walk(tree)):
        return body  # not a call of itself
    source, start = program.encode(), len(problem.prompt.encode())
    line_starts = [0]
    for line in source.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    calls = [  # the parser counts lines from 1, columns in bytes from 0
        line_starts[node.lineno - 1] + node.col_offset
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name
    ]
    length = len(name.encode())
    for call in sorted((c for c in calls if c >= start), reverse=True):
        source = source[:call] + _RIGHT.encode() + source[call + length :]
    return source[start:].decode()


def _binds_locally(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.arg):
        return node.arg == name
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
