"""`python3 dev conformance`: what it prints, and when it fails."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import as_table, main
from tests.conformance.cpython import judge
from tests.conformance.cpython.listed import LISTED
from tests.conformance.tokio_names import TOKIO

ROOT = Path(__file__).resolve().parents[2]

GOOD_TOKIO = {
    "listed": 3,
    "ported": 2,
    "not_applicable": 1,
    "failing": 0,
    "by_area": {"notify": {"listed": 3, "ported": 2, "not_applicable": 1, "failing": 0}},
}
GOOD_CPYTHON = {"ran": 2, "passed": 1, "listed": {"T.t": "why"}, "failing": 0, "source": "here"}


@pytest.mark.deadline(60)
def test_json_is_one_object_with_both_counts() -> None:
    """Run as a program: everything that is ported or not listed passes."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.conformance", "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    verdict = json.loads(run.stdout)
    tokio, cpython = verdict["tokio"], verdict["cpython"]
    assert tokio["listed"] == sum(map(len, TOKIO.values()))
    assert tokio["ported"] + tokio["not_applicable"] == tokio["listed"]
    assert tokio["failing"] == cpython["failing"] == 0
    assert list(tokio["by_area"]) == list(TOKIO)
    assert cpython["listed"] == LISTED
    if cpython["source"] is None:
        assert judge.not_found() in run.stderr
    else:
        assert cpython["passed"] == cpython["ran"] - len(LISTED)


@pytest.mark.parametrize("failing", ["tokio", "cpython"])
def test_one_failure_of_either_is_a_failure(
    failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says so, in both forms of the output."""
    verdict: dict[str, dict[str, Any]] = {"tokio": GOOD_TOKIO, "cpython": GOOD_CPYTHON}
    bad = {name: {**counts, "failing": name == failing} for name, counts in verdict.items()}
    for arguments in ([], ["--json"]):
        assert main(arguments, lambda: GOOD_TOKIO, lambda: GOOD_CPYTHON) == 0
        assert main(arguments, lambda: bad["tokio"], lambda: bad["cpython"]) == 1
    assert capsys.readouterr().err == ""


def test_the_table_shows_each_area_and_each_listed_name() -> None:
    """With the reasons, and where the tests came from."""
    table = as_table(GOOD_TOKIO, GOOD_CPYTHON)
    assert "notify" in table
    assert "1 of 2 pass, 0 fail unlisted" in table
    assert "T.t: why" in table
    assert "here" in table


def test_the_table_says_when_there_was_nothing_to_run() -> None:
    """No silence where a count should be."""
    assert judge.not_found() in as_table(GOOD_TOKIO, {**GOOD_CPYTHON, "source": None})


def test_an_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the usage, before anything is run."""
    assert main(["--jsno"]) == 2
    assert "--jsno" in capsys.readouterr().err
