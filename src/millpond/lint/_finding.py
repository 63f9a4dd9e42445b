"""What a rule is, and what it finds."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from millpond.lint._module import Module


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place that a rule objects to."""

    path: str
    line: int
    column: int
    """From 1, as editors count."""
    rule: str
    what: str
    why: str
    """One sentence: what goes wrong."""
    mend: str
    """One sentence: what to write instead."""

    def facts(self) -> dict[str, object]:
        """Return it for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@final
@dataclass(frozen=True, slots=True)
class Sighting:
    """What a rule yields: a place, and what is there."""

    node: ast.stmt | ast.expr
    what: str
    why: str = ""
    """Empty: that of the rule."""
    mend: str = ""
    """The same."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One pattern that is forbidden."""

    name: str
    why: str
    mend: str
    look: "Callable[[Module], Iterator[Sighting]]"
