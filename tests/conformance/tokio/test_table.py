"""The table of tokio's names is complete, and what it calls ported is a real test."""

import ast
from pathlib import Path

import pytest

from tests.conformance.tokio_names import PORTED, TOKIO

HERE = Path(__file__).parent

FEWEST_PORTED = 180
"""For the primitives; `CancellationToken` comes on top."""

LARGEST_SHARE_LEFT_OUT = 1 / 4

PRIMITIVES = ("notify", "mpsc", "broadcast", "watch", "oneshot", "semaphore")

MARKS_OF_A_TEST = frozenset(
    {
        "asked",
        "cancelled_at_every_turn",
        "closed_with_a_slot",
        "during_close",
        "grown",
        "in_every_order",
        "pending",
        "ready",
        "refused_then_over",
        "run_virtual",
        "sent_or_returned",
    }
)
"""Functions that expect something themselves."""

Test = ast.FunctionDef | ast.AsyncFunctionDef


def name_of_port(name: str) -> str:
    """Return the name that the port of a test has."""
    return name if name.startswith("test_") else f"test_{name}"


def ports_of(area: str) -> list[Test]:
    """Return the tests of a file, in its order."""
    tree = ast.parse((HERE / f"test_{area}.py").read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, Test) and node.name.startswith("test_")]


def expects_something(test: Test) -> bool:
    """Whether a test asserts, expects an error, or calls something that does."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in MARKS_OF_A_TEST | {"pytest.raises"} or called.startswith("test_"):
                return True
    return False


@pytest.mark.parametrize("area", TOKIO)
def test_every_ported_name_is_a_test_and_every_test_is_in_the_table(area: str) -> None:
    """Neither side has a name that the other lacks, and none is there twice."""
    ported = [name_of_port(name) for name, fate in TOKIO[area].items() if fate == PORTED]
    written = [test.name for test in ports_of(area)]
    assert len(written) == len(set(written))
    assert sorted(written) == sorted(ported)


@pytest.mark.parametrize("area", TOKIO)
def test_every_ported_test_expects_something(area: str) -> None:
    """A name is not ported by an empty body."""
    assert [test.name for test in ports_of(area) if not expects_something(test)] == []


def test_enough_names_are_ported() -> None:
    """At least the agreed number, and at most the agreed share is left out."""
    fates = [fate for area in PRIMITIVES for fate in TOKIO[area].values()]
    assert fates.count(PORTED) >= FEWEST_PORTED
    assert len(fates) - fates.count(PORTED) <= LARGEST_SHARE_LEFT_OUT * len(fates)


def test_every_name_that_is_left_out_has_a_reason() -> None:
    """A sentence, not a mark."""
    reasons = {fate for area in TOKIO.values() for fate in area.values()} - {PORTED}
    assert all(len(reason.split()) > 5 for reason in reasons)


def test_there_is_a_file_for_each_area_and_no_other() -> None:
    """No file of ports escapes the table."""
    files = {path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")}
    assert files == {*TOKIO, "table"}
