"""Options: from a job's parameters to the command line, into the record, and back."""

from pathlib import Path

import pytest

from tests.cli.support import InProcess, only_run, query

TYPED = '''\
from pathlib import Path
from typing import Literal, Optional
from millpond.flow import Pipeline
from millpond.jobs import Job, Report, job

async def supply(): ...
async def request(item): return item
async def consume(t, answer, item): return answer

@job
async def typed(
    *,
    count: int,
    share: float = 0.5,
    fast: bool = True,
    quiet: bool = False,
    place: Path = Path("somewhere"),
    names: list[str] = ["p"],
    paths: list[Path] | None = None,
    numbers: list[int] = [],
    limit: Optional[int] = None,
    mode: Literal["a", "b"] = "a",
    text: str = "d",
    type_: str = "none",
):
    """Show what arrives.

    Args:
        count: How many there are.
    """
    seen = dict(locals())
    return Job(
        Pipeline(supply=supply, request=request, consume=consume),
        items=["a"],
        key=str,
        report=lambda results: Report(text=repr(seen)),
    )
'''

DEFAULTS: dict[str, object] = {
    "share": 0.5,
    "fast": True,
    "quiet": False,
    "place": Path("somewhere"),
    "names": ["p"],
    "paths": None,
    "numbers": [],
    "limit": None,
    "mode": "a",
    "text": "d",
    "type_": "none",
}


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Return the command, run in this process, beside a job with many options."""
    command = InProcess(tmp_path, monkeypatch, capsys)
    command.write("typed_job.py", TYPED)
    return command


def seen(command: InProcess, *options: str) -> dict[str, object]:
    """Return what arrived at the job."""
    ended = command("run", "typed_job.py", *options)
    assert ended.code == 0, ended.errors
    first = ended.output.splitlines()[0]
    arrived: dict[str, object] = eval(first, {"PosixPath": Path})  # noqa: S307 - our own repr
    return arrived


OPTIONS = [
    (("--count=-3",), {"count": -3}),
    (("--count", "3", "--share", "1e-3"), {"count": 3, "share": 0.001}),
    (("--count", "3", "--share", "2"), {"count": 3, "share": 2.0}),
    (("--count", "3", "--no-fast", "--quiet"), {"count": 3, "fast": False, "quiet": True}),
    (("--count", "3", "--place", "/there"), {"count": 3, "place": Path("/there")}),
    (("--count", "3", "--names", "x y", "--names", "z"), {"count": 3, "names": ["x y", "z"]}),
    (("--count", "3", "--numbers", "1", "--numbers", "2"), {"count": 3, "numbers": [1, 2]}),
    (("--count", "3", "--paths", "/a"), {"count": 3, "paths": [Path("/a")]}),
    (("--count", "3", "--limit", "0"), {"count": 3, "limit": 0}),
    (("--count", "3", "--mode", "b"), {"count": 3, "mode": "b"}),
    (("--count", "3", "--text", "None"), {"count": 3, "text": "None"}),
    (("--count", "3", "--text", ""), {"count": 3, "text": ""}),
    (("--count", "3", "--text", "two words\n"), {"count": 3, "text": "two words\n"}),
    (("--count", "3", "--type", "x"), {"count": 3, "type_": "x"}),
    # What looks like an option, or like nothing, once it is in the record.
    (("--count", "3", "--text=-abc"), {"count": 3, "text": "-abc"}),
    (("--count", "3", "--text=--json"), {"count": 3, "text": "--json"}),
    (("--count", "3", "--text=a=b"), {"count": 3, "text": "a=b"}),
    (("--count", "3", "--names=-x", "--names=y"), {"count": 3, "names": ["-x", "y"]}),
    (("--count", "3", "--numbers=-1"), {"count": 3, "numbers": [-1]}),
    (("--count", "3", "--empty-names"), {"count": 3, "names": []}),
    (("--count", "3", "--empty-paths"), {"count": 3, "paths": []}),
]


@pytest.mark.parametrize(("options", "expected"), OPTIONS, ids=lambda o: " ".join(o)[-20:])
def test_an_option_arrives_with_its_type_and_comes_back_from_the_record(
    command: InProcess, options: tuple[str, ...], expected: dict[str, object]
) -> None:
    """Resumed without any option, the job gets the very same values."""
    expected = {**DEFAULTS, **expected}
    assert seen(command, *options) == expected
    resumed = seen(command, "--resume", "last")
    if expected["place"] == Path("somewhere"):
        expected["place"] = command.folder / "somewhere"  # so that it holds anywhere
    assert resumed == expected
    assert {name: type(value) for name, value in resumed.items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_paths_hold_in_another_folder(command: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is resumed from anywhere; what it read then is what it reads now."""
    seen(command, "--count", "1", "--place", "here", "--paths", "x", "--paths", "y")
    elsewhere = command.folder / "else"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    ended = command("run", "../typed_job.py", "--resume", "last", "--runs-dir", "../millpond-runs")
    assert ended.code == 0, ended.errors
    assert f"'place': PosixPath('{command.folder / 'here'}')" in ended.output
    assert f"[PosixPath('{command.folder / 'x'}'), PosixPath('{command.folder / 'y'}')]" in (
        ended.output
    )


