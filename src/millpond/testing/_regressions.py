"""Schedules that failed once, kept in a file beside the test and tried first from then on.

One file per test, ``schedules/<test file>/<test>.txt``; a line is a schedule, a line that
begins with ``#`` says what it showed. The files are meant to be committed.
"""

import re
from pathlib import Path
from typing import final

from millpond.testing._counterexample import Counterexample
from millpond.testing._schedule import FORMAT

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@final
class Regressions:
    """The kept schedules of one test.

    Args:
        test_file: Where the test is.
        test: Its name within the file.
    """

    def __init__(self, test_file: Path, test: str) -> None:
        name = _UNSAFE.sub("_", test).strip("_")
        self.path = test_file.parent / "schedules" / test_file.stem / f"{name}.txt"

    def lines(self) -> list[str]:
        """Return the schedules, the newest first."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        kept = [line.strip() for line in text.splitlines()]
        return [line for line in reversed(kept) if line.startswith(f"{FORMAT} ")]

    def add(self, found: Counterexample) -> str | None:
        """Keep a schedule, once. Return what went wrong, if it could not be written."""
        if found.schedule in self.lines():
            return None
        fault = f"{type(found.fault).__name__}: {found.fault}".replace("\n", " ")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"# {fault}\n{found.schedule}\n")
        except OSError as error:
            return f"the schedule could not be kept in {self.path}: {error}"
        return None
