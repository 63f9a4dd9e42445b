"""From verdicts to score and table."""

from collections.abc import Sequence

import pytest

from millpond.jobs.codeeval._answers import AnswerBook, Label
from millpond.jobs.codeeval._problems import Problem
from millpond.jobs.codeeval._report import Graded, Verdict, make_report


def graded(task: int, sample: int, kind: str = "passed", detail: str = "") -> Graded:
    """Return one sample with its verdict."""
    verdict = Verdict(kind=kind, detail=detail, line=None, seconds=0.1, output="")
    return Graded(f"t/{task}", sample, verdict)


def make_book(tasks: int, n: int) -> AnswerBook:
    """Return a book of so many problems."""
    problems = [
        Problem(
            task_id=f"t/{number}",
            prompt=f"def one{number}():\n",
            entry_point=f"one{number}",
            canonical_solution="    return 1\n",
            test="def check(candidate):\n    assert candidate() == 1\n",
        )
        for number in range(tasks)
    ]
    return AnswerBook(problems, n=n)


def as_labelled(book: AnswerBook) -> list[Graded]:
    """Return the verdicts that the labels promise."""
    return [
        graded(task, sample, book.label(f"t/{task}", sample).verdict)
        for task in range(len(book.problems))
        for sample in range(book.n)
    ]


def test_pass_at_1_is_the_mean_over_problems_not_over_samples() -> None:
    """A problem with more samples weighs no more than another."""
    samples = [graded(0, 0), graded(1, 0, "wrong"), graded(1, 1, "wrong"), graded(1, 2, "wrong")]
    report = make_report(samples, planned=4, book=None, missing=[])
    assert report.facts["pass_at_1"] == pytest.approx(0.5)
    assert report.facts["expected_pass_at_1"] is None
    assert report.violated == ""


@pytest.mark.parametrize(
    ("per_problem", "ks"),
    [([1, 1], ["1"]), ([3, 4], ["1", "3"]), ([10, 12], ["1", "10"]), ([20], ["1", "10", "20"])],
)
def test_a_k_is_shown_where_every_problem_has_as_many_samples(
    per_problem: Sequence[int], ks: Sequence[str]
) -> None:
    """The usual ones, and the largest there is."""
    samples = [graded(task, n) for task, count in enumerate(per_problem) for n in range(count)]
    facts = make_report(samples, planned=len(samples), book=None, missing=[]).facts
    assert facts["pass_at_k"] == dict.fromkeys(ks, 1.0)


def test_the_table_counts_the_classes_with_the_first_example_of_each() -> None:
    """Most frequent first, then by name; a long example is cut, and shows that it was."""
    samples = [
        graded(0, 0, "wrong", "AssertionError"),
        graded(0, 1),
        graded(1, 0, "timeout", "x" * 200),
        graded(1, 1),
        graded(2, 0, "exception", "KeyError: 1"),
    ]
    report = make_report(samples, planned=5, book=None, missing=[])
    lines = report.text.splitlines()
    assert lines[0].split() == ["outcome", "count", "example"]
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["passed", "2"],
        ["exception", "1"],
        ["timeout", "1"],
        ["wrong", "1"],
    ]
    assert lines[1].endswith("t/0#1")
    assert lines[4].endswith("t/0#0: AssertionError")
    assert lines[3].endswith("x…")
    assert all(len(line) <= 100 for line in lines)
    assert report.facts["classes"] == {"exception": 1, "passed": 2, "timeout": 1, "wrong": 1}


def test_verdicts_that_are_as_labelled_give_the_expected_score() -> None:
    """For every k that is shown, beside the score itself."""
    book = make_book(6, n=3)
    report = make_report(as_labelled(book), planned=18, book=book, missing=[])
    assert report.violated == ""
    assert report.facts["pass_at_1"] == report.facts["expected_pass_at_1"]
    shown = [line for line in report.text.splitlines() if line.startswith("pass@")]
    assert len(shown) == 2
    assert f"(expected {book.expected_pass_at(3):.4f})" in shown[1]


