"""From verdicts to a score, and to a table that people can read."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, final

from millpond.jobs._job import Report
from millpond.jobs.codeeval._answers import AnswerBook
from millpond.jobs.codeeval._score import mean_pass_at_k

USUAL_KS = (1, 10, 100)
EXAMPLE_CHARACTERS = 58
SHOWN_MISMATCHES = 5


class Verdict(TypedDict):
    """The value of an item: how its program ended."""

    kind: str
    detail: str
    line: int | None
    seconds: float
    output: str


@final
@dataclass(frozen=True, slots=True)
class Graded:
    """One sample with its verdict."""

    task_id: str
    sample: int
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether it counts for the score."""
        return self.verdict["kind"] == "passed"


def make_report(
    graded: Sequence[Graded],
    *,
    planned: int,
    book: AnswerBook | None,
    missing: Sequence[str],
    unanswered: tuple[int, int] = (0, 0),
) -> Report:
    """Return score and table.

    Args:
        graded: What has a verdict.
        planned: How many samples there were to grade.
        book: What the embedded provider was made to answer; None with any other source.
        missing: Protections that the sandbox did not have.
        unanswered: How many problems have no sample, of how many.
    """
    per_problem: defaultdict[str, list[bool]] = defaultdict(list)
    for one in graded:
        per_problem[one.task_id].append(one.passed)
    counts = [(len(passes), sum(passes)) for passes in per_problem.values()]
    fewest = min((n for n, _ in counts), default=0)
    # The number of samples is a k of its own only where all of them are there.
    ks = {*USUAL_KS, fewest} if len(graded) == planned else set(USUAL_KS)
    scores = {k: mean_pass_at_k(counts, k) for k in sorted(ks) if 1 <= k <= fewest}
    classes = Counter(one.verdict["kind"] for one in graded)
    complete = len(graded) == planned
    expected = {k: book.expected_pass_at(k) for k in scores} if book and complete else None
    violated = "" if book is None or not complete else _violation(graded, scores, book)
    text = _text(graded, classes, scores, expected, planned=planned, missing=missing)
    if unanswered[0]:
        without, total = unanswered
        text += f"\n{without} of {total} problems have no sample; the score is of the others"
    return Report(
        text=text,
        facts={
            "pass_at_1": scores.get(1),
            "expected_pass_at_1": None if book is None else book.expected_pass_at(1),
            "pass_at_k": {str(k): score for k, score in scores.items()},
            "graded": len(graded),
            "planned": planned,
            "problems_without_sample": unanswered[0],
            "classes": dict(sorted(classes.items())),
            "missing_protections": list(missing),
        },
        violated=violated,
    )


def _violation(
    graded: Sequence[Graded], scores: Mapping[int, float | None], book: AnswerBook
) -> str:
    """Hold the verdicts against the labels, which were drawn before anything ran."""
    wrong = [
        f"{one.task_id}#{one.sample} is {one.verdict['kind']}, expected"
        f" {book.label(one.task_id, one.sample).verdict}"
        for one in graded
        if one.verdict["kind"] != book.label(one.task_id, one.sample).verdict
    ]
    if not wrong and all(score == book.expected_pass_at(k) for k, score in scores.items()):
        return ""
    more = f" and {len(wrong) - SHOWN_MISMATCHES} more" if len(wrong) > SHOWN_MISMATCHES else ""
    return (
        f"the score of the embedded answers is not the expected one: pass@1 {scores.get(1)},"
        f" expected {book.expected_pass_at(1)}; {'; '.join(wrong[:SHOWN_MISMATCHES])}{more}"
    )


def _text(  # noqa: PLR0913 - private, and each is a part of the page
    graded: Sequence[Graded],
    classes: Mapping[str, int],
    scores: Mapping[int, float | None],
    expected: Mapping[int, float | None] | None,
    *,
    planned: int,
    missing: Sequence[str],
) -> str:
    examples: dict[str, str] = {}
    for one in graded:
        detail = one.verdict["detail"]
        example = f"{one.task_id}#{one.sample}" + (f": {detail}" if detail else "")
        examples.setdefault(one.verdict["kind"], example)
    lines = [f"{'outcome':<13} {'count':>5}  example"] if graded else ["nothing was graded"]
    for kind, count in sorted(classes.items(), key=lambda row: (-row[1], row[0])):
        example = examples[kind]
        if len(example) > EXAMPLE_CHARACTERS:
            example = example[: EXAMPLE_CHARACTERS - 1] + "…"
        lines.append(f"{kind:<13} {count:>5}  {example}")
    lines.append("")
    for k, score in scores.items():
        known = f"  (expected {expected[k]:.4f})" if expected and expected[k] is not None else ""
        lines.append(f"pass@{k:<4} {score:.4f}{known}")
    if len(graded) != planned:
        lines.append(f"{len(graded)} of {planned} samples have a verdict; the score is of those")
    if missing:
        lines.append(f"the sandbox ran without: {', '.join(missing)}")
    return "\n".join(lines)
