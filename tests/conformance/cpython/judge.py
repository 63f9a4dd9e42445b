"""Finds CPython's own tests of 3.13, and runs them with ours in the place of asyncio's.

The files are loaded by path from an interpreter that is installed here, whichever one runs
this: they look the classes up as ``asyncio.X``, so putting others in their place is enough.
"""

import asyncio
import gc
import importlib.util
import os
import re
import signal
import sys
import unittest
import warnings
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NamedTuple
from unittest import mock

from tests.conformance.cpython import adapters

VERSION: Final = "3.13"

STAND_INS: Final[dict[str, type]] = {
    "BoundedSemaphore": adapters.BoundedSemaphore,
    "Event": adapters.Event,
    "Lock": adapters.Lock,
    "Queue": adapters.Queue,
    "QueueShutDown": adapters.QueueShutDown,
    "Semaphore": adapters.Semaphore,
}

CASES: Final = {
    "test_locks": ("LockTests", "EventTests", "SemaphoreTests"),
    "test_queues": (
        "QueueBasicTests",
        "QueueGetTests",
        "QueuePutTests",
        "QueueJoinTests",
        "QueueShutdownTests",
    ),
}
"""What is run of each file. The rest is about classes that have no stand-in here."""

SECONDS: Final = 10.0
"""How long one of them may take, so that a lost wake-up is a failure and not a hang."""


class Verdict(NamedTuple):
    """What became of the tests."""

    ran: tuple[str, ...]
    """Names, as in ``QueueGetTests.test_blocking_get``."""
    failed: dict[str, str]
    """What the failing ones said."""

    @property
    def passed(self) -> tuple[str, ...]:
        """The names of the others."""
        return tuple(name for name in self.ran if name not in self.failed)


def places() -> list[Path]:
    """Return the folders of libraries of Python 3.13 to look into."""
    library = Path("lib", f"python{VERSION}")
    homes = [
        Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions",
        Path.home() / ".pyenv" / "versions",
        Path(sys.base_prefix).parent,  # our own neighbours
        Path.home() / ".local" / "share" / "uv" / "python",
    ]
    found = [place for home in homes for place in home.glob(f"*/{library}")]
    found += [Path(prefix) / library for prefix in (sys.base_prefix, "/usr/local", "/usr")]
    return sorted(set(found), key=_version, reverse=True)


def find_tests() -> Path | None:
    """Return the folder of the tests of the newest 3.13 that has them, or None."""
    for place in places():
        folder = place / "test" / "test_asyncio"
        if all((folder / f"{name}.py").is_file() for name in CASES):
            return folder
    return None


def not_found() -> str:
    """Return what to say when there are none."""
    return (
        f"the tests of Python {VERSION} (test/test_asyncio in its library) are not here, so"
        f" none of {', '.join(CASES)} was run; install Python {VERSION}, for example with pyenv"
    )


def run(folder: Path) -> Verdict:
    """Run the tests in *folder*."""
    tally = Tally()
    with ExitStack() as stack:
        for name, stand_in in STAND_INS.items():
            stack.enter_context(mock.patch.object(asyncio, name, stand_in, create=True))
        # They leave locks locked and semaphores taken, which our permits do not like.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)
        for name, cases in CASES.items():
            module = _load(folder / f"{name}.py")
            for case in cases:
                unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, case)).run(tally)
        gc.collect()
    return Verdict(tuple(tally.ran), tally.failed)


ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Tally(unittest.TestResult):
    """Keeps the names of all tests, and what the failing ones said."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.failed: dict[str, str] = {}
        self._handler: Any = None

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        """Note that a test began, and set its deadline."""
        super().startTest(test)
        self.ran.append(_name(test))
        self._handler = signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - the same
        """Take its deadline away."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: ExcInfo) -> None:  # noqa: N802 - the same
        """Note an error."""
        super().addError(test, err)
        self.failed[_name(test)] = self.errors[-1][1]

    def addFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:  # noqa: N802 - the same
        """Note a failure."""
        super().addFailure(test, err)
        self.failed[_name(test)] = self.failures[-1][1]

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802 - the same
        """A test that was not run has not passed."""
        super().addSkip(test, reason)
        self.failed[_name(test)] = f"skipped: {reason}"


def _too_late(_number: int, _frame: object) -> None:
    msg = f"not over after {SECONDS:g} s"
    raise AssertionError(msg)


def _name(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cpython_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _version(place: Path) -> tuple[tuple[int, ...], str]:
    # The folder that the interpreter was installed into often tells the patch level.
    numbers = re.findall(r"\d+", place.parents[1].name)
    return tuple(map(int, numbers)), str(place)
