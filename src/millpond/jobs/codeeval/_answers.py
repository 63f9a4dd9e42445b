"""The embedded provider's answers: what it will say, and what that is worth.

Invariants:
    A1  An answer depends on the seed, the task and the sample number, and on
        nothing else: not on other problems, on `n`, or on the order of asking.
    A2  The expected score is computed from the labels alone.
"""

import enum
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from millpond.errors import InputError
from millpond.jobs.codeeval import _mutations
from millpond.jobs.codeeval._problems import Problem
from millpond.jobs.codeeval._score import mean_pass_at_k

DEFAULT_SEED = 176
"""With it, the problems that come along meet every label and every fault at one sample each."""


@final
class Label(enum.StrEnum):
    """What an answer is."""

    CANONICAL = "canonical"
    WRONG_VALUE = "wrong_value"
    SYNTAX_ERROR = "syntax_error"
    EXCEPTION = "exception"
    ENDLESS_LOOP = "endless_loop"

    @property
    def passes(self) -> bool:
        """Whether the answer passes its tests."""
        return self is Label.CANONICAL

    @property
    def verdict(self) -> str:
        """The class of verdict in which the answer must end."""
        return _VERDICTS[self]


_VERDICTS = {
    Label.CANONICAL: "passed",
    Label.WRONG_VALUE: "wrong",
    Label.SYNTAX_ERROR: "syntax_error",
    Label.EXCEPTION: "exception",
    Label.ENDLESS_LOOP: "timeout",
}

# Shares in 48ths. Endless loops are rare, because each costs a whole time limit.
_SHARES = {
    Label.CANONICAL: 31,
    Label.WRONG_VALUE: 6,
    Label.SYNTAX_ERROR: 4,
    Label.EXCEPTION: 4,
    Label.ENDLESS_LOOP: 3,
}
_DECK = tuple(label for label, share in _SHARES.items() for _ in range(share))


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """One completion with its label."""

    task_id: str
    sample: int
    label: Label
    completion: str
    """Continues the problem's prompt."""


@final
class AnswerBook:
    r"""Seeded answers to every problem, labelled before anything runs.

    Args:
        problems: The problems it can answer.
        seed: Decides labels and completions.
        n: Samples per problem, numbered from 0.
        relabel: Labels to claim in place of the true ones, by task and sample number.
            The completions stay as they are, so the book is wrong about them: it
            shows that a wrong expectation does not go unnoticed.

    Raises:
        InputError: If two problems have the same prompt: whoever asks could not say
            which one is meant.
        ValueError: If *n* is less than 1, or *relabel* names an answer that is not
            in the book.

    Example:
        >>> problem = Problem("t/0", "def one():\n", "one", "    return 1\n",
        ...     "def check(candidate):\n    assert candidate() == 1\n")
        >>> book = AnswerBook([problem], seed=7, n=4)
        >>> [book.label("t/0", sample).value for sample in range(4)]
        ['canonical', 'wrong_value', 'canonical', 'canonical']
        >>> book.expected_pass_at(1)
        0.75
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        *,
        seed: int = DEFAULT_SEED,
        n: int = 1,
        relabel: Mapping[tuple[str, int], Label] | None = None,
    ) -> None:
        if n < 1:
            msg = f"`n` must be >= 1, got {n}"
            raise ValueError(msg)
        self.seed = seed
        self.n = n
        self.problems = {problem.task_id: problem for problem in problems}
        self._by_question: dict[str, Problem] = {}
        for problem in self.problems.values():
            twin = self._by_question.setdefault(problem.question, problem)
            if twin is not problem:
                msg = f"{twin.task_id!r} and {problem.task_id!r} have the same prompt"
                raise InputError(msg, hint="remove one of them, or give answers by --samples")
        self._drawn = {
            (task_id, sample): _DECK[self._draw("label", task_id, sample) % len(_DECK)]
            for task_id in self.problems
            for sample in range(n)
        }
        self._claimed = {**self._drawn, **(relabel or {})}
        if strange := self._claimed.keys() - self._drawn.keys():
            msg = f"`relabel` names answers that are not in the book: {sorted(strange)}"
            raise ValueError(msg)

    def find_problem(self, message: str) -> Problem | None:
        """Return the problem that *message* asks about, or None.

        That is the one whose prompt stands in it; of several, the longest prompt.
        """
        if (problem := self._by_question.get(message)) is not None:
            return problem
        asked = [problem for problem in self.problems.values() if problem.prompt in message]
        return max(asked, key=lambda problem: len(problem.prompt), default=None)

    def label(self, task_id: str, sample: int) -> Label:
        """Return what the book says of an answer.

        Raises:
            KeyError: If it is not in the book.
        """
        return self._claimed[task_id, sample]

    def answer(self, task_id: str, sample: int) -> Answer:
        """Return an answer.

        Raises:
            KeyError: If it is not in the book.
        """
        problem, drawn = self.problems[task_id], self._drawn[task_id, sample]
        variant = self._draw("variant", task_id, sample)
        return Answer(
            task_id=task_id,
            sample=sample,
            label=self._claimed[task_id, sample],
            completion=write_completion(problem, drawn, variant),
        )

    def is_in_chat_form(self, task_id: str, sample: int) -> bool:
        """Whether a chat model would wrap this answer up: half of them, by the seed."""
        return self._draw("form", task_id, sample) % 2 == 0

    def expected_pass_at(self, k: int) -> float | None:
        """Return the pass@k that grading every answer must give (A2).

        Returns:
            None when *k* is greater than `n`, or there are no problems.
        """
        passes = Counter(task_id for (task_id, _), label in self._claimed.items() if label.passes)
        return mean_pass_at_k(((self.n, passes[task_id]) for task_id in self.problems), k)

    def expected_verdicts(self) -> dict[str, int]:
        """Return how many answers must end in each class of verdict (A2)."""
        return dict(Counter(label.verdict for label in self._claimed.values()))

    def _draw(self, purpose: str, task_id: str, sample: int) -> int:
        # Not `hash`, which differs from process to process; not `random`, whose
        # sequence would tie each draw to those before it (A1).
        text = f"{self.seed}\0{purpose}\0{sample}\0{task_id}"
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big")


def write_completion(problem: Problem, label: Label, variant: int = 0) -> str:
    """Return a completion of *problem* that ends as *label* says.

    Args:
        problem: What to complete.
        label: What the completion is to be.
        variant: Chooses among the mutations of one kind, where there are several.
    """
    match label:
        case Label.CANONICAL:
            return problem.canonical_solution
        case Label.WRONG_VALUE:
            return _mutations.return_wrong_value(problem)
        case Label.SYNTAX_ERROR:
            return _mutations.break_syntax(problem, variant)
        case Label.EXCEPTION:
            return _mutations.raise_exception(problem, variant)
        case Label.ENDLESS_LOOP:
            return _mutations.loop_endlessly(problem)
