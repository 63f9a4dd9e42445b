"""The tutorial of the testing kit, followed as printed, in a project of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "testing.md"
_PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "millpond.testing.plugin",
    "-p",
    "no:cacheprovider",
)
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Set up a project outside of this checkout, with the files of the tutorial."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == ["pool.py", "test_pool.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def pytest_in(project: Path, *arguments: str, hash_seed: str = "0") -> tuple[int, str]:
    """Run pytest there with the plugin by its name, as a user would."""
    done = subprocess.run(
        [*_PYTEST, *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def mend(project: Path) -> None:
    """Do what the tutorial says."""
    lines = re.search(r"The mend is .*?```python\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert lines is not None
    pool = project / "pool.py"
    broken = pool.read_text("utf-8")
    mended, count = re.subn(r"        await waiter  # .*\n", lambda _: lines[1], broken)
    assert count == 1
    pool.write_text(mended, encoding="utf-8")


def test_from_a_hang_to_one_line_and_to_a_certificate(project: Path) -> None:
    """The fault is found, replays from its line in another process, and the mend is exhausted."""
    code, said = pytest_in(project)
    assert code == 1, said
    assert "'the place is free again', which must hold at the end, is False" in said
    assert ">>> cancel(C)" in said
    printed = re.search(r'replay with: pytest "([^"]+)" --schedule "([^"]+)"', said)
    assert printed is not None, said

    replays = {
        pytest_in(project, printed[1], "--schedule", printed[2], hash_seed=seed) for seed in "123"
    }
    stories = {story(said) for code, said in replays}
    assert {code for code, _ in replays} == {1}
    assert stories == {story(said)}

    kept = project / "schedules" / "test_pool" / "test_no_place_is_lost.txt"
    assert printed[2] in kept.read_text("utf-8").splitlines()

    mend(project)
    code, said = pytest_in(project)
    assert code == 0, said
    assert "exhausted, no fault found; P=any C=1" in said


def test_the_kept_schedule_is_tried_first(project: Path) -> None:
    """With the fault back, no search is needed to find it."""
    pytest_in(project)
    code, said = pytest_in(project)
    assert code == 1
    kept = project / "schedules" / "test_pool" / "test_no_place_is_lost.txt"
    assert len(kept.read_text("utf-8").splitlines()) == 2, "it was kept twice"
    assert "replay with: " in said


def test_a_schedule_that_shows_nothing_any_more_is_said(project: Path) -> None:
    """Replaying a line against the mended pool is neither a failure nor a pass, and says so."""
    _, said = pytest_in(project)
    printed = re.search(r'--schedule "([^"]+)"', said)
    assert printed is not None
    mend(project)
    code, said = pytest_in(project, "-ra", "--schedule", printed[1])
    assert code == 0
    assert "1 skipped" in said
    assert "shows no fault any more" in said


def story(said: str) -> str:
    """Cut the report out of pytest's output."""
    found = re.search(r"test_no_place_is_lost: Violation:.*?10 C: [^\n]*", said, re.DOTALL)
    assert found is not None, said
    return re.sub(r"^E? +", "", found[0], flags=re.MULTILINE)
