"""The `codeeval` job as a job: its sources of answers, its options, and its promise."""

import functools
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from millpond.errors import InputError
from millpond.jobs import find_job
from millpond.jobs.codeeval import _job
from millpond.jobs.codeeval._answers import AnswerBook, Label
from millpond.jobs.codeeval._sandbox import Protections, Zygote
from tests.cli.support import FOREIGN, QUICK, Ended, InProcess, Serving

RIGHT = "    return 1\n"
WRONG = "    return 2\n"


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process."""
    return InProcess(tmp_path, monkeypatch, capsys)


def write_problems(command: InProcess, count: int) -> str:
    """Write problems of which `return 1` is the solution."""
    rows = [
        {
            "task_id": f"t/{number}",
            "prompt": f"def one{number}():\n",
            "entry_point": f"one{number}",
            "canonical_solution": RIGHT,
            "test": "def check(candidate):\n    assert candidate() == 1\n",
        }
        for number in range(count)
    ]
    return command.write("problems.jsonl", "\n".join(json.dumps(row) for row in rows))


def write_samples(command: InProcess, *samples: tuple[str, str]) -> str:
    """Write completions by task."""
    rows = [{"task_id": task, "completion": completion} for task, completion in samples]
    return command.write("samples.jsonl", "\n".join(json.dumps(row) for row in rows))


def grade(command: InProcess, problems: str, samples: str, *more: str) -> Ended:
    """Run the job on files."""
    files = ("--items", problems, "--samples", samples)
    return command("run", "codeeval", *files, *FOREIGN, "--time-limit", "1", *more)


# --- Samples ------------------------------------------------------------------------------


def test_samples_are_graded_without_a_model(command: InProcess) -> None:
    """Several per problem, in one file; nobody is asked, and nothing is expected."""
    samples = write_samples(
        command, ("t/0", RIGHT), ("t/1", WRONG), ("t/0", WRONG), ("t/1", WRONG), ("t/0", RIGHT)
    )
    ended = grade(command, write_problems(command, 2), samples, "--json")
    assert ended.code == 0, ended.errors
    facts = ended.facts
    assert (facts["items"], facts["ok"], facts["failed"]) == (5, 5, 0)
    assert facts["classes"] == {"passed": 2, "wrong": 3}
    assert facts["pass_at_1"] == pytest.approx((2 / 3 + 0) / 2)
    assert facts["pass_at_k"].keys() == {"1", "2"}
    assert facts["expected_pass_at_1"] is None


def test_n_takes_the_first_samples_of_each_problem(command: InProcess) -> None:
    """In the order of the file."""
    samples = write_samples(command, ("t/0", RIGHT), ("t/1", WRONG), ("t/0", WRONG), ("t/1", RIGHT))
    ended = grade(command, write_problems(command, 2), samples, "--json", "--n", "1")
    assert ended.facts["items"] == 2
    assert ended.facts["pass_at_1"] == 0.5


def test_samples_that_cannot_be_used_are_listed_with_their_lines(command: InProcess) -> None:
    """An unknown task, broken JSON, a missing field: the rest is graded, exit code 1."""
    good = json.dumps({"task_id": "t/0", "completion": RIGHT})
    unknown = json.dumps({"task_id": "t/9", "completion": RIGHT})
    samples = command.write(
        "samples.jsonl", f'{good}\n{unknown}\n{{"task_id": \n{{"task_id": "t/0"}}\n'
    )
    ended = grade(command, write_problems(command, 1), samples)
    assert ended.code == 1
    assert "pass@1    1.0000" in ended.output
    assert "3 lines of input set aside:" in ended.errors
    assert "samples.jsonl:2: no problem has the task_id 't/9'" in ended.errors
    assert "samples.jsonl:3: " in ended.errors
    assert "samples.jsonl:4: " in ended.errors
    assert ended.errors.count("samples.jsonl:2: ") == 1


def test_problems_without_a_sample_are_said(command: InProcess) -> None:
    """The score over one problem of three must not look like the score over all."""
    problems = write_problems(command, 3)
    samples = write_samples(command, ("t/0", RIGHT))
    ended = grade(command, problems, samples)
    assert ended.code == 0, ended.errors
    assert "2 of 3 problems have no sample; the score is of the others" in ended.output
    facts = grade(command, problems, samples, "--json").facts
    assert (facts["pass_at_1"], facts["problems_without_sample"]) == (1.0, 2)


def test_gzipped_files_are_read_as_they_are(command: InProcess) -> None:
    """Both problems and samples."""
    problems = command.folder / write_problems(command, 1)
    samples = command.folder / write_samples(command, ("t/0", RIGHT))
    for path in (problems, samples):
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
    ended = grade(command, "problems.gz", "samples.gz", "--json")
    assert (ended.code, ended.facts["pass_at_1"]) == (0, 1.0)


def test_a_samples_file_is_taken_as_it_is(command: InProcess) -> None:
    """Markdown is for chat models; in a samples file it is a syntax error."""
    samples = write_samples(command, ("t/0", f"```python\n{RIGHT}```"))
    ended = grade(command, write_problems(command, 1), samples, "--json")
    assert ended.facts["classes"] == {"syntax_error": 1}
    assert ended.code == 0


def test_a_wrong_answer_is_a_verdict_not_a_failed_item(command: InProcess) -> None:
    """Every way in which a program can end is exit code 0."""
    samples = write_samples(
        command,
        ("t/0", WRONG),
        ("t/0", "    while True: pass\n"),
        ("t/0", "    raise KeyError\n"),
        ("t/0", "    import os; os._exit(0)\n"),
        ("t/0", "    return [0] * 10**9\n"),
    )
    ended = grade(command, write_problems(command, 1), samples, "--json", "--memory-mb", "200")
    assert (ended.code, ended.facts["ok"]) == (0, 5)
    assert set(ended.facts["classes"]) == {"wrong", "timeout", "exception", "crashed", "memory"}
    assert ended.facts["pass_at_1"] == 0.0


# --- The embedded provider ----------------------------------------------------------------


def test_a_label_that_is_wrong_does_not_go_unnoticed(
    command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One label is perturbed: exit code 4, the sample is named, the result is still there."""
    problems = write_problems(command, 3)
    monkeypatch.setattr(
        _job, "AnswerBook", functools.partial(AnswerBook, relabel={("t/0", 0): Label.ENDLESS_LOOP})
    )
    ended = command("run", "codeeval", "--items", problems, *FOREIGN, *QUICK, "--json")
    assert ended.code == 4
    assert "VIOLATED" in ended.errors
    assert "t/0#0 is passed, expected timeout" in ended.errors
    assert "t/1#0" not in ended.errors
    assert ended.facts["graded"] == 3
    assert ended.facts["pass_at_1"] != ended.facts["expected_pass_at_1"]


