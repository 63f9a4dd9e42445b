"""Instructions per operation, which are the same whatever the neighbours do.

One interpreter under ``valgrind --tool=callgrind`` imports everything once, then forks a
child for each run. A case runs with few and with many operations; the difference, by
operation, is free of everything that is done once. Instructions show neither system
calls nor cache misses, so they stand beside the time, not in its place.
"""

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from benchmarks.harness import Case, Stopwatch

CHECKOUT = Path(__file__).resolve().parent.parent
FAILED = 9


class CannotCount(Exception):
    """Valgrind did not say what was asked."""


class LastSection:
    """Ends the process together with the section: what comes after it is not counted."""

    def __enter__(self) -> None:
        gc.collect()
        gc.freeze()  # what was there before must not be walked over by every collection

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if exc is None:
            os._exit(0)


def why_not() -> str:
    """Return why instructions cannot be counted here, or nothing."""
    return "" if shutil.which("valgrind") else "valgrind is not installed"


def count(suite: str, cases: Iterable[Case], *, full: bool) -> dict[str, float]:
    """Return the instructions per operation of *cases* of *suite*, by name.

    Args:
        suite: What the child makes the cases from.
        cases: Of that suite.
        full: Whether they are of the full suite.

    Raises:
        CannotCount: If valgrind or a case failed.
    """
    each = list({case.name: case for case in cases}.values())
    # The dearest set-ups are last in a suite: dealing them out shares them fairly.
    processes = os.cpu_count() or 1
    hands = [each[start::processes] for start in range(processes)]
    command = [sys.executable, "-m", "benchmarks.callgrind", suite, "full" if full else "quick"]
    with ThreadPoolExecutor() as pool:
        parts = [pool.submit(_count, command, hand) for hand in hands if hand]
        return {name: cost for part in parts for name, cost in part.result().items()}


def _count(command: Sequence[str], cases: Sequence[Case]) -> dict[str, float]:
    done = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
            *command,
            *(case.name for case in cases),
        ],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        msg = f"valgrind ended with {done.returncode}:\n{done.stderr[-2000:]}"
        raise CannotCount(msg)
    collected = {
        int(child): int(total)
        for child, total in re.findall(r"==(\d+)== Collected : (\d+)", done.stderr)
    }
    costs: dict[str, float] = {}
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        few, many = (collected[int(child)] for child in line.split())
        costs[case.name] = (many - few) / (case.operations[2] - case.operations[1])
    return costs


def _run_all(suite: str, size: str, names: Sequence[str]) -> None:
    """Run cases in children of this process, and print their process numbers by case."""
    from benchmarks.suites import SUITES  # noqa: PLC0415 - it imports this module

    cases = {case.name: case for case in SUITES[suite](full=size == "full").cases()}
    # What the children would each translate anew, valgrind translates once, here.
    asyncio.run(cases[names[0]].run(cases[names[0]].operations[1], Stopwatch()))
    gc.collect()
    gc.freeze()  # nor walk over what was there before
    for name in names:
        case = cases[name]
        print(*(_run(case, operations) for operations in case.operations[1:]), flush=True)


def _run(case: Case, operations: int) -> int:
    child = os.fork()
    if not child:
        try:
            asyncio.run(case.run(operations, LastSection()))
        finally:
            os._exit(FAILED)  # the section ends the process, unless something failed
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{case.name} failed: {status}")
    return child


if __name__ == "__main__":
    _run_all(sys.argv[1], sys.argv[2], sys.argv[3:])