def test_a_verdict_that_is_not_as_labelled_violates_the_promise() -> None:
    """The message names the sample, what it is and what was expected."""
    book = make_book(6, n=1)
    samples = as_labelled(book)
    samples[2] = graded(2, 0, "crashed")
    report = make_report(samples, planned=6, book=book, missing=[])
    expected = book.label("t/2", 0).verdict
    assert f"t/2#0 is crashed, expected {expected}" in report.violated
    assert "t/1#0" not in report.violated


def test_two_verdicts_that_make_up_for_each_other_are_still_a_violation() -> None:
    """An equal score is not enough: each verdict must be the one of its label."""
    book = make_book(8, n=1)
    samples = as_labelled(book)
    (right, *_), (wrong, *_) = (
        [one for one in samples if one.passed is passed] for passed in (True, False)
    )
    swapped = {
        right.task_id: Graded(right.task_id, 0, wrong.verdict),
        wrong.task_id: Graded(wrong.task_id, 0, right.verdict),
    }
    report = make_report(
        [swapped.get(one.task_id, one) for one in samples], planned=8, book=book, missing=[]
    )
    assert report.facts["pass_at_1"] == report.facts["expected_pass_at_1"]
    assert f"{right.task_id}#0" in report.violated
    assert f"{wrong.task_id}#0" in report.violated


def test_of_many_violations_a_few_are_listed_and_the_rest_counted() -> None:
    """One line is not a page."""
    book = make_book(8, n=1)
    report = make_report(
        [graded(task, 0, "crashed") for task in range(8)], planned=8, book=book, missing=[]
    )
    assert report.violated.count("is crashed") == 5
    assert report.violated.endswith("and 3 more")


def test_a_part_of_the_samples_is_no_violation_but_said() -> None:
    """An interrupted run cannot have the expected score; it says what the score is of."""
    book = make_book(6, n=1)
    report = make_report(as_labelled(book)[:2], planned=6, book=book, missing=[])
    assert report.violated == ""
    assert "2 of 6 samples have a verdict" in report.text
    assert "(expected" not in report.text
    assert report.facts["expected_pass_at_1"] == book.expected_pass_at(1)
    assert (report.facts["graded"], report.facts["planned"]) == (2, 6)


def test_nothing_graded_is_no_score() -> None:
    """Neither 0 nor an error: there is none."""
    report = make_report([], planned=6, book=make_book(6, n=1), missing=[])
    assert report.facts["pass_at_1"] is None
    assert report.facts["pass_at_k"] == {}
    assert report.violated == ""
    assert "0 of 6 samples have a verdict" in report.text


def test_problems_without_a_sample_are_counted() -> None:
    """In the text and in the facts; where each has one, there is nothing to say."""
    samples = [graded(0, 0)]
    some = make_report(samples, planned=1, book=None, missing=[], unanswered=(2, 3))
    assert "2 of 3 problems have no sample; the score is of the others" in some.text
    assert some.facts["problems_without_sample"] == 2
    none = make_report(samples, planned=1, book=None, missing=[], unanswered=(0, 1))
    assert "no sample" not in none.text
    assert none.facts["problems_without_sample"] == 0


def test_missing_protections_are_said() -> None:
    """In the text and in the facts."""
    report = make_report([graded(0, 0)], planned=1, book=None, missing=["network", "user"])
    assert "the sandbox ran without: network, user" in report.text
    assert report.facts["missing_protections"] == ["network", "user"]


def test_a_claimed_label_counts_not_the_drawn_one() -> None:
    """A book that is wrong about an answer does not go unnoticed."""
    honest = make_book(4, n=1)
    claimed = (
        Label.WRONG_VALUE if honest.label("t/0", 0) is not Label.WRONG_VALUE else Label.EXCEPTION
    )
    book = AnswerBook(honest.problems.values(), relabel={("t/0", 0): claimed})
    report = make_report(as_labelled(honest), planned=4, book=book, missing=[])
    assert f"t/0#0 is {honest.label('t/0', 0).verdict}, expected {claimed.verdict}" in (
        report.violated
    )
