"""The table of the waiting contract is complete, and what it points to exists."""

import ast
from pathlib import Path

import pytest

from millpond.lint import RULES
from tests.sync import test_matrix
from tests.sync.seed_table import FORBIDDEN, INVARIANTS, LINT_RULES, REVIEW, TABLE, Held

ROOT = Path(__file__).parents[2]

NAMED_TESTS = sorted({test for held in TABLE.values() for test in held.tests})


def test_every_item_has_an_entry() -> None:
    """Six invariants, five forbidden patterns, nine items for reviews; nothing else."""
    wanted = [
        f"{section}.{number}"
        for section, count in ((2, INVARIANTS), (4, FORBIDDEN), (7, REVIEW))
        for number in range(1, count + 1)
    ]
    assert list(TABLE) == wanted


@pytest.mark.parametrize("held", TABLE.values(), ids=TABLE)
def test_every_item_is_held_by_something(held: Held) -> None:
    """Tests, rules that exist, or a reason."""
    assert held.says.strip()
    assert held.tests or held.rules or held.reason.strip()
    assert set(held.rules) <= LINT_RULES


def test_the_rules_are_those_of_the_lint() -> None:
    """By the names that it knows."""
    assert set(RULES) == LINT_RULES


@pytest.mark.parametrize("name", NAMED_TESTS)
def test_every_named_test_exists(name: str) -> None:
    """By its file and its function; a row of the matrix by its id too."""
    path, _, function = name.partition("::")
    function, _, row = function.partition("[")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert function in functions
    if row:
        assert path == "tests/sync/test_matrix.py"
        assert row.removesuffix("]") in {str(entry.id) for entry in test_matrix.TABLE}
