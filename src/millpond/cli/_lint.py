"""``millpond lint``: what goes wrong with waiting in asyncio code."""

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from millpond.cli._exit import Exit, put, say
from millpond.errors import InputError
from millpond.lint import RULES, Finding, check_file, python_files


def lint(
    *paths: Path,
    rule: Annotated[Sequence[str], Parameter(consume_multiple=True, negative="")] = (),
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> Exit:
    """Check asyncio code for waits that lose wake-ups, hang, or block the loop.

    Exit codes: 0 nothing found; 1 something found; 2 wrong usage.

    Args:
        paths: Python files, or folders with some.
        rule: Look for these only; else for all.
        json_: Print one JSON object.
    """
    if not paths:
        msg = "nothing to check"
        raise InputError(msg, hint="name files or folders: `millpond lint src`")
    for name in rule:
        if name not in RULES:
            near = difflib.get_close_matches(name, RULES)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(RULES)}"
            msg = f"there is no rule {name!r}"
            raise InputError(msg, where="--rule", hint=hint)
    files = python_files(paths)
    chosen = tuple(dict.fromkeys(rule)) or None
    findings = [found for file in files for found in check_file(file, chosen)]
    if json_:
        rows = [found.facts() for found in findings]
        put(json.dumps({"schema": 1, "files": len(files), "findings": rows}))
    else:
        _print(findings)
        count = f"{len(files)} file{'' if len(files) == 1 else 's'} checked"
        if findings:
            by_rule = Counter(found.rule for found in findings).most_common()
            say(f"{count}; found: {', '.join(f'{n} {name}' for name, n in by_rule)}")
        else:
            say(f"{count}, nothing found")
    return Exit.ITEMS_FAILED if findings else Exit.OK


def _print(findings: Sequence[Finding]) -> None:
    for path, group in groupby(findings, key=lambda found: found.path):
        put(path)
        for found in group:
            put(f"  {found.path}:{found.line}:{found.column} {found.rule}: {found.what}")
            put(f"    why:  {found.why}")
            put(f"    mend: {found.mend}")
        put("")
