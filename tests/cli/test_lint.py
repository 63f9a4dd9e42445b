"""`millpond lint`: other people's code, checked."""

import os
from pathlib import Path

import pytest

from tests.cli.support import InProcess, run

BAD = """\
import time

async def pause(changed, box):
    time.sleep(1)
    if not box.ready:
        await changed.notified()
"""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process."""
    return InProcess(tmp_path, monkeypatch, capsys)


def test_findings_are_grouped_by_file(command: InProcess) -> None:
    """Place, rule, what, why and mend on standard output, the sum beside it; exit code 1."""
    command.write("bad.py", BAD)
    command.write("good.py", "x = 1\n")
    ended = command("lint", "bad.py", "good.py")
    assert ended.code == 1
    lines = ended.output.splitlines()
    assert lines[0] == "bad.py"
    assert lines[1] == "  bad.py:4:5 blocking-call: `time.sleep` blocks the event loop"
    assert lines[2].startswith("    why:  While it blocks")
    assert lines[3].startswith("    mend: Hand the function")
    assert lines[4].startswith("  bad.py:6:9 check-once: `box.ready` is looked at once")
    assert "good.py" not in ended.output
    assert ended.errors == "2 files checked; found: 1 blocking-call, 1 check-once\n"


def test_a_clean_folder(command: InProcess) -> None:
    """Exit code 0, and a line that says what was looked at."""
    command.write("good.py", "x = 1\n")
    ended = command("lint", ".")
    assert (ended.code, ended.output) == (0, "")
    assert ended.errors == "1 file checked, nothing found\n"


def test_one_json_object(command: InProcess) -> None:
    """With a schema, and nothing else on either stream."""
    command.write("bad.py", BAD)
    ended = command("lint", "--json", "bad.py")
    assert (ended.code, ended.errors) == (1, "")
    assert (ended.facts["schema"], ended.facts["files"]) == (1, 1)
    first, second = ended.facts["findings"]
    assert (first["path"], first["line"], first["column"]) == ("bad.py", 4, 5)
    assert set(first) == {"path", "line", "column", "rule", "what", "why", "mend"}
    assert second["rule"] == "check-once"
    command.write("bad.py", "")
    ended = command("lint", "bad.py", "--json")
    assert (ended.code, ended.facts) == (0, {"schema": 1, "files": 1, "findings": []})


def test_chosen_rules_only(command: InProcess) -> None:
    """Several names after one option, or the option several times."""
    command.write("bad.py", BAD)
    for options in (
        ("--rule", "check-once"),
        ("--rule", "check-once", "poll-stop"),
        ("--rule", "poll-stop", "--rule", "check-once"),
    ):
        ended = command("lint", "bad.py", *options, "--json")
        assert [found["rule"] for found in ended.facts["findings"]] == ["check-once"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lint",), "nothing to check"),
        (("lint", "gone.py"), "no such file or folder"),
        (("lint", "empty"), "there is no Python file to check"),
        (("lint", "a.py", "--rule", "check-onec"), "did you mean check-once?"),
        (("lint", "a.py", "--rule", "x"), "one of check-once, poll-stop"),
        (("lint", "a.py", "--colour"), "--colour"),
    ],
)
def test_wrong_usage(command: InProcess, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, nothing on standard output, and what to do."""
    command.write("a.py", "")
    (command.folder / "empty").mkdir()
    ended = command(*arguments)
    assert (ended.code, ended.output) == (2, "")
    assert said in ended.errors


def test_files_that_cannot_be_read_are_findings(command: InProcess) -> None:
    """The others are checked all the same."""
    command.write("broken.py", "def f(:\n")
    (command.folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    command.write("bad.py", BAD)
    ended = command("lint", ".", "--json")
    assert ended.code == 1
    found = [(it["path"], it["rule"]) for it in ended.facts["findings"]]
    assert found == [
        ("bad.py", "blocking-call"),
        ("bad.py", "check-once"),
        ("binary.py", "unreadable"),
        ("broken.py", "unreadable"),
    ]


def test_names_that_are_no_text_are_shown(command: InProcess) -> None:
    """A name of bytes that no encoding explains does not end the run."""
    path = os.fsencode(command.folder) + b"/\xff.py"
    Path(os.fsdecode(path)).write_text(BAD)
    ended = run("lint", ".", cwd=command.folder)
    assert (ended.code, "blocking-call" in ended.output) == (1, True)
