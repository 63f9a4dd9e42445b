"""``# millpond: allow RULE - reason``: what the author of the code has judged."""

import io
import re
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import final

_MARK = re.compile(r"#\s*millpond:\s*allow\b(?P<rest>[^#]*)")
_REST = re.compile(r"^\s+(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*)(?:\s+-+\s*(?P<reason>.*?))?\s*$")


@final
@dataclass(slots=True)
class Allow:
    """One comment that allows findings in its line."""

    line: int
    column: int
    """From 1."""
    rules: tuple[str, ...]
    """Empty: the comment cannot be read."""
    reason: str
    used: set[str]


def allows(source: str) -> Iterator[Allow]:
    """Yield the comments of a file that allow something, also those that cannot be read."""
    if "millpond:" not in source:
        return
    # The source was parsed before; its tokenizer may still end early, at the very end.
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type != tokenize.COMMENT:
                continue
            marked = _MARK.search(token.string)
            if marked is None:
                continue
            read = _REST.match(marked["rest"])
            rules = re.split(r"\s*,\s*", read["rules"]) if read else []
            reason = (read["reason"] or "").strip() if read else ""
            column = token.start[1] + marked.start() + 1
            yield Allow(token.start[0], column, tuple(rules), reason, set())
