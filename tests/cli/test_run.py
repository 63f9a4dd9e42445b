"""`millpond run`: exit codes, messages, results, and how a user's own job is run."""

import json
import os
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from millpond.record import RunState, read_run
from tests.cli.support import (
    DEADLINE_SECONDS,
    FOREIGN,
    InProcess,
    Serving,
    finish,
    only_run,
    query,
    run,
    start,
)

JOBS = '''\
import asyncio
from millpond.errors import InputError, Transient
from millpond.flow import Pipeline
from millpond.jobs import Job, Report, job

async def supply():
    return "T"

async def request(item):
    return item.upper()

async def consume(t, answer, item):
    return answer

def make(items=("a", "b", "c"), key=str, **parts):
    parts = {"supply": supply, "request": request, "consume": consume, **parts}
    return Job(Pipeline(supply_failures=2, **parts), items=items, key=key)

@job
async def good():
    """Do nothing wrong."""
    return make()

@job
async def no_supplier():
    async def broken():
        raise OSError("no room")
    return make(supply=broken)

@job
async def broken_source():
    def source():
        yield "a"
        raise OSError("the well is dry")
    return make(items=source())

@job
async def one_fails():
    async def picky(t, answer, item):
        if item == "b":
            raise KeyError("not b")
        return answer
    return make(consume=picky)

@job
async def five_ways():
    async def picky(t, answer, item):
        raise ValueError(f"reason {item}")
    return make(items=[str(n) for n in range(8)], consume=picky)

@job
async def breaks_open():
    raise OSError("cannot begin")

@job
async def cleans_up(*, fail: bool = False):
    print("set up")
    try:
        yield make()
        if fail:
            raise OSError("cannot end")
    finally:
        print("cleaned up")

@job
async def bad_settings():
    async def ask(item):
        raise InputError("the key is wrong", where="KEY", hint="set another")
    return make(request=ask)

@job
async def same_keys():
    return make(key=lambda item: "one")
'''


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process, beside a file of jobs."""
    command = InProcess(tmp_path, monkeypatch, capsys)
    command.write("run_jobs.py", JOBS)
    return command


# --- Results ------------------------------------------------------------------------------


def test_a_good_run(command: InProcess) -> None:
    """Exit code 0; the result on standard output, what is not a result on the other."""
    ended = command("run", "run_jobs.py:good")
    assert ended.code == 0
    run = only_run(command.folder / "millpond-runs")
    lines = ended.output.splitlines()
    assert lines[0] == "     3  ok"
    assert lines[-2].startswith("3 items: 3 ok. ")
    assert lines[-1] == f"run {run.name} is finished; record {run}/record.db"
    assert ended.errors.splitlines() == [
        f"run {run.name}; Ctrl+C once ends gracefully, twice at once"
    ]


def test_json_is_one_object_and_nothing_else(command: InProcess) -> None:
    """On one line; errors, if any, are on standard error."""
    ended = command("run", "run_jobs.py:good", "--json")
    assert ended.code == 0
    assert ended.output.count("\n") == 1
    assert (ended.facts["job"], ended.facts["items"], ended.facts["state"]) == (
        "good",
        3,
        "finished",
    )
    assert Path(ended.facts["record"]).is_file()


def test_the_folder_of_the_runs_is_an_option_or_a_variable(
    command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option wins."""
    monkeypatch.setenv("MILLPOND_RUNS_DIR", "by-variable")
    command("run", "run_jobs.py:good")
    command("run", "run_jobs.py:good", "--runs-dir", "by-option")
    assert only_run(command.folder / "by-variable")
    assert only_run(command.folder / "by-option")
    assert not (command.folder / "millpond-runs").exists()


def test_a_job_that_yields_cleans_up_before_its_result(command: InProcess) -> None:
    """The result is printed when everything has ended."""
    ended = command("run", "run_jobs.py:cleans_up")
    assert ended.code == 0
    lines = ended.output.splitlines()
    assert lines[:3] == ["set up", "cleaned up", "     3  ok"]


# --- Things that are not ok ---------------------------------------------------------------


def test_an_item_that_fails_is_exit_code_1(command: InProcess) -> None:
    """The rest is done; how it failed is said once, and how to try it again."""
    ended = command("run", "run_jobs.py:one_fails")
    assert ended.code == 1
    assert "3 items: 1 failed, 2 ok" in ended.output
    assert ended.errors.count("not b") == 1
    assert "1 x failed in consume: KeyError: 'not b'" in ended.errors
    assert "--resume" in ended.errors
    assert "Traceback" not in ended.errors


