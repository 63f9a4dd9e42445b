"""Every proof in its quick tier, and the whole catalogue by the command's own words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.testing import Counterexample, explore
from proofs.catalogue import Proof
from proofs.proving import PROOFS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_quick(proof: Proof) -> None:
    """All schedules with few unusual events: exhausted, or the known fault is found."""
    if proof.expects_fault:
        with pytest.raises(Counterexample):
            explore(proof.scenario, name=proof.name, bounds=proof.quick)
    else:
        assert explore(proof.scenario, name=proof.name, bounds=proof.quick)


@pytest.mark.slow
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_full(proof: Proof) -> None:
    """The smallest scope, exhausted."""
    if not proof.expects_fault:
        assert explore(proof.scenario, name=proof.name, bounds=proof.bounds)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "proofs", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_prints_certificates() -> None:
    """As JSON: a list of scenarios, each with what a reader needs to judge it."""
    done = run("asyncio", "Limiter", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    names = [entry["name"] for entry in told["scenarios"]]
    assert names == [
        proof.name for proof in PROOFS if "asyncio" in proof.name or "Limiter" in proof.name
    ]
    for entry in told["scenarios"]:
        assert {"name", "python", "bounds", "schedules", "states", "complete"} <= set(entry)
        assert entry["as_expected"]
        assert entry["complete"] is not entry["expects_fault"]
        assert entry["schedules"] > 0


def test_the_command_refuses_what_it_does_not_know() -> None:
    """With what to do instead."""
    done = run("no-such-proof")
    assert done.returncode == 2
    assert "--list shows them" in done.stderr
