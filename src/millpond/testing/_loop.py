"""An event loop that runs the interpreter's own `_run_once`, and asks before it goes on.

What lies outside of a loop is replaced: the selector (nothing is ever readable; that the
loop asks is what counts), the clock (virtual), and the queue of callbacks (which asks before
each one, as another thread may append at any moment). The scheduling is CPython's,
unmodified, so every order that is tried is one that a program can meet.

Only this module, the fingerprint and the reports look at asyncio's private names.
"""

import asyncio
import collections
import platform
import sys
from asyncio import events
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias, final

from millpond.testing._describe import who_waits
from millpond.testing._faults import UnsupportedInterpreter
from millpond.testing._fence import OutsideMethods

AnyTask: TypeAlias = "asyncio.Task[Any]"

# So small that time moves exactly to the next deadline, and no timer is early.
_RESOLUTION: Final = 1e-9


class Driver(Protocol):
    """What the loop asks."""

    def at_boundary(self) -> None:
        """The loop asks its selector: a new iteration begins."""
        ...

    def before_callback(self, handle: asyncio.Handle) -> None:
        """The loop is about to run *handle*, which is still in the queue."""
        ...


@final
class _Queue(collections.deque[asyncio.Handle]):
    """The ready queue. Another thread could append before each callback."""

    driver: Driver | None = None

    def popleft(self) -> asyncio.Handle:
        if self.driver is not None:
            self.driver.before_callback(self[0])
        return super().popleft()


@final
class _Selector:
    """Never finds anything readable."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def select(self, timeout: float | None) -> Sequence[object]:  # noqa: ARG002 - the loop's call
        self._driver.at_boundary()
        return ()


@final
class ExploredTask(asyncio.Task[Any]):
    """Hashed by the order of creation.

    TaskGroup and `asyncio.wait` go through sets of tasks; by address, the order would
    differ from run to run.
    """

    number = 0

    def __hash__(self) -> int:
        return self.number


class ExplorerLoop(OutsideMethods, asyncio.BaseEventLoop):
    """See the head of the module.

    Args:
        driver: Is asked before anything happens.
        eager: Whether tasks begin at once, as under `asyncio.eager_task_factory`.
    """

    _ready: _Queue
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, driver: Driver, *, eager: bool = False) -> None:
        super().__init__()
        self.set_debug(False)
        self.now = 0.0
        self.clock_reads = 0
        self.tasks: list[ExploredTask] = []
        self.problems: list[dict[str, Any]] = []
        self.origins: dict[int, str] | None = None
        """Who made a future, by its id; None as long as nobody wants to know."""
        self.in_thread: Callable[[Callable[[], object], str], asyncio.Future[Any]] | None = None
        self._eager = eager
        self._made = 0
        self._ready = _Queue()
        self._ready.driver = driver
        self._selector = _Selector(driver)
        self._clock_resolution = _RESOLUTION
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    # -- what a program sees -------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time."""
        self.clock_reads += 1
        return self.now

    def create_task(self, coro: Any, **options: Any) -> AnyTask:
        """Make a task whose name and hash do not depend on chance."""
        name = options.pop("name", None)
        if self._eager:
            options.setdefault("eager_start", True)
        # An eager task runs within `__init__`, and the hash needs the number there already.
        task = ExploredTask.__new__(ExploredTask)
        task.number = self._made
        self._made += 1
        task.__init__(coro, loop=self, name=name or f"task-{task.number}", **options)
        self.tasks.append(task)  # only now: one whose `__init__` raised cannot be looked at
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future; remember for whom, if a report will be wanted."""
        future = super().create_future()
        if self.origins is not None:
            self.origins[id(future)] = who_waits(sys._getframe(1))
        return future

    def run_in_executor(  # type: ignore[override] # typeshed types the arguments by name
        self,
        executor: object,
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Let the outside world run *func* at a moment of its choice."""
        del executor
        assert self.in_thread is not None  # noqa: S101 - set before anything runs
        return self.in_thread(lambda: func(*args), getattr(func, "__name__", "call"))

    # -- what the driver does ------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """How many callbacks wait to be run, cancelled ones included."""
        return len(self._ready)

    @property
    def queue(self) -> "collections.deque[asyncio.Handle]":
        """The callbacks that wait to be run."""
        return self._ready

    @property
    def timers(self) -> "list[asyncio.TimerHandle]":
        """The timers that are set, as a heap; cancelled ones may be among them."""
        return self._scheduled

    def next_deadline(self) -> float | None:
        """When the earliest timer that is not cancelled is due; None if there is none."""
        timers = self._scheduled
        if not timers:
            return None
        if not timers[0]._cancelled:
            return timers[0].when()
        return min((timer.when() for timer in timers if not timer._cancelled), default=None)

    def append(self, handle: asyncio.Handle) -> None:
        """Put a callback from outside at the tail of the queue."""
        self._ready.append(handle)

    def abandon(self, unstarted: Iterable[Coroutine[Any, Any, Any]]) -> None:
        """End everything without a word. Coroutines that refuse to end are left.

        Args:
            unstarted: Coroutines of which no task was made.
        """
        self._ready.driver = None
        self.set_exception_handler(_say_nothing)
        # What a clean-up starts must be ours as well, and end here.
        events._set_running_loop(self)
        try:
            for coroutine in unstarted:
                close_coroutine(coroutine)
            for task in self.tasks:  # closing may make more
                if task.done():
                    task._log_traceback = False
                    continue
                task._log_destroy_pending = False  # type: ignore[attr-defined] # private
                close_coroutine(task.get_coro())
                if len(self.tasks) > _MOST_TASKS:
                    break
        finally:
            events._set_running_loop(None)
        self._ready.clear()
        self._scheduled.clear()
        self.in_thread = None
        self.close()

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""

    def _process_events(self, event_list: object) -> None:
        """There never are any."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Keep the heap as it is: when it is tidied must not depend on a count."""

    def __del__(self) -> None:
        """Stay silent: schedules that were cut short are dropped."""