@pytest.mark.parametrize("more", [(), ("--runs-dir", "other runs")], ids=["default", "runs-dir"])
def test_the_command_to_go_on_with_can_be_typed_as_it_is(
    command: InProcess, more: tuple[str, ...]
) -> None:
    """It has the job by the name it was given, and the folder; a space in it is quoted."""
    first = command("run", "run_jobs.py:one_fails", *more)
    (line,) = (line for line in first.errors.splitlines() if line.startswith("go on with: "))
    program, *arguments = shlex.split(line.removeprefix("go on with: "))
    assert program == "millpond"
    again = command(*arguments, "--json")
    assert again.code == 1, again.errors
    assert (again.facts["items"], again.facts["ok"]) == (3, 2)
    only_run(command.folder / (more[-1] if more else "millpond-runs"))


def test_a_few_ways_to_fail_are_shown_and_the_rest_counted(command: InProcess) -> None:
    """The same failure of many items is one line."""
    ended = command("run", "run_jobs.py:five_ways")
    assert ended.code == 1
    assert ended.errors.count("1 x failed in consume: ValueError: reason ") == 5
    assert "and 3 other ways" in ended.errors


def test_a_supplier_that_always_fails(command: InProcess) -> None:
    """Exit code 1, with the cause; the traceback is in the run's folder."""
    ended = command("run", "run_jobs.py:no_supplier")
    assert ended.code == 1
    assert "millpond: the supplier failed 2 times in a row, last with OSError('no room')" in (
        ended.errors
    )
    assert "Traceback" not in ended.errors
    run = only_run(command.folder / "millpond-runs")
    assert "is failed; record" in ended.output
    traceback = (run / "traceback.txt").read_text()
    assert "OSError: no room" in traceback
    assert "SupplierFailed" in traceback


def test_a_supplier_that_always_fails_is_said_once(command: InProcess) -> None:
    """Not once more for each item that it ended; and how to go on is said too."""
    ended = command("run", "run_jobs.py:no_supplier")
    assert ended.errors.count("no room") == 1
    assert ended.errors.count("go on with: ") == 1


def test_a_source_that_raises(command: InProcess) -> None:
    """Exit code 1; what it gave before is done."""
    ended = command("run", "run_jobs.py:broken_source", "--json")
    assert ended.code == 1
    assert (ended.facts["items"], ended.facts["ok"]) == (1, 1)
    assert ended.facts["state"] == "failed"
    assert ended.facts["error"].startswith("SourceFailed: ")
    assert ended.errors.count("the well is dry") == 1


def test_verbose_shows_the_traceback(command: InProcess) -> None:
    """On the screen, with the cause."""
    ended = command("run", "run_jobs.py:broken_source", "-v")
    assert ended.code == 1
    assert "Traceback" in ended.errors
    assert "OSError: the well is dry" in ended.errors


def test_a_job_that_cannot_begin(command: InProcess) -> None:
    """Its own error, by name; no run was made."""
    ended = command("run", "run_jobs.py:breaks_open")
    assert ended.code in (1, 2)
    assert ended.errors.startswith("millpond: OSError: cannot begin\n")
    assert "Traceback" not in ended.errors
    assert not (command.folder / "millpond-runs").exists()
    assert "Traceback" in command("run", "run_jobs.py:breaks_open", "-v").errors


def test_a_clean_up_that_fails_is_said(command: InProcess) -> None:
    """With the traceback in the run's folder; the record has what was done."""
    ended = command("run", "run_jobs.py:cleans_up", "--fail")
    assert ended.code == 1
    assert "millpond: OSError: cannot end" in ended.errors
    run = only_run(command.folder / "millpond-runs")
    assert "OSError: cannot end" in (run / "traceback.txt").read_text()
    assert query(run / "record.db", "SELECT count(*) FROM outcomes WHERE status = 'ok'") == [(3,)]


def test_a_setting_that_turns_out_to_be_wrong_ends_the_run(command: InProcess) -> None:
    """Every other item would meet it too: exit code 2, with where and what to do."""
    ended = command("run", "run_jobs.py:bad_settings")
    assert ended.code == 2
    lines = ended.errors.splitlines()
    at = lines.index("millpond: the key is wrong")
    assert lines[at + 1 : at + 3] == ["  where: KEY", "  to do: set another"]
    assert "is failed; record" in ended.output


def test_two_items_of_one_key_are_a_mistake_in_the_job(command: InProcess) -> None:
    """The record could not tell them apart; it is said, not lost."""
    ended = command("run", "run_jobs.py:same_keys")
    assert ended.code != 0
    assert "one" in ended.errors