def test_a_violation_is_worse_than_a_line_set_aside(
    command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several exit codes the most serious wins; the table is still there."""
    write_problems(command, 2)
    path = command.folder / "problems.jsonl"
    path.write_text(path.read_text() + "\nno json\n")
    monkeypatch.setattr(
        _job, "AnswerBook", functools.partial(AnswerBook, relabel={("t/0", 0): Label.ENDLESS_LOOP})
    )
    ended = command("run", "codeeval", "--items", path.name, *FOREIGN, *QUICK)
    assert ended.code == 4
    assert "problems.jsonl:3: " in ended.errors
    assert "VIOLATED" in ended.errors
    assert "pass@1 " in ended.output


def test_several_samples_per_problem_are_asked_for(command: InProcess) -> None:
    """`--n` multiplies the items; every k that is shown has its expected score."""
    problems = write_problems(command, 2)
    ended = command("run", "codeeval", "--items", problems, "--n", "2", "--json", *FOREIGN, *QUICK)
    assert ended.code == 0, ended.errors
    assert (ended.facts["items"], ended.facts["graded"]) == (4, 4)
    assert ended.facts["pass_at_k"].keys() == {"1", "2"}
    assert ended.facts["pass_at_1"] == ended.facts["expected_pass_at_1"]


# --- Other models -------------------------------------------------------------------------


def test_any_endpoint_of_this_protocol_is_asked(
    command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the key of the environment, each sample once, not more at a time than was said."""
    with Serving(mean_seconds=0.01) as serving:
        monkeypatch.setenv("OPENAI_API_KEY", serving.provider.key)
        ended = command("run", "codeeval", *serving.options, "--in-flight", "3", "--json")
        now = serving.provider.statistics()
    assert ended.code == 0, ended.errors
    assert serving.book.expected_pass_at(1) == ended.facts["pass_at_1"]
    assert Counter(serving.book.expected_verdicts()) == ended.facts["classes"]
    assert ended.facts["expected_pass_at_1"] is None
    assert set(now.delivered.values()) == {1}
    assert (len(now.delivered), now.requests) == (24, 24)
    assert now.peak_in_flight <= 3
    assert ended.facts["peak_in_flight"] <= 3
    assert serving.provider.key not in ended.output + ended.errors


# --- Options ------------------------------------------------------------------------------


def refuse(command: InProcess, *options: str) -> str:
    """Return the message with which options are refused, before anything was begun."""
    ended = command("run", "codeeval", *options)
    assert ended.code == 2
    assert ended.output == ""
    assert not (command.folder / "millpond-runs").exists()
    assert "Traceback" not in ended.errors
    return ended.errors


@pytest.mark.parametrize(
    "options",
    [
        ("--items", "problems.jsonl"),
        ("--samples", "samples.jsonl"),
        ("--model", "m", "--base-url", "http://127.0.0.1:1/v1"),
    ],
    ids=lambda options: options[0],
)
def test_foreign_code_needs_a_flag(command: InProcess, options: tuple[str, ...]) -> None:
    """Whichever door it comes in by, and before any file is opened or anybody is asked."""
    said = refuse(command, *options)
    assert "not a security boundary" in said
    assert "to do: add --allow-code-execution" in said


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--model", "m"), "--model and --base-url belong together"),
        (("--base-url", "http://x/v1"), "--model and --base-url belong together"),
        (("--model", "m", "--base-url", "x/v1", *FOREIGN), "http://"),
        (("--samples", "s", "--model", "m", "--base-url", "http://x"), "exclude each other"),
        (("--samples", "s", "--base-url", "http://x"), "exclude each other"),
        (("--n", "0"), "--n must be > 0, got 0"),
        (("--in-flight=-1",), "--in-flight must be >= 0, got -1"),
        (("--physical=-1",), "--physical must be >= 0, got -1"),
        (("--latency", "nan"), "--latency must be >= 0, got nan"),
        (("--time-limit", "0"), "--time-limit must be > 0, got 0.0"),
        (("--memory-mb=-5",), "--memory-mb must be > 0, got -5"),
        (("--memory-mb", "1"), "--memory-mb must be >= 128, what an interpreter itself takes"),
        (("--time-limit", "inf"), "--time-limit must be finite, got inf"),
        (("--latency", "inf"), "--latency must be finite, got inf"),
    ],
    ids=" ".join,
)
def test_options_that_can_never_work_are_refused(
    command: InProcess, options: tuple[str, ...], what: str
) -> None:
    """Each by its name, with what was expected and what came."""
    assert what in refuse(command, *options)


