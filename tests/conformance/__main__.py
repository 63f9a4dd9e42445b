"""`python3 dev conformance`: the verdict of the outside judges, as a table or as JSON.

Exit code 1 when anything fails that is not listed, or when a list is out of date.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.cpython import judge
from tests.conformance.cpython.listed import LISTED
from tests.conformance.tokio_names import PORTED, TOKIO

TOKIO_TESTS: Final = Path(__file__).parent / "tokio"

USAGE: Final = """\
usage: python3 dev conformance [--json]

Runs tokio's tests of its synchronisation primitives, ported by name, and CPython's own tests
of locks and queues against stand-ins made of ours. --json prints one object to stdout.
"""

Counts = dict[str, Any]


class Watcher:
    """A plugin of pytest that keeps which tests ran, and which of them failed."""

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test; a set-up or a clean-up that fails is a failure too."""
        name = report.nodeid.partition("[")[0]
        if report.when == "call":
            self.ran.add(name)
        if not report.passed:
            self.failed.add(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be read."""
        if not report.passed:
            self.failed.add(report.nodeid)


def judge_tokio() -> Counts:
    """Run the ports, and count."""
    watcher, output = Watcher(), io.StringIO()
    options = ["-q", "-p", "no:cacheprovider", "--override-ini=addopts=--import-mode=importlib"]
    with contextlib.redirect_stdout(output):  # stdout is for the verdict
        code = pytest.main([str(TOKIO_TESTS), *options], plugins=[watcher])
    if code:
        sys.stderr.write(output.getvalue())
    by_area = {
        area: {
            "listed": len(fates),
            "ported": sum(
                any(name.endswith(f"/test_{area}.py::{port(test)}") for name in watcher.ran)
                for test, fate in fates.items()
                if fate == PORTED
            ),
            "not_applicable": sum(fate != PORTED for fate in fates.values()),
            "failing": sum(f"/test_{area}.py" in name for name in watcher.failed),
        }
        for area, fates in TOKIO.items()
    }
    total = {
        key: sum(counts[key] for counts in by_area.values())
        for key in ("listed", "ported", "not_applicable")
    }
    # Also what fails about the table itself, and a run that did not come to its end.
    failing = len(watcher.failed) or int(code != pytest.ExitCode.OK)
    return {**total, "failing": failing, "by_area": by_area}


def port(name: str) -> str:
    """Return the name that the port of a test has."""
    return name if name.startswith("test_") else f"test_{name}"


def judge_cpython() -> Counts:
    """Run CPython's tests if they are here, and count."""
    folder = judge.find_tests()
    if folder is None:
        sys.stderr.write(f"{judge.not_found()}\n")
        return {"ran": 0, "passed": 0, "listed": LISTED, "failing": 0, "source": None}
    verdict = judge.run(folder)
    unlisted = [name for name in verdict.failed if name not in LISTED]
    outdated = [name for name in LISTED if name not in verdict.failed]
    for name in unlisted:
        sys.stderr.write(f"{name} failed:\n{verdict.failed[name]}\n")
    for name in outdated:
        sys.stderr.write(f"{name} is listed as failing, but it passed or is gone: unlist it\n")
    return {
        "ran": len(verdict.ran),
        "passed": len(verdict.passed),
        "listed": LISTED,
        "failing": len(unlisted) + len(outdated),
        "source": str(folder),
    }


def as_table(tokio: Counts, cpython: Counts) -> str:
    """Return the verdict for a reader."""
    columns = ("listed", "ported", "not_applicable", "failing")
    rows = [("tokio", *(column.replace("_", " ") for column in columns))]
    counts = [*tokio["by_area"].items(), ("together", tokio)]
    rows += [(name, *(str(row[column]) for column in columns)) for name, row in counts]
    lines = [f"{name:<18}" + "".join(f"{cell:>16}" for cell in cells) for name, *cells in rows]
    lines += ["", "CPython's own tests, " + (cpython["source"] or judge.not_found())]
    if cpython["source"]:
        failing = cpython["failing"]
        lines.append(f"{cpython['passed']} of {cpython['ran']} pass, {failing} fail unlisted")
        lines.append("listed as failing:")
        lines += [f"  {name}: {reason}" for name, reason in cpython["listed"].items()]
    return "\n".join(lines)


def main(
    arguments: Sequence[str],
    tokio: Callable[[], Counts] = judge_tokio,
    cpython: Callable[[], Counts] = judge_cpython,
) -> int:
    """Judge, and print the verdict. Return the exit code."""
    if arguments and arguments[0] in {"-h", "--help"}:
        sys.stdout.write(USAGE)
        return 0
    if list(arguments) not in ([], ["--json"]):
        sys.stderr.write(f"{USAGE}\ngot {' '.join(arguments)}\n")
        return 2
    verdict = {"tokio": tokio(), "cpython": cpython()}
    text = json.dumps(verdict) if arguments else as_table(**verdict)
    sys.stdout.write(f"{text}\n")
    return int(any(counts["failing"] for counts in verdict.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