def _say_nothing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take the place of a handler, when nobody may see what is reported."""


_MOST_TASKS: Final = 100_000
"""A clean-up that starts a task whose clean-up starts a task goes no further than this."""

_CLOSINGS: Final = 10
"""A `finally` that awaits refuses to end once; this many in each other are enough."""


def close_coroutine(coroutine: Any) -> None:
    """End a coroutine that will not be run any further, whatever it says to that."""
    for _ in range(_CLOSINGS):
        try:
            coroutine.close()
        except RuntimeError:  # "coroutine ignored GeneratorExit": it awaits in a `finally`
            continue
        except BaseException:  # noqa: BLE001, S110 - the schedule is over; nobody may see this
            pass
        return


def check_interpreter() -> None:
    """Refuse an asyncio whose internals are not those that the explorer drives.

    Raises:
        UnsupportedInterpreter: With what is missing.
    """
    driven = {"_ready", "_scheduled", "_selector", "_process_events", "_clock_resolution"}
    read = {
        asyncio.Handle: ("_cancelled", "_callback", "_args"),
        asyncio.Task: ("_must_cancel", "_fut_waiter", "_log_traceback", "_log_destroy_pending"),
    }
    run_once = getattr(asyncio.BaseEventLoop, "_run_once", None)
    used = run_once.__code__.co_names if run_once is not None else ()
    missing = sorted(driven.difference(used))
    missing += [
        f"{k.__name__}.{name}"
        for k, names in read.items()
        for name in names
        if not hasattr(k, name)
    ]
    if missing:
        msg = (
            f"the explorer cannot drive asyncio of {platform.python_implementation()}"
            f" {platform.python_version()}: {', '.join(missing)} not found;"
            f" use CPython 3.11 to 3.13"
        )
        raise UnsupportedInterpreter(msg)
