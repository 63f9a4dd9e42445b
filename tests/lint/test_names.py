"""What a name stands for: imports, shadows, and what an attribute holds."""

import ast

import pytest

from millpond.lint._module import Module


def resolved(source: str) -> str:
    """Return what the argument of ``ask(...)`` resolves to."""
    module, node = asked(source)
    return module.names.resolve(node)


def kind(source: str) -> str:
    """Return the kind of the argument of ``ask(...)``."""
    module, node = asked(source)
    return module.names.kind(node)


def asked(source: str) -> tuple[Module, ast.expr]:
    """Find the argument of ``ask(...)``."""
    module = Module(ast.parse(source))
    (node,) = [
        node.args[0]
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ask"
    ]
    return module, node


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import asyncio\nask(asyncio.Event)", "asyncio.Event"),
        ("import asyncio as aio\nask(aio.Event)", "asyncio.Event"),
        ("from asyncio import Event as E\nask(E)", "asyncio.Event"),
        ("import asyncio.locks\nask(asyncio.locks.Event)", "asyncio.Event"),
        ("import os.path\nask(os.path.join)", "os.path.join"),
        ("import os.path as p\nask(p.join)", "os.path.join"),
        ("from millpond.sync._notify import Notify\nask(Notify)", "millpond.sync.Notify"),
        ("from . import locks\nask(locks.Event)", "..locks.Event"),
        ("ask(open)", "builtins.open"),
        ("class Own: ...\nask(Own)", "<here>.Own"),
        ("Own = make()\nask(Own)", ""),
        ("ask(unknown)", ""),
        ("ask(f().x)", ""),
    ],
)
def test_a_name_stands_for_what_was_imported(source: str, expected: str) -> None:
    """Under whatever name; a name that is not understood stands for nothing."""
    assert resolved(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "def f(open): ask(open)",
        "def f():\n    open = 3\n    ask(open)",
        "def f():\n    for open in x: ask(open)",
        "def f(open):\n    def g(): ask(open)",
        "try:\n    pass\nexcept E as open:\n    ask(open)",
        "def f():\n    with x as open: ask(open)",
        "lambda open: ask(open)",
    ],
)
def test_what_is_bound_nearer_shadows(source: str) -> None:
    """Parameters, assignments, loops, handlers, functions around."""
    assert not resolved(source)


def test_the_body_of_a_class_is_no_scope_for_its_methods() -> None:
    """As in Python: a method called `open` does not hide the builtin from the others."""
    source = "class A:\n    def open(self): ...\n    def f(self): ask(open)"
    assert resolved(source) == "builtins.open"


@pytest.mark.parametrize("head", ["@ask(open)\ndef f(open): ...", "def f(open=ask(open)): ..."])
def test_the_head_of_a_function_is_outside_of_it(head: str) -> None:
    """Decorators and defaults are looked at where the function is made."""
    assert resolved(head) == "builtins.open"


def test_an_import_inside_a_function_is_known_there_only() -> None:
    """Two functions may mean two things."""
    here = "def f():\n    from asyncio import sleep\n    ask(sleep)"
    assert resolved(here) == "asyncio.sleep"
    assert not resolved(here.replace("    ask(sleep)", "    sleep") + "\nask(sleep)")


IMPORTS = "import asyncio, threading\nfrom dataclasses import dataclass, field\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("e = asyncio.Event()\nask(e)", "asyncio.Event"),
        ("e = asyncio.Queue[int]()\nask(e)", "asyncio.Queue"),
        ("def f(e: asyncio.Event): ask(e)", "asyncio.Event"),
        ("def f(e: 'asyncio.Event | None'): ask(e)", "asyncio.Event"),
        ("def f(e: asyncio.Event | None = None): ask(e)", "asyncio.Event"),
        ("def f(e: asyncio.Event | threading.Event): ask(e)", ""),
        ("def f(e: 'not valid ('): ask(e)", ""),
        ("def f(e): ask(e)", ""),
        ("e = None\ne = asyncio.Event()\nask(e)", "asyncio.Event"),
        ("e = make()\ne = asyncio.Event()\nask(e)", ""),
        ("e = asyncio.Event()\ne = threading.Event()\nask(e)", ""),
        ("a, e = 1, asyncio.Event()\nask(e)", "asyncio.Event"),
        ("a, e = make()\nask(e)", ""),
        ("with threading.Lock() as e: ask(e)", "threading.Lock"),
        ("e = asyncio.Event()\ndef f():\n    g = e\n    ask(g)", "asyncio.Event"),
        ("a = b\nb = a\nask(a)", ""),
    ],
)
def test_the_kind_of_a_variable(source: str, expected: str) -> None:
    """By what made it, or its annotation; two ways that differ make it unknown."""
    assert kind(IMPORTS + source) == expected


@pytest.mark.parametrize(
    ("body", "asking", "expected"),
    [
        ("def __init__(self): self.e = asyncio.Event()", "self.e", "asyncio.Event"),
        ("def __init__(self, e: asyncio.Event): self.e = e", "self.e", "asyncio.Event"),
        ("e: asyncio.Event", "self.e", "asyncio.Event"),
        ("e: asyncio.Event = field(default_factory=asyncio.Event)", "self.e", "asyncio.Event"),
        ("e = field(default_factory=asyncio.Event)", "self.e", ""),
        ("def __init__(self): self.e: asyncio.Event | None = None", "self.e", "asyncio.Event"),
        ("def __init__(self): self.e = asyncio.Event()", "other.e", "asyncio.Event"),
        ("def __init__(self): self.e = asyncio.Event()", "other.f", ""),
        ("def __init__(self): self.e = make()", "self.e", ""),
    ],
)
def test_the_kind_of_an_attribute(body: str, asking: str, expected: str) -> None:
    """Also of another object, where all classes of the module agree on it."""
    source = f"{IMPORTS}class A:\n    {body}\n    async def f(self, other): ask({asking})"
    assert kind(source) == expected


def test_classes_that_disagree_make_an_attribute_unknown() -> None:
    """Except for the object that says which class it is of."""
    two = (
        f"{IMPORTS}class A:\n    def __init__(self): self.e = asyncio.Event()\n"
        "class B:\n    def __init__(self): self.e = threading.Event()\n"
        "    def f(self, other): ask({})"
    )
    assert kind(two.format("self.e")) == "threading.Event"
    assert not kind(two.format("other.e"))
