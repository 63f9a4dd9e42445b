"""CPython's own tests of locks and queues judge `Limiter`, `Notify` and `Channel`."""

from pathlib import Path

import pytest

from tests.conformance.cpython import judge
from tests.conformance.cpython.listed import LISTED

FEWEST_RUN = 70
"""As many as 3.13.0 has. Fewer would mean that they were not found in their files."""


@pytest.fixture(scope="module")
def verdict() -> judge.Verdict:
    """Run them all, or say that they are not here."""
    folder = judge.find_tests()
    if folder is None:
        pytest.skip(judge.not_found())
    return judge.run(folder)


def test_the_whole_of_each_file_is_run(verdict: judge.Verdict) -> None:
    """Every class that was asked for has tests, each of them was run once."""
    assert len(verdict.ran) >= FEWEST_RUN
    assert len(set(verdict.ran)) == len(verdict.ran)
    asked = {case for cases in judge.CASES.values() for case in cases}
    assert {name.partition(".")[0] for name in verdict.ran} == asked


def test_nothing_fails_that_is_not_listed(verdict: judge.Verdict) -> None:
    """What fails is known, by name."""
    unlisted = {name: text for name, text in verdict.failed.items() if name not in LISTED}
    assert not unlisted, "\n".join(unlisted.values())


def test_nothing_is_listed_that_passes(verdict: judge.Verdict) -> None:
    """The list only shrinks: what passes, and what is gone, must leave it."""
    assert sorted(LISTED) == sorted(set(LISTED) & set(verdict.failed))


def test_asyncio_has_its_own_classes_back(verdict: judge.Verdict) -> None:
    """The stand-ins leave no trace."""
    import asyncio  # noqa: PLC0415 - looked at after the run

    assert verdict.ran
    assert [name for name, ours in judge.STAND_INS.items() if vars(asyncio).get(name) is ours] == []


def test_every_listed_one_has_a_reason() -> None:
    """A sentence, not a mark."""
    assert all(len(reason.split()) > 5 for reason in LISTED.values())


def test_a_failure_is_counted(tmp_path: Path) -> None:
    """A test that fails, is skipped or raises is not counted as passed."""
    for name, cases in judge.CASES.items():
        lines = ["import asyncio, unittest"]
        for case in cases:
            lines += [
                f"class {case}(unittest.IsolatedAsyncioTestCase):",
                "    async def test_good(self): self.assertIsNotNone(asyncio.Queue)",
                "    async def test_bad(self): self.assertTrue(False)",
                "    async def test_error(self): raise OSError",
                "    @unittest.skip('not now')",
                "    async def test_skipped(self): pass",
            ]
        (tmp_path / f"{name}.py").write_text("\n".join(lines), encoding="utf-8")
    verdict = judge.run(tmp_path)
    assert {name.partition(".")[2] for name in verdict.passed} == {"test_good"}
    assert {name.partition(".")[2] for name in verdict.failed} == {
        "test_bad",
        "test_error",
        "test_skipped",
    }


def test_one_that_hangs_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended at its deadline, and those after it are run."""
    monkeypatch.setattr(judge, "SECONDS", 0.05)
    monkeypatch.setattr(judge, "CASES", {"test_slow": ("Case",)})
    (tmp_path / "test_slow.py").write_text(
        "import asyncio, unittest\n"
        "class Case(unittest.IsolatedAsyncioTestCase):\n"
        "    async def test_a(self): await asyncio.Event().wait()\n"
        "    async def test_b(self): pass\n",
        encoding="utf-8",
    )
    verdict = judge.run(tmp_path)
    assert verdict.passed == ("Case.test_b",)
    assert "not over after 0.05 s" in verdict.failed["Case.test_a"]


def test_when_they_are_not_here_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names of the files, and with what to do."""
    monkeypatch.setattr(judge, "places", list)
    assert judge.find_tests() is None
    assert "test_locks, test_queues" in judge.not_found()
    assert "install Python 3.13" in judge.not_found()


def test_of_several_the_newest_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, not by letter; one without the tests is passed over."""
    for version in ("3.13.2", "3.13.9", "3.13.10", "3.13.11"):
        folder = tmp_path / "versions" / version / "lib" / "python3.13" / "test" / "test_asyncio"
        folder.mkdir(parents=True)
        if version != "3.13.11":
            for name in judge.CASES:
                (folder / f"{name}.py").touch()
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    found = judge.find_tests()
    assert found is not None
    assert "3.13.10" in found.parts
