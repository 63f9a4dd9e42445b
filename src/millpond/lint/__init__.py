"""Looks for what goes wrong with waiting in asyncio code, without running it.

Each rule sees one pattern, is silent where it is not certain, and says with each finding
why it matters and what to write instead. `docs/lint.md` tells what each rule sees.

A line is excepted by a comment, whose reason is required::

    with self._lock:  # millpond: allow lock-across-await - held by no other thread
"""

from millpond.lint._check import RULES, check_file, check_source
from millpond.lint._files import python_files
from millpond.lint._finding import Finding, Rule

__all__ = ["RULES", "Finding", "Rule", "check_file", "check_source", "python_files"]