def test_an_option_given_again_may_be_the_same(command: InProcess) -> None:
    """Only a difference is refused."""
    seen(command, "--count", "3", "--names", "x")
    assert seen(command, "--resume", "last", "--count", "3", "--names", "x")["names"] == ["x"]
    ended = command("run", "typed_job.py", "--resume", "last", "--names", "y", "--mode", "b")
    assert ended.code == 2
    assert "--mode: recorded 'a', now 'b'; --names: recorded ['x'], now ['y']" in ended.errors
    forced = seen(command, "--resume", "last", "--names", "y", "--force")
    assert (forced["names"], forced["count"]) == (["y"], 3)


def test_a_required_option_that_is_missing(command: InProcess) -> None:
    """Exit code 2 with its name; nothing is run."""
    ended = command("run", "typed_job.py")
    assert (ended.code, ended.output) == (2, "")
    assert "millpond: missing: --count" in ended.errors
    assert "--help" in ended.errors
    assert not (command.folder / "millpond-runs").exists()


def test_help_of_a_users_own_job(command: InProcess) -> None:
    """From its signature and docstring; what is required is marked; nothing is run."""
    ended = command("run", "typed_job.py", "--help")
    assert ended.code == 0
    text = " ".join(ended.output.split())
    for part in ("Show what arrives.", "How many there are. [required]", "--no-fast", "--resume"):
        assert part in text
    assert not (command.folder / "millpond-runs").exists()


def show(value: str | tuple[str, ...]) -> str:
    """Return the name of a case: its options."""
    return "" if isinstance(value, str) else " ".join(value)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--mode", "c"), "--mode"),
        (("--share", "half"), "--share"),
        (("--limit", "some"), "--limit"),
        (("--fast", "--unknown"), "--unknown"),
    ],
    ids=show,
)
def test_a_value_of_the_wrong_kind(command: InProcess, options: tuple[str, ...], what: str) -> None:
    """Exit code 2; the message names the option."""
    ended = command("run", "typed_job.py", "--count", "1", *options)
    assert (ended.code, ended.output) == (2, "")
    assert what in ended.errors


@pytest.mark.parametrize("option", ["--count", "--limit", "--numbers"])
@pytest.mark.parametrize("number", ["1.5", "2.0", "1e3"])
def test_a_whole_number_is_not_rounded(command: InProcess, option: str, number: str) -> None:
    """Of an `int` and an `int | None` alike: exit code 2, with the option and what came."""
    ended = command("run", "typed_job.py", f"{option}={number}")
    assert (ended.code, ended.output) == (2, "")
    assert option in ended.errors
    assert f"expected a whole number, got '{number}'" in ended.errors
    assert not (command.folder / "millpond-runs").exists()


HIDING = """\
from millpond.jobs import job

@job
async def hiding(*, {name}: str = "x"):
    raise AssertionError("it was begun")
"""


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("resume", "--resume"),
        ("force", "--force"),
        ("json", "--json"),
        ("json_", "--json"),
        ("runs_dir", "--runs-dir"),
        ("verbose", "--verbose"),
        ("help", "--help"),
    ],
)
def test_a_parameter_that_hides_an_option_of_every_job_is_refused(
    command: InProcess, name: str, option: str
) -> None:
    """Exit code 2, with the parameter to rename, and why; nothing is begun."""
    command.write("hiding.py", HIDING.format(name=name))
    ended = command("run", "hiding.py")
    assert (ended.code, ended.output) == (2, "")
    assert f"job 'hiding' has a parameter {name!r}" in ended.errors
    assert f"{option} is an option of every job; rename it" in ended.errors
    assert not (command.folder / "millpond-runs").exists()


def test_settings_are_in_the_record_as_resolved(command: InProcess) -> None:
    """All of them, defaults included, in JSON's terms."""
    seen(command, "--count", "3")
    record = only_run(command.folder / "millpond-runs") / "record.db"
    ((count, place, mode),) = query(
        record,
        "SELECT settings->>'count', settings->>'place', settings->>'mode' FROM meta",
    )
    assert (count, place, mode) == (3, str(command.folder / "somewhere"), "a")