BREAKING = JOBS.replace(
    "async def supply():\n",
    "async def supply():\n"
    "    import glob, sqlite3\n"
    "    (path,) = glob.glob('millpond-runs/*/record.db')\n"
    "    connection = sqlite3.connect(path)\n"
    "    connection.execute('CREATE TRIGGER IF NOT EXISTS full BEFORE INSERT ON outcomes'\n"
    "        \" BEGIN SELECT RAISE(ABORT, 'no space left'); END\")\n"
    "    connection.close()\n",
)
"""The same jobs, but from the first T on the record takes no outcome."""


def test_a_record_that_fails_still_shows_the_result(command: InProcess) -> None:
    """Exit code 1, the outcomes, and how many of them are not kept."""
    command.write("breaking.py", BREAKING)
    ended = command("run", "breaking.py:good")
    assert ended.code == 1
    assert "     3  ok" in ended.output
    assert "3 outcomes are NOT in the record" in ended.errors


def test_a_run_whose_record_failed_is_not_called_finished(command: InProcess) -> None:
    """The result and the record agree that it failed, and how to go on is said."""
    command.write("breaking.py", BREAKING)
    ended = command("run", "breaking.py:good", "--json")
    assert ended.code == 1
    assert (ended.facts["state"], ended.facts["unrecorded"]) == ("failed", 3)
    assert read_run(only_run(command.folder / "millpond-runs")).state is RunState.FAILED
    assert "go on with: millpond run breaking.py:good --resume " in ended.errors


# --- Refused before anything was begun ----------------------------------------------------


def show(value: str | tuple[str, ...]) -> str:
    """Return the name of a case: its options."""
    return "" if isinstance(value, str) else " ".join(value)


BAD_NAMES = [
    ("run_jobs.py", "expected one job, found good, "),
    ("run_jobs.py:gone", "no job called 'gone' there"),
    ("gone.py", "no such file"),
    ("gone.inner:one", "no module named 'gone'"),
    ("codeval", "did you mean 'codeeval'?"),
    (":good", "no job of that name"),
]


@pytest.mark.parametrize(("name", "what"), BAD_NAMES)
def test_a_job_that_is_not_there(command: InProcess, name: str, what: str) -> None:
    """Exit code 2, in one message with its place."""
    ended = command("run", name)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.startswith("millpond: ")
    assert ended.errors.count(what) == 1
    assert "  where: " in ended.errors
    assert "Traceback" not in ended.errors
    assert "Traceback" in command("run", name, "--verbose").errors


UNUSABLE = {
    "broken_syntax.py": ("def (:\n", "cannot be imported: SyntaxError: "),
    "broken_import.py": ("import run_nowhere\n", "No module named 'run_nowhere'"),
    "broken_code.py": ("1 / 0\n", "cannot be imported: ZeroDivisionError: "),
    "plain_def.py": ("from millpond.jobs import job\n@job\ndef f(): ...\n", "an `async def`"),
    "no_job_made.py": (
        "from millpond.jobs import job\n@job\nasync def f(): return 3\n",
        "job 'f' must return (or yield) a millpond.jobs.Job, got 3",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_job_that_cannot_be_used(command: InProcess, name: str) -> None:
    """A mistake in its file is exit code 2, said once; -v shows where it comes from."""
    text, what = UNUSABLE[name]
    command.write(name, text)
    ended = command("run", name)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.startswith("millpond: ")
    assert ended.errors.count(what) == 1
    assert "Traceback" not in ended.errors
    assert not (command.folder / "millpond-runs").exists()
    assert "Traceback" in command("run", name, "-v").errors


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("run",), "JOB"),
        (("run", "codeeval", "--nope"), "--nope"),
        (("run", "codeeval", "--n", "many"), "expected a whole number, got 'many'"),
        (("run", "codeeval", "--n", "1.5"), "expected a whole number, got '1.5'"),
        (("run", "codeeval", "--n"), "--n"),
        (("run", "codeeval", "stray"), "stray"),
        (("nope",), "nope"),
        (("runs", "--nope"), "--nope"),
    ],
    ids=show,
)
def test_wrong_usage_is_exit_code_2(
    command: InProcess, arguments: tuple[str, ...], what: str
) -> None:
    """Said once, with what came, and where the help is."""
    ended = command(*arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.startswith("millpond: ")
    assert what in ended.errors
    assert "to do: " in ended.errors
    assert "Traceback" not in ended.errors


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "no such file"),
        ("", "got an empty file"),
        ("x\n", "no usable line among 1"),
        ("x\n", "line 1: not JSON"),
    ],
)
@pytest.mark.parametrize("option", ["--items", "--samples"])
def test_a_file_that_is_of_no_use(
    command: InProcess, option: str, content: str | None, what: str
) -> None:
    """Missing, empty, without one good line: exit code 2, once, with the file's name."""
    if content is not None:
        command.write("given.jsonl", content)
    ended = command("run", "codeeval", option, "given.jsonl", *FOREIGN)
    assert (ended.code, ended.output) == (2, "")
    assert "  where: given.jsonl\n" in ended.errors
    assert ended.errors.startswith("millpond: ")
    assert ended.errors.count("millpond: ") == 1
    assert ended.errors.count(what) == 1
    assert "Traceback" not in ended.errors
    assert not (command.folder / "millpond-runs").exists()


