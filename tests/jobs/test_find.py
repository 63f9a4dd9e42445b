"""Finding a job by its name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pytest

from millpond.errors import InputError
from millpond.jobs import BUILT_IN, JobDefinition, find_job

ONE = """\
from millpond.jobs import job

@job
async def one():
    "The first."
"""
TWO = (
    ONE
    + """
@job
async def two():
    "The second."
"""
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder of its own; afterwards path and modules are as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def write(name: str, text: str) -> Path:
    """Write a file in the working directory."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refusal(name: str) -> InputError:
    """Return the error with which a name is refused."""
    with pytest.raises(InputError) as caught:
        find_job(name)
    return caught.value


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_jobs_are_found_by_their_names(name: str) -> None:
    """Each name in the list leads to a job that is called so."""
    assert find_job(name).name == name


def test_a_job_that_was_found_may_have_any_options() -> None:
    """Its type says so, strictly checked: no cast is needed to hand it on."""
    found = find_job("codeeval")
    assert_type(found, JobDefinition[...])
    assert "time_limit" in found.signature.parameters


def test_the_only_job_of_a_file_needs_no_name() -> None:
    """`file.py` is enough."""
    write("my_find_job.py", ONE)
    assert find_job("my_find_job.py").name == "one"


def test_a_job_of_a_file_is_found_by_name() -> None:
    """`file.py:name`, also by an absolute path and in another folder."""
    path = write("deep/er/my_find_job.py", TWO)
    assert find_job(f"{path}:two").name == "two"
    assert find_job(f"{path.absolute()}:one").name == "one"


def test_a_job_of_a_module_is_found_by_name(place: Path) -> None:
    """`package.module:name`, imported from the path."""
    write("find_package/inner.py", TWO)
    sys.path.insert(0, str(place))
    assert find_job("find_package.inner:two").name == "two"


def test_a_file_may_import_its_neighbours() -> None:
    """As with `python file.py`, its folder is on the path."""
    write("deep/find_neighbour.py", "NAME = 'x'\n")
    path = write("deep/my_find_job.py", "import find_neighbour\n" + ONE)
    assert find_job(str(path)).name == "one"


def test_a_job_made_elsewhere_and_imported_counts_once() -> None:
    """Importing a job into a file is a way to put it there."""
    write("find_origin.py", ONE)
    write("my_find_job.py", "from find_origin import one\n")
    assert find_job("my_find_job.py").name == "one"


def test_of_several_jobs_one_must_be_named() -> None:
    """The message lists them, and says how to name one."""
    write("my_find_job.py", TWO)
    error = refusal("my_find_job.py")
    assert "expected one job, found one, two" in str(error)
    assert error.where == "my_find_job.py"
    assert error.hint == "name it: my_find_job.py:NAME"


def test_a_name_that_is_not_there_is_said_with_those_that_are() -> None:
    """In a file and in a module alike."""
    write("my_find_job.py", TWO)
    error = refusal("my_find_job.py:three")
    assert "no job called 'three' there; jobs: one, two" in str(error)


@pytest.mark.parametrize("name", ["my_find_job.py", "my_find_job.py:plain"])
def test_a_file_without_a_job_says_what_makes_one(name: str) -> None:
    """A function that was not decorated is no job."""
    write("my_find_job.py", "async def plain(): ...\n")
    error = refusal(name)
    assert "none" in str(error)
    assert error.hint == "decorate an async function with @job"


@pytest.mark.parametrize("name", ["gone.py", "gone.py:one", "."])
def test_a_file_that_is_not_there(name: str) -> None:
    """A path, with or without a name behind it, and a folder."""
    if name == ".":
        Path("folder.py").mkdir()
        name = "folder.py"
    error = refusal(name)
    assert "no such file" in str(error)
    assert error.where == name.partition(":")[0]


def test_a_module_that_is_not_there_is_named() -> None:
    """The one that is missing, which need not be the one that was asked for."""
    assert "no module named 'find_nowhere'" in str(refusal("find_nowhere.inner:one"))


def test_a_word_that_is_no_job_gets_a_suggestion() -> None:
    """With the forms that a name may have."""
    error = refusal("codeval")
    assert "did you mean 'codeeval'?" in str(error)
    assert "my_job.py[:name]" in str(error)
    assert error.where == "job 'codeval'"
    assert "did you mean" not in str(refusal("quite-different"))


def test_the_message_about_an_unknown_job_is_made_of_sentences() -> None:
    """With nothing to suggest, it says what a job is, and refers to nothing besides."""
    assert str(refusal("quite-different")) == (
        "job 'quite-different': no job of that name. A job is a built-in name (codeeval),"
        " a file `my_job.py[:name]`, or a module `package.module:name`"
    )


@pytest.mark.parametrize("name", [":one", ":", ""])
def test_a_name_without_a_place_is_no_job(name: str) -> None:
    """There is nothing to import; it is refused like any other word."""
    error = refusal(name)
    assert "no job of that name" in str(error)
    assert error.where == f"job {name!r}"


BROKEN = [
    ("def (:\n", SyntaxError, "SyntaxError: invalid syntax"),
    ("import find_nowhere\n", ModuleNotFoundError, "No module named 'find_nowhere'"),
    ("{}['x']\n", KeyError, "KeyError: 'x'"),
]


@pytest.mark.parametrize(("text", "kind", "what"), BROKEN)
def test_a_file_that_raises_is_refused_with_its_error(
    text: str, kind: type[Exception], what: str
) -> None:
    """The file is the place, the error in it the cause."""
    write("my_find_job.py", text)
    error = refusal("my_find_job.py")
    assert "cannot be imported: " in str(error)
    assert what in str(error)
    assert error.where == "my_find_job.py"
    assert error.hint
    assert isinstance(error.__cause__, kind)


def test_a_module_that_raises_is_refused_with_its_error(place: Path) -> None:
    """As a file is, by the name it was asked for."""
    write("find_package/broken.py", "1 / 0\n")
    sys.path.insert(0, str(place))
    error = refusal("find_package.broken:one")
    assert "cannot be imported: ZeroDivisionError: division by zero" in str(error)
    assert error.where == "job 'find_package.broken:one'"
    assert isinstance(error.__cause__, ZeroDivisionError)