def test_all_numbers_that_are_wrong_are_said_at_once(command: InProcess) -> None:
    """So that nobody has to try again for each."""
    said = refuse(command, "--n", "0", "--latency=-1")
    assert "--latency must be >= 0, got -1.0; --n must be > 0, got 0" in said


def test_problems_with_one_prompt_are_refused_by_the_embedded_provider(command: InProcess) -> None:
    """Whoever answers could not tell them apart."""
    row = json.loads((command.folder / write_problems(command, 1)).read_text())
    command.write("twins.jsonl", f"{json.dumps(row)}\n{json.dumps({**row, 'task_id': 't/twin'})}\n")
    assert "have the same prompt" in refuse(command, "--items", "twins.jsonl", *FOREIGN)


async def test_a_missing_protection_needs_a_flag_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For foreign code only; isolation never weakens by itself."""
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({"task_id": "millpond/0", "completion": RIGHT}))
    lacking = Protections(
        network=False, user=True, privileges=True, memory=True, parent_death=True, strays=True
    )
    monkeypatch.setattr(Zygote, "protections", lacking)
    job = find_job("codeeval")
    foreign = {"samples": path, "allow_code_execution": True}
    with pytest.raises(InputError, match=r"lacks protections on this system: .*network") as caught:
        async with job.open(foreign):
            pass
    assert "--allow-missing-isolation" in caught.value.hint
    async with job.open({**foreign, "allow_missing_isolation": True}) as opened:
        assert opened.total == 1
    async with job.open({}) as opened:
        assert opened.total == 24
