"""The command line: ``python -m benchmarks SUITE [--json] [--quick]``."""

import argparse
import json
import platform
import sys
import time

from benchmarks.callgrind import CannotCount
from benchmarks.rows import Row
from benchmarks.suites import SUITES

ROUNDS = 9
QUICK_ROUNDS = 3


def main() -> int:
    """Run a suite. Return 1 if something grows that must not, else 0."""
    parser = argparse.ArgumentParser(prog="python3 dev bench", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds; under 60 s")
    options = parser.parse_args()

    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {what}", file=sys.stderr, flush=True)

    suite = SUITES[options.suite](full=not options.quick)
    try:
        rows, skipped = suite.run(QUICK_ROUNDS if options.quick else ROUNDS, say)
    except CannotCount as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.json:
        result = {
            "suite": suite.name,
            "python": platform.python_version(),
            "rows": [row.as_json() for row in rows],
            "skipped": skipped,
        }
        print(json.dumps(result, indent=2))
    else:
        print(table(rows))
        for what in skipped:
            print(f"skipped: {what}")
    return int(any(row.is_shape and row.met is False for row in rows))


def table(rows: list[Row]) -> str:
    """Return the rows set for the eye."""
    lines = [("row", "against", "by", "ratio", "spread", "target", "met", "ours / peer")]
    for row in rows:
        peers = ", ".join(f"{name} {ratio:.2f}" for name, ratio in row.peers.items())
        lines.append(
            (
                row.name,
                row.against or "-",
                row.unit,
                f"{row.ratio:.3g}",
                "{:.3g} .. {:.3g}".format(*row.spread),
                "-" if row.target is None else f"<= {row.target:g}",
                {None: "-", True: "yes", False: "NO"}[row.met],
                peers,
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
