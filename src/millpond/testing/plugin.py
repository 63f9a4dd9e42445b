"""A pytest plugin: explored tests, async tests with a deadline, a guard against blocking calls.

Load it with ``-p millpond.testing.plugin``, or in a `conftest.py` with
``pytest_plugins = ["millpond.testing.plugin"]``. It does nothing unless loaded.

What it brings:
    ``@explore(...)``       (of `millpond.testing`) is run as a search; its certificate is shown
                            at the end. A fault that is found is kept in the folder `schedules`
                            beside the test, and tried first from then on.
    ``--schedule LINE``     replays one schedule in the selected explored tests.
    ``async def test_...``  runs in a loop of its own with a deadline (marker ``deadline(seconds)``,
                            option ``millpond_deadline``), and must leave no task behind.
    ``--eager-tasks``       runs async tests with eager tasks (Python 3.12).
    blocking calls          such as `time.sleep` in an async test are errors; marker ``may_block``.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Coroutine
from typing import Any, Final, final

import pytest

from millpond.testing._certificate import Certificate
from millpond.testing._counterexample import Counterexample
from millpond.testing._describe import describe_task
from millpond.testing._explore import ExploredTest, check, explored_test
from millpond.testing._faults import Diverged
from millpond.testing._fence import Fence
from millpond.testing._regressions import Regressions

DEADLINE_SECONDS: Final = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what can be set."""
    group = parser.getgroup("millpond", "explored and async tests")
    group.addoption(
        "--schedule",
        metavar="LINE",
        default=None,
        help="replay this schedule, such as 'x1 11:cancel(C1)', in the selected explored tests",
    )
    group.addoption(
        "--eager-tasks",
        action="store_true",
        default=False,
        help="run async tests with eager tasks (Python 3.12 or newer)",
    )
    group.addoption(
        "--certificates",
        action="store_true",
        default=False,
        help="show the whole certificate of each explored test, with what was not explored",
    )
    parser.addini(
        "millpond_deadline",
        f"seconds that an async test may take (default: {DEADLINE_SECONDS:g})",
        default=str(DEADLINE_SECONDS),
    )
    parser.addini(
        "millpond_schedules",
        "whether schedules that failed are kept beside the tests (default: yes)",
        type="bool",
        default=True,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and begin to collect certificates."""
    config.addinivalue_line(
        "markers",
        "deadline(seconds): how long an async test may take, if not as long as the others",
    )
    config.addinivalue_line(
        "markers", "may_block: an async test that may call what blocks its loop"
    )
    if config.getoption("--eager-tasks") and not hasattr(asyncio, "eager_task_factory"):
        msg = "--eager-tasks needs Python 3.12 or newer: this one has no eager tasks"
        raise pytest.UsageError(msg)
    config.stash[_SESSION] = _Session(config)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run explored and async tests; leave all others to pytest."""
    function = pyfuncitem.obj
    explored = explored_test(function)
    if explored is not None:
        pyfuncitem.config.stash[_SESSION].explore(pyfuncitem, explored, _arguments(pyfuncitem))
        return True
    if inspect.iscoroutinefunction(function):
        _run_async(pyfuncitem, function(**_arguments(pyfuncitem)))
        return True
    return None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the explored tests covered."""
    config.stash[_SESSION].summarise(terminalreporter)


def _arguments(item: pytest.Function) -> dict[str, Any]:
    names = inspect.signature(item.obj).parameters
    return {name: item.funcargs[name] for name in names}


# -- explored tests ------------------------------------------------------------------------------


@final
class _Session:
    """What the explored tests of one run of pytest have in common."""

    def __init__(self, config: pytest.Config) -> None:
        self._schedule: str | None = config.getoption("--schedule")
        self._whole = bool(config.getoption("--certificates"))
        self._keep: bool = config.getini("millpond_schedules")
        self._certificates: list[tuple[str, Certificate]] = []
        self._notes: list[str] = []

    def explore(self, item: pytest.Function, test: ExploredTest, arguments: dict[str, Any]) -> None:
        """Replay what is asked for, or what failed before; then search."""
        __tracebackhide__ = True
        explorer = test.explorer(**arguments)
        if self._schedule is not None:
            found = explorer.replay(self._schedule)
            if found is not None:
                raise _by_pytest(found, item)
            pytest.skip(f"{self._schedule!r} fits, and shows no fault any more: not a pass")
        kept = Regressions(item.path, item.nodeid.partition("::")[2])
        self._try_again(item, test, arguments, kept)
        try:
            certificate = explorer.run()
        except Counterexample as found:
            if self._keep:
                self._note_if(kept.add(found))
            _by_pytest(found, item)
            raise
        self._certificates.append((item.nodeid, certificate))
        check(certificate)

    def _try_again(
        self,
        item: pytest.Function,
        test: ExploredTest,
        arguments: dict[str, Any],
        kept: Regressions,
    ) -> None:
        for line in kept.lines():
            try:
                found = test.explorer(**arguments).replay(line)
            except Diverged:
                self._notes.append(f"{item.nodeid}: {line!r} in {kept.path} does not fit any more")
                continue
            if found is not None:
                raise _by_pytest(found, item)

    def _note_if(self, problem: str | None) -> None:
        if problem is not None:
            self._notes.append(problem)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Write a line for each certificate."""
        if not (self._certificates or self._notes):
            return
        reporter.section("certificates", sep="-")
        for nodeid, certificate in self._certificates:
            colour = {"green": True} if certificate.complete else {"yellow": True, "bold": True}
            text = str(certificate).removeprefix(f"{certificate.name}: ")
            reporter.write_line(f"{nodeid}: {text}", **colour)
            if self._whole:
                reporter.write_line(f"    the world: {', '.join(certificate.world) or 'nothing'}")
                for what in certificate.not_explored:
                    reporter.write_line(f"    not explored: {what}")
        for note in self._notes:
            reporter.write_line(note, yellow=True)


def _by_pytest(found: Counterexample, item: pytest.Function) -> Counterexample:
    """Say how pytest replays it."""
    found.replay_with = f'pytest "{item.nodeid}" --schedule "{found.schedule}"'
    return found


_SESSION: Final = pytest.StashKey[_Session]()


# -- async tests ---------------------------------------------------------------------------------


def _run_async(item: pytest.Function, test: Coroutine[Any, Any, object]) -> None:
    """Run one async test on a loop of its own."""
    eager = bool(item.config.getoption("--eager-tasks"))
    seconds = _deadline(item)
    guard: contextlib.AbstractContextManager[object] = (
        contextlib.nullcontext() if item.get_closest_marker("may_block") else Fence.blocking()
    )

    async def bounded() -> None:
        if eager:
            loop: Any = asyncio.get_running_loop()
            loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - of 3.12
        with guard:
            deadline = asyncio.timeout(seconds)
            try:
                async with deadline:
                    await test
            except TimeoutError:
                if deadline.expired():
                    pytest.fail(f"the test did not end within {seconds:g} s", pytrace=True)
                raise
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            where = "\n".join(sorted(f"  {describe_task(task)}" for task in left))
            pytest.fail(f"the test left {len(left)} tasks behind:\n{where}", pytrace=False)

    asyncio.run(bounded())


def _deadline(item: pytest.Function) -> float:
    marker = item.get_closest_marker("deadline")
    if marker is not None:
        return float(marker.args[0])
    said = item.config.getini("millpond_deadline")
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        msg = f"millpond_deadline must be a number of seconds > 0, got {said!r}"
        raise pytest.UsageError(msg)
    return seconds
