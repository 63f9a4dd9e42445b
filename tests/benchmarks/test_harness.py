"""The arithmetic of the benchmarks: ratios by round, growth, what is judged."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))  # `benchmarks` is not installed; it is run from the checkout

from benchmarks import callgrind  # noqa: E402
from benchmarks.harness import Case, Section, exponent, interleave, ratio  # noqa: E402
from benchmarks.rows import Contest, Growth, Row, Suite, groups  # noqa: E402
from benchmarks.suites import SUITES  # noqa: E402


async def nothing(operations: int, section: Section) -> None:
    """Do *operations* of nothing."""
    with section:
        for _ in range(operations):
            pass


async def steps(operations: int, section: Section) -> None:
    """Go round the loop *operations* times."""
    with section:
        for _ in range(operations):
            await asyncio.sleep(0)


def case(name: str) -> Case:
    """Return a case that does nothing."""
    return Case(name, nothing, (10, 1, 2))


def row(ratio: float, target: float | None, *, is_shape: bool = False) -> Row:
    """Return a row of that result."""
    return Row("row", "", "time", ratio, (ratio, ratio), target, is_shape=is_shape)


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    """A slow round slows both sides, and changes nothing; the medians of each would."""
    ours, theirs = [2.0, 40.0, 3.0], [1.0, 10.0, 2.0]
    assert ratio(ours, theirs) == (2.0, 1.5, 4.0)


def test_rounds_must_pair_up() -> None:
    """A ratio of different rounds would mean nothing."""
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize(("power", "factor"), [(0, 5.0), (1, 0.1), (2, 3.0), (0.5, 7.0)])
def test_the_exponent_is_that_of_the_growth(power: float, factor: float) -> None:
    """0 is constant, 1 is linear, whatever the unit."""
    costs = {size: factor * size**power for size in (10, 100, 1_000, 10_000)}
    assert exponent(costs) == pytest.approx(power, abs=1e-9)


def test_the_first_round_is_dropped_and_every_round_measures_all() -> None:
    """Warming up is not measured, and no case gets the better rounds."""
    asked: list[str] = []

    def take(what: Case) -> float:
        asked.append(what.name)
        return float(len(asked))

    costs = interleave([case("a"), case("b"), case("c")], 4, take)
    assert len(asked) == 15
    rounds = [set(asked[start : start + 3]) for start in range(0, 15, 3)]
    assert rounds == [{"a", "b", "c"}] * 5
    assert all(len(each) == 4 and min(each) > 3 for each in costs.values())


def test_a_target_is_met_up_to_itself_and_not_judged_when_there_is_none() -> None:
    """All targets are the most that is aimed at."""
    assert row(0.75, 0.75).met is True
    assert row(0.76, 0.75).met is False
    assert row(9.0, None).met is None


def test_contests_that_share_a_case_are_interleaved() -> None:
    """They are measured once, and their ratios belong together."""
    a, b, c, d = map(case, "abcd")
    first = Contest("first", a, b, "time")
    second = Contest("second", c, a, "time")
    third = Contest("third", d, d, "time")
    assert groups([first, second, third]) == [[first, second], [third]]


def test_a_contest_compares_ours_with_the_other_and_with_every_peer() -> None:
    """Peers are rated as the other is: below 1, ours is cheaper."""
    contest = Contest("one", case("a"), case("b"), "time", 1.0, {"peer": case("p")})
    found = contest.row({"a": [1.0, 1.0], "b": [2.0, 2.0], "p": [4.0, 4.0]})
    assert (found.ratio, found.met, found.peers) == (0.5, True, {"peer": 0.25})


def test_without_valgrind_what_needs_it_is_named_as_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The times are taken all the same; nothing is left out in silence."""
    monkeypatch.setenv("PATH", "")
    suite = Suite(
        name="trial",
        full=False,
        contests=[
            Contest("timed", Case("s", steps, (50, 1, 2)), Case("t", steps, (50, 1, 2)), "time"),
            Contest("counted", case("a"), case("b"), "instructions"),
        ],
        growths=[Growth("grown", {1: case("a"), 2: case("b")}, 0.1)],
        others=[lambda: [row(0, 0)]],
        skipped=["peer: not installed"],
    )
    rows, skipped = suite.run(1, lambda _: None)
    assert [each.name for each in rows] == ["row", "timed"]
    assert skipped == [
        "peer: not installed",
        "counted: valgrind is not installed",
        "grown: valgrind is not installed",
    ]


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", SUITES)
def test_the_cases_of_a_suite_have_names_of_their_own(name: str, *, full: bool) -> None:
    """Costs are kept by name: two cases of one name would be taken for each other."""
    suite = SUITES[name](full=full)
    cases = [*suite.cases(), *(case for contest in suite.contests for case in contest.cases())]
    meant = {(case.name, case.operations) for case in cases}
    assert len(meant) == len({case.name for case in cases})
    assert all(0 < few < many for _, (_, few, many) in meant)


@pytest.mark.skipif(bool(callgrind.why_not()), reason=callgrind.why_not())
@pytest.mark.slow
def test_instructions_of_the_same_case_are_the_same_twice() -> None:
    """That is why they decide where times only inform."""
    cases = [case for case in SUITES["sync"](full=False).cases() if "bare wake-up" in case.name]
    first, second = (callgrind.count("sync", cases, full=False) for _ in range(2))
    for name, cost in first.items():
        assert second[name] == pytest.approx(cost, rel=0.01)


def test_an_unknown_suite_is_refused_with_the_names_of_those_that_exist() -> None:
    """The command says what there is."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "sync" in done.stderr


def test_a_row_says_all_in_json() -> None:
    """Machines read the same as people."""
    said = json.loads(json.dumps(row(0.5, 0.75).as_json()))
    assert said == {
        "name": "row",
        "against": "",
        "unit": "time",
        "ratio": 0.5,
        "spread": [0.5, 0.5],
        "target": 0.75,
        "met": True,
        "shape": False,
        "peers": {},
    }
