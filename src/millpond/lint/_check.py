"""Runs the rules over sources, and weighs what the author allows."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

from millpond.lint import (
    _banned_primitive,
    _blocking_call,
    _check_once,
    _copied_loop,
    _late_cancel,
    _lock_across_await,
    _notify_as_counter,
    _notify_before_publish,
    _poll_stop,
    _timeout_as_success,
    _unbounded_finally,
)
from millpond.lint._allow import Allow, allows
from millpond.lint._finding import Finding, Rule
from millpond.lint._module import Module

RULES: dict[str, Rule] = {
    module.RULE.name: module.RULE
    for module in (
        _check_once,
        _poll_stop,
        _late_cancel,
        _notify_as_counter,
        _copied_loop,
        _timeout_as_success,
        _lock_across_await,
        _banned_primitive,
        _blocking_call,
        _unbounded_finally,
        _notify_before_publish,
    )
}
"""By name."""

UNREADABLE = "unreadable"
BAD_ALLOW = "bad-allow"
UNUSED_ALLOW = "unused-allow"
_COROUTINE = re.compile(r"\basync\b|\bnotify_|\basyncio\b")


def check_file(path: Path, rules: Collection[str] | None = None) -> list[Finding]:
    """Check one file.

    Args:
        path: A Python source file.
        rules: Names of rules; None stands for all.

    Returns:
        What was found, by line. A file that cannot be read, decoded or parsed is a
        finding itself.

    Raises:
        KeyError: If there is no such rule.
    """
    try:
        text = _decode(path.read_bytes())
    except OSError as error:
        what = f"the file cannot be read: {error.strerror}"
        return [_unreadable(str(path), 1, 1, what)]
    except (SyntaxError, UnicodeDecodeError) as error:
        return [_unreadable(str(path), 1, 1, f"the file cannot be decoded: {error}")]
    return check_source(text, path=str(path), rules=rules)


def check_source(
    source: str, *, path: str = "<source>", rules: Collection[str] | None = None
) -> list[Finding]:
    """Check the text of a file. As `check_file`, with *path* only shown.

    Raises:
        KeyError: If there is no such rule.

    Example:
        >>> from millpond.lint import check_source
        >>> code = '''
        ... import asyncio
        ... lock = asyncio.Semaphore(3)
        ... '''
        >>> [(it.line, it.column, it.rule) for it in check_source(code)]
        [(3, 8, 'banned-primitive')]
    """
    chosen = list(RULES.values()) if rules is None else [RULES[name] for name in rules]
    allowed = list(allows(source))
    findings: list[Finding] = []
    # Nearly all that is looked for is in a coroutine: other files need not be understood,
    # but must be seen to be Python.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a "\d" in foreign code is not our business
            tree = ast.parse(source, filename=path)
    except SyntaxError as error:
        what = f"the file is not Python {_version()}: {error.msg}"
        return [_unreadable(path, error.lineno or 1, error.offset or 1, what)]
    except (ValueError, RecursionError, MemoryError) as error:
        return [_unreadable(path, 1, 1, f"the file cannot be parsed: {error}")]
    if _COROUTINE.search(source):
        findings = list(_apply(Module(tree), chosen, path, allowed))
    findings += _look_at_allows(allowed, {rule.name for rule in chosen}, path)
    return sorted(findings, key=lambda found: (found.line, found.column, found.rule))


def _decode(raw: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _apply(module: Module, rules: list[Rule], path: str, allowed: list[Allow]) -> Iterator[Finding]:
    for rule in rules:
        for seen in rule.look(module):
            lines = _lines(seen.node)
            waived = False
            for allow in allowed:
                if allow.line in lines and rule.name in allow.rules and allow.reason:
                    allow.used.add(rule.name)
                    waived = True
            if not waived:
                yield Finding(
                    path=path,
                    line=seen.node.lineno,
                    column=seen.node.col_offset + 1,
                    rule=rule.name,
                    what=seen.what,
                    why=seen.why or rule.why,
                    mend=seen.mend or rule.mend,
                )


def _lines(node: ast.stmt | ast.expr) -> range:
    """Return the lines in which a comment speaks of *node*: of a block only the head."""
    end = node.end_lineno or node.lineno
    body: list[ast.stmt] = getattr(node, "body", [])
    if isinstance(node, ast.stmt) and body:
        end = max(node.lineno, body[0].lineno - 1)
    return range(node.lineno, end + 1)


def _look_at_allows(allowed: list[Allow], ran: set[str], path: str) -> Iterator[Finding]:
    for allow in allowed:
        unknown = [name for name in allow.rules if name not in RULES]
        if not allow.rules:
            what = "this comment allows nothing that can be read"
        elif unknown:
            what = f"there is no rule `{unknown[0]}`"
        elif not allow.reason:
            what = f"no reason is given for allowing {', '.join(allow.rules)}"
        else:
            unused = [name for name in allow.rules if name in ran - allow.used]
            if unused:
                yield _meta(
                    path,
                    allow,
                    UNUSED_ALLOW,
                    f"`{', '.join(unused)}` finds nothing in this line",
                    "A comment that allows nothing hides the next mistake in its line.",
                    "Remove the comment, or move it to the line that is reported.",
                )
            continue
        yield _meta(
            path,
            allow,
            BAD_ALLOW,
            what,
            "An exception that gives no reason cannot be judged later.",
            "Write `# millpond: allow RULE - reason`, with rules parted by commas.",
        )


def _meta(path: str, allow: Allow, rule: str, what: str, why: str, mend: str) -> Finding:  # noqa: PLR0913, PLR0917 - a finding has so many
    return Finding(
        path=path, line=allow.line, column=allow.column, rule=rule, what=what, why=why, mend=mend
    )


def _unreadable(path: str, line: int, column: int, what: str) -> Finding:
    return Finding(
        path=path,
        line=line,
        column=max(1, column),
        rule=UNREADABLE,
        what=what,
        why="Nothing in this file was checked.",
        mend="Mend the file, or leave it out of the paths.",
    )


def _version() -> str:
    import platform  # noqa: PLC0415 - for one message

    return platform.python_version()
