"""Problems in the HumanEval schema, and how a completion becomes a program."""

import ast
import importlib.resources
import re
import textwrap
import warnings
from dataclasses import dataclass
from typing import cast, final

from millpond._base import offload
from millpond.jobs._jsonl import JsonLines, SetAside, Source

FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
EMBEDDED = "embedded problems"
INDENT = "    "

_INSTRUCTION = """\
Complete the following Python function. Reply with the whole function, with the \
imports it needs, in one Markdown code block and nothing else.

"""


@final
@dataclass(frozen=True, slots=True)
class Problem:
    """A function to write, and the tests that decide whether it was."""

    task_id: str
    prompt: str
    """The beginning of the program, up to the docstring of the function to write."""
    entry_point: str
    """The name of that function."""
    canonical_solution: str
    """A body that continues the prompt and passes."""
    test: str
    """Defines ``check(candidate)``, which raises unless the candidate is right."""

    @property
    def question(self) -> str:
        """What a chat model is asked."""
        return _INSTRUCTION + self.prompt

    def program(self, completion: str) -> str:
        """Return the whole program for *completion*; it passes if it ends normally.

        The completion is taken as it is: a body that continues the prompt, or a
        whole function, which then replaces the prompt's.
        """
        return f"{self.prompt}{completion}\n{self.test}\ncheck({self.entry_point})\n"


@final
@dataclass(frozen=True, slots=True)
class ProblemSet:
    """What a file of problems held."""

    source: str
    """The file's name, as it was given."""
    problems: tuple[Problem, ...]
    """At least one, in the order of the file; no two with the same task_id."""
    set_aside: tuple[SetAside, ...]


async def load_problems(source: Source | None = None) -> ProblemSet:
    """Read a file of problems, plain or gzipped.

    Lines that are no problem are set aside, and so is a second problem of the same
    task_id.

    Args:
        source: The file, or None for the problems that come with millpond.

    Raises:
        InputError: If the file cannot be read or holds no problem.

    Cancellation:
        Nothing is kept; the file is closed.
    """
    lines = JsonLines(await offload(_find_embedded) if source is None else source, required=FIELDS)
    found: dict[str, Problem] = {}
    first_lines: dict[str, int] = {}
    async for row in lines:
        if (reason := _find_fault(row)) is not None:
            lines.refuse(reason)
            continue
        problem = Problem(**{name: cast("str", row[name]) for name in FIELDS})
        if problem.task_id in found:
            first = first_lines[problem.task_id]
            lines.refuse(f"duplicate task_id {problem.task_id!r}, first on line {first}")
            continue
        found[problem.task_id] = problem
        first_lines[problem.task_id] = lines.line
    return ProblemSet(
        source=EMBEDDED if source is None else lines.path,
        problems=tuple(found.values()),
        set_aside=tuple(lines.set_aside),
    )


def extract_completion(text: str, problem: Problem) -> str:
    """Return the code in a chat model's answer, so that it continues the prompt.

    From an answer with Markdown code blocks the first block that defines the
    function is taken, else the first block. A block that was never closed (an
    answer cut short) reaches to the end. What stands before ``</think>`` is no part
    of the answer. A bare body that lost its indentation gets it back.

    Not for samples files: those are taken as they are.
    """
    answer = text.rpartition("</think>")[2]
    name = re.escape(problem.entry_point)
    defines = re.compile(rf"^(?:async\s+)?def\s+{name}\b", re.MULTILINE)
    blocks = _find_blocks(answer)
    if blocks:
        code = next((block for block in blocks if defines.search(block)), blocks[0])
    else:
        code = answer
    code = re.sub(r"\A(?:[ \t\r]*\n)+", "", code)
    if code[:1] not in (" ", "\t"):
        if not defines.search(code):
            code = _indent_body(code)
        elif parse(problem.prompt) is None:
            # The prompt's function has not even a docstring: give it some body.
            code = f"{INDENT}pass\n\n{code}"
    return "\n" + code  # a prompt need not end with a line break


def parse(source: str) -> ast.Module | None:
    """Return the syntax tree of foreign code; None when it is not Python."""
    try:
        with warnings.catch_warnings():  # of escapes in somebody else's strings
            for kind in (SyntaxWarning, DeprecationWarning):
                warnings.simplefilter("ignore", kind)
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_embedded() -> Source:
    folder = importlib.resources.files("millpond.jobs.codeeval")
    return folder.joinpath("data", "problems.jsonl")


def _find_fault(row: dict[str, object]) -> str | None:
    for name in FIELDS:
        value = row[name]
        if not isinstance(value, str):
            return f"expected a string in {name!r}, got {type(value).__name__}"
    for name in ("task_id", "prompt", "test"):
        if not row[name]:
            return f"{name!r} is empty"
    name = cast("str", row["entry_point"])
    if not name.isidentifier():  # it becomes part of a program
        return f"expected a Python name in 'entry_point', got {name!r}"
    return None


def _find_blocks(text: str) -> list[str]:
    """Return the contents of Markdown's fenced code blocks."""
    blocks: list[str] = []
    fence = ""  # the fence that the current block was opened with, "" outside
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        marks = re.match(r" {0,3}(`{3,}|~{3,})([^\n]*)", line)
        if not fence:
            if marks and "`" not in marks[2]:  # else it is code within a line of text
                fence = marks[1]
        elif marks and marks[1].startswith(fence) and not marks[2].strip():
            blocks.append("".join(lines))
            fence, lines = "", []
        else:
            lines.append(line)
    if fence:
        blocks.append("".join(lines))
    return blocks


def _indent_body(code: str) -> str:
    """Indent a body whose first line stands at the margin."""
    first, _, rest = code.partition("\n")
    inner = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    opens_block = first.rstrip().endswith(":") and inner[:1] == [len(INDENT)]
    if inner and min(inner) > 0 and not opens_block:
        # Only the beginning was stripped off; the rest stands where it belongs.
        return INDENT + code
    return textwrap.indent(code, INDENT)
