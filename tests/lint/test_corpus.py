"""Every rule on snippets: what it must see, and what is close to it and right."""

from pathlib import Path

import pytest

from millpond.lint import RULES, check_file

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*/*.py"))
LEAST_BAD = 3
LEAST_GOOD = 4


def name_of(path: Path) -> str:
    """Return what a test is called by."""
    return f"{path.parent.name}/{path.stem}"


def marked(path: Path) -> list[int]:
    """Return the lines that say of themselves that they are bad."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# BAD")]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_exactly_the_marked_lines_are_found(path: Path) -> None:
    """In a bad file each marked line by its rule, in a good one nothing, by any rule."""
    rule = path.parent.name
    expected = [(line, rule) for line in marked(path)]
    assert bool(expected) == path.name.startswith("bad_"), "a bad file marks its lines"
    assert [(found.line, found.rule) for found in check_file(path)] == expected


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_both_sides(rule: str) -> None:
    """At least three snippets that it must see, and four close to them that it must not."""
    names = [path.name for path in FILES if path.parent.name == rule]
    assert sum(name.startswith("bad_") for name in names) >= LEAST_BAD
    assert sum(name.startswith("good_") for name in names) >= LEAST_GOOD


def test_every_snippet_belongs_to_a_rule() -> None:
    """No folder is left of a rule that is gone."""
    assert {path.parent.name for path in FILES} == set(RULES)