# --- Endpoints ----------------------------------------------------------------------------


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def test_an_endpoint_that_cannot_be_reached(command: InProcess) -> None:
    """Said before the first question, once, with the address."""
    url = f"http://127.0.0.1:{closed_port()}/v1"
    ended = command("run", "codeeval", "--model", "m", "--base-url", url, *FOREIGN)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.count("cannot reach ") == 1
    assert ended.errors.count(url) == 1
    assert "to do: check --base-url" in ended.errors
    assert not (command.folder / "millpond-runs").exists()


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Return a provider that wants a key."""
    with Serving(mean_seconds=0.0) as serving:
        yield serving


@pytest.mark.parametrize(("key", "what"), [("sk-wrong", "refuses the key"), ("", "wants a key")])
def test_a_wrong_key_is_said_before_the_first_question(
    command: InProcess, monkeypatch: pytest.MonkeyPatch, serving: Serving, key: str, what: str
) -> None:
    """Once, with the variable to set; nothing was asked, and the key is never shown."""
    before = serving.provider.statistics().requests
    monkeypatch.setenv("OPENAI_API_KEY", key)
    ended = command("run", "codeeval", *serving.options)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.count(what) == 1
    assert "set the environment variable OPENAI_API_KEY" in ended.errors
    assert "sk-wrong" not in ended.errors
    assert serving.provider.statistics().requests == before
    assert not (command.folder / "millpond-runs").exists()


def test_a_model_that_is_not_served_is_said_with_those_that_are(
    command: InProcess, monkeypatch: pytest.MonkeyPatch, serving: Serving
) -> None:
    """At the first answer: exit code 2, and what there is."""
    monkeypatch.setenv("OPENAI_API_KEY", serving.provider.key)
    options = ["x" if part == serving.provider.model else part for part in serving.options]
    ended = command("run", "codeeval", *options)
    assert ended.code == 2
    assert f"models served there: {serving.provider.model}" in ended.errors
    assert "0 of 24 samples have a verdict" in ended.output


class Refusing(BaseHTTPRequestHandler):
    """Shows its models to anybody, and answers nobody."""

    protocol_version = "HTTP/1.1"
    questions = 0

    def do_GET(self) -> None:
        """Answer the check."""
        self._say(200, {"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        """Refuse the question."""
        type(self).questions += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(401, {"error": {"message": "the key has no credit"}})

    def _say(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that says nothing of clients that leave."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: it would be taken for words of the command."""


@pytest.fixture
def refusing() -> Iterator[str]:
    """Return the base URL of an endpoint that accepts the key only until it matters."""
    Refusing.questions = 0
    with Quiet(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_a_key_that_is_refused_at_the_first_answer(
    command: InProcess, monkeypatch: pytest.MonkeyPatch, refusing: str
) -> None:
    """Exit code 2; nothing is tried again, and what was not begun is not asked for."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    ended = command(
        *("run", "codeeval", "--model", "m", "--base-url", refusing, "--in-flight", "2", *FOREIGN)
    )
    assert ended.code == 2
    assert "refuses the key (401): the key has no credit" in ended.errors
    assert "  to do: set the environment variable OPENAI_API_KEY to a valid key" in ended.errors
    assert "sk-wrong" not in ended.errors
    assert ended.errors.count("the key has no credit") == 1
    assert Refusing.questions <= 2
    assert "is failed; record" in ended.output
    assert "Traceback" not in ended.errors


def test_ctrl_c_before_the_run_begins(tmp_path: Path) -> None:
    """While the endpoint is slow to show its models: exit code 130, in one line."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(DEADLINE_SECONDS)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        process = start(
            *("run", "codeeval", "--model", "m", "--base-url", url, *FOREIGN), cwd=tmp_path
        )
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(DEADLINE_SECONDS)
            assert connection.recv(1)
            os.killpg(process.pid, signal.SIGINT)
            ended = finish(process)
    assert (ended.code, ended.output) == (130, "")
    assert ended.errors == "millpond: interrupted before the run began; nothing was kept\n"
    assert not (tmp_path / "millpond-runs").exists()


