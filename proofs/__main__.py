"""The command line: ``python -m proofs [NAME ...] [--quick | --deep] [--json]``."""

import argparse
import json
import platform
import sys
from collections.abc import Sequence

from proofs.catalogue import Tier
from proofs.proving import PROOFS, Result, prove_all


def main() -> int:
    """Explore; return 0 if everything is as expected, else 1."""
    parser = argparse.ArgumentParser(prog="python3 dev prove", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a name; all if none")
    parser.add_argument("--quick", action="store_true", help="few deviations only; under 50 s")
    parser.add_argument("--deep", action="store_true", help="as far as it is known to end")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    if options.quick and options.deep:
        parser.error("--quick and --deep exclude each other; give one")
    tier: Tier = "quick" if options.quick else "deep" if options.deep else "full"
    wanted = [p for p in PROOFS if not options.names or any(n in p.name for n in options.names)]
    if not wanted:
        parser.error(f"no proof has {' or '.join(options.names)} in its name; --list shows them")
    if options.list:
        print("\n".join(proof.name for proof in wanted))
        return 0
    results: list[Result] = []
    for result in prove_all(wanted, tier):
        results.append(result)
        if not options.json:
            told = f"[{len(results)}/{len(wanted)}] {result.proof.name}: {result.verdict}"
            print(f"{told} ({result.seconds:.1f} s)", file=sys.stderr, flush=True)
    if options.json:
        as_json = {
            "python": platform.python_version(),
            "tier": tier,
            "scenarios": [result.to_json(tier) for result in results],
        }
        print(json.dumps(as_json, indent=2))
    else:
        print(_table(results, tier))
        for result in results:
            if result.found is not None and not result.as_expected:
                print(f"\n{result.found}")
    wrong = sum(not result.as_expected for result in results)
    if wrong and not options.json:
        print(f"\n{wrong} of {len(results)} not as expected")
    return int(wrong > 0)


def _table(results: Sequence[Result], tier: Tier) -> str:
    lines = [("scenario", "bounds", "schedules", "states", "seconds", "verdict")]
    for result in results:
        certificate = result.certificate
        schedules = (
            certificate.schedules
            if certificate
            else result.found.found_after
            if result.found
            else 0
        )
        lines.append(
            (
                result.proof.name,
                str(result.proof.bounds_of(tier)),
                f"{schedules:,}",
                f"{certificate.states:,}" if certificate else "-",
                f"{result.seconds:.1f}",
                result.verdict,
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head = f"Python {platform.python_version()}, {tier} tier"
    rows = [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    sys.exit(main())
