"""Exit codes, and what an error message looks like."""

import io
import sys

import pytest

from millpond.cli._exit import SERIOUSNESS, Exit, code_of, most_serious, say, say_error
from millpond.errors import InputError, RecordError, SourceFailed


def test_of_several_codes_the_most_serious_wins() -> None:
    """Violated, usage, interrupted, terminated, failed items; and all ok where there is none."""
    assert [int(code) for code in SERIOUSNESS] == [4, 2, 130, 143, 1, 0]
    assert most_serious(set(Exit)) is Exit.VIOLATED
    assert most_serious({Exit.ITEMS_FAILED, Exit.TERMINATED}) is Exit.TERMINATED
    assert most_serious({Exit.INTERRUPTED, Exit.TERMINATED}) is Exit.INTERRUPTED
    assert most_serious(set()) is Exit.OK


def test_input_and_record_errors_are_usage_the_rest_failed() -> None:
    """The first two mean that nothing can succeed until something is mended."""
    assert code_of(InputError("x")) is Exit.USAGE
    assert code_of(RecordError("x", path="p")) is Exit.USAGE
    assert code_of(SourceFailed(pulled=1, cause=OSError())) is Exit.ITEMS_FAILED
    assert code_of(KeyError("x")) is Exit.ITEMS_FAILED


def said(error: BaseException, capsys: pytest.CaptureFixture[str], *, verbose: bool) -> list[str]:
    """Return the lines of a message."""
    say_error(error, verbose=verbose)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_an_error_is_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """What, where, and what to do; nothing is said twice."""
    error = InputError("expected a number, got 'x'", where="a.jsonl:3", hint="mend it")
    assert said(error, capsys, verbose=False) == [
        "millpond: expected a number, got 'x'",
        "  where: a.jsonl:3",
        "  to do: mend it",
    ]


def test_a_record_error_names_its_file_as_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in brackets behind the sentence as well."""
    error = RecordError("cannot write", path="/x/record.db", hint="make room")
    assert said(error, capsys, verbose=False) == [
        "millpond: cannot write",
        "  where: /x/record.db",
        "  to do: make room",
    ]


def test_what_is_unknown_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """An error without place and hint is one line, and nothing is cut out of its sentence."""
    assert said(InputError("a: b; c ()"), capsys, verbose=False) == ["millpond: a: b; c ()"]


def test_an_error_of_other_code_has_its_type_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """A KeyError says nothing without its name."""
    lines = said(KeyError("x"), capsys, verbose=False)
    assert lines[0] == "millpond: KeyError: 'x'"
    assert "-v" in lines[1]


def test_the_traceback_comes_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """With the causes, below the message."""
    error = InputError("no", where="here")
    error.__cause__ = OSError("the cause")
    lines = said(error, capsys, verbose=True)
    assert lines[0] == "millpond: no"
    assert any("the cause" in line for line in lines)
    assert lines[-1] == "millpond.errors.InputError: here: no"


def test_a_terminal_that_is_gone_does_not_break_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be said to anybody is dropped."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    monkeypatch.setattr(sys, "stderr", Gone())
    say("x")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    say("x")