# --- Going on -----------------------------------------------------------------------------


def test_other_options_than_the_recorded_ones_are_refused(command: InProcess) -> None:
    """With the difference; nothing is changed by the refusal."""
    problem = {
        "task_id": "t/0",
        "prompt": "def one():\n",
        "entry_point": "one",
        "canonical_solution": "    return 1\n",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
    }
    command.write("problems.jsonl", json.dumps(problem))
    command.write("samples.jsonl", json.dumps({"task_id": "t/0", "completion": "    return 1\n"}))
    files = ("--items", "problems.jsonl", "--samples", "samples.jsonl")
    first = command("run", "codeeval", *files, *FOREIGN, "--json")
    assert first.code == 0
    for resume in ("last", first.facts["run_id"], str(Path(first.facts["record"]).parent)):
        refused = command("run", "codeeval", "--resume", resume, "--time-limit", "7", "--n", "4")
        assert (refused.code, refused.output) == (2, "")
        assert "--n: recorded None, now 4; --time-limit: recorded 3.0, now 7.0" in refused.errors
        assert "add --force" in refused.errors
    same = command("run", "codeeval", "--resume", "last", "--time-limit", "3", "--json")
    forced = command("run", "codeeval", "--resume", "last", "--time-limit", "7", "--force")
    assert (same.code, forced.code) == (0, 0)
    assert same.facts["run_id"] == first.facts["run_id"]


def test_a_run_of_another_job_is_not_resumed(command: InProcess) -> None:
    """The message says which job it is of."""
    command("run", "run_jobs.py:good")
    ended = command("run", "run_jobs.py:one_fails", "--resume", "last")
    assert (ended.code, ended.output) == (2, "")
    assert "it is a run of job 'good', not of 'one_fails'" in ended.errors


@pytest.mark.parametrize("name", ["last", "gone"])
def test_a_run_that_is_not_there_is_not_resumed(command: InProcess, name: str) -> None:
    """Exit code 2, and what to do."""
    ended = command("run", "run_jobs.py:good", "--resume", name)
    assert (ended.code, ended.output) == (2, "")
    assert "where: millpond-runs" in ended.errors
    assert "to do: " in ended.errors


def test_help_says_what_there_is(command: InProcess) -> None:
    """The command's, and that of a job with its options."""
    assert "codeeval" in command("run", "--help").output
    ended = command("run", "codeeval", "--help")
    assert ended.code == 0
    for option in ("--samples", "--n", "--allow-code-execution", "--resume", "--json"):
        assert option in ended.output
    assert "not a security boundary" in " ".join(ended.output.split())
    assert not (command.folder / "millpond-runs").exists()


DEAF = """\
import asyncio
from millpond.flow import Capacity, Pipeline
from millpond.jobs import Job, job

async def supply(): ...
async def request(item): return item

async def consume(_, answer, item):
    while item == 0:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    return answer

@job
async def deaf():
    work = Pipeline(
        supply=supply, request=request, consume=consume, consume_timeout=0.1, grace=0.1,
        capacity=Capacity(physical=2),
    )
    return Job(work, items=range(3), key=str)
"""


def test_a_stage_that_ignores_its_cancel_does_not_hold_the_process(tmp_path: Path) -> None:
    """The others' results are printed, it is named, and the command ends."""
    (tmp_path / "deaf.py").write_text(DEAF)
    ended = run("run", "deaf.py", "--json", cwd=tmp_path)
    assert ended.code == 1
    assert ended.facts["by_status"] == {"abandoned": 1, "ok": 2}
    assert "ending without consume of 0, which ignored the cancel" in ended.errors


def test_text_of_others_does_not_steer_the_terminal(command: InProcess) -> None:
    """Control characters of an error are shown, not sent."""
    command.write("red.py", JOBS.replace('KeyError("not b")', 'ValueError("\\x1b[31mred")'))
    ended = command("run", "red.py:one_fails")
    assert "\\x1b[31mred" in ended.errors
    assert "\x1b" not in ended.errors + ended.output


def test_json_holds_what_prevented_a_run(command: InProcess) -> None:
    """One object on standard output, also when nothing was begun."""
    ended = command("run", "codeeval", "--samples", "missing.jsonl", *FOREIGN, "--json")
    assert ended.code == 2
    error = ended.facts["error"]
    assert error["where"] == "missing.jsonl"
    assert error["exit_code"] == 2
    assert error["message"] == "no such file"
