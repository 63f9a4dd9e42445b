"""What a scenario declares: tasks, the outside world, and what must hold."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final, overload

from millpond.errors import UsageError
from millpond.testing._loop import AnyTask, ExplorerLoop

if TYPE_CHECKING:
    from millpond.testing._execution import Execution

Check: TypeAlias = Callable[[], object]

_FORBIDDEN: Final = frozenset(" \t\r\n+")


@final
class External:
    """Something outside of the loop that has not happened yet."""

    __slots__ = ("act", "after", "base", "future", "group", "in_thread", "label", "optional")

    def __init__(  # noqa: PLR0913 - each is a decision of the caller
        self,
        label: str,
        act: Callable[[], object],
        *,
        base: str | None = None,
        future: "asyncio.Future[Any] | None" = None,
        after: Sequence[str] = (),
        group: str | None = None,
        optional: bool = False,
        in_thread: bool = False,
    ) -> None:
        self.label = label
        self.base = base or label
        self.act = act
        self.future = future  # what waits for it; once that is done, nobody does
        self.after = frozenset(after)
        self.group = group
        self.optional = optional
        self.in_thread = in_thread  # acts at once, beside the loop, instead of as a callback


@final
class Actor:
    """A task that a scenario declared."""

    __slots__ = (
        "_coroutine",
        "_task",
        "cancel_label",
        "cancellable",
        "daemon",
        "may_raise",
        "name",
    )

    def __init__(
        self,
        name: str,
        coroutine: Coroutine[Any, Any, Any],
        *,
        cancellable: bool,
        daemon: bool,
        may_raise: tuple[type[BaseException], ...],
    ) -> None:
        self.name = name
        self.cancel_label = f"cancel({name})"
        self.cancellable = cancellable
        self.daemon = daemon
        self.may_raise = may_raise
        self._coroutine: Coroutine[Any, Any, Any] | None = coroutine
        self._task: AnyTask | None = None

    @property
    def started(self) -> bool:
        """Whether the task exists. Its body may not have run yet."""
        return self._task is not None

    @property
    def finished(self) -> bool:
        """Whether the task has ended, in whatever way."""
        return self._task is not None and self._task.done()

    @property
    def cancelled(self) -> bool:
        """Whether the task ended by being cancelled."""
        return self._task is not None and self._task.cancelled()

    @property
    def task(self) -> AnyTask:
        """The task.

        Raises:
            UsageError: If it was not started yet.
        """
        if self._task is None:
            msg = f"{self.name!r} was not started yet; ask `started` first"
            raise UsageError(msg)
        return self._task

    def result(self) -> Any:
        """Return what the task returned, or raise what it raised."""
        return self.task.result()

    def start(self, loop: ExplorerLoop) -> None:
        """Make the task. Called by the world, once."""
        coroutine, self._coroutine = self._coroutine, None
        self._task = loop.create_task(coroutine, name=self.name)

    def take_unstarted(self) -> Coroutine[Any, Any, Any] | None:
        """Return the coroutine, if no task was made of it."""
        coroutine, self._coroutine = self._coroutine, None
        return coroutine

    def __repr__(self) -> str:
        state = "ended" if self.finished else "started" if self.started else "not started"
        return f"<Actor {self.name!r}, {state}>"


@final
class World:
    """The outside world of one schedule. Given to a scenario, which declares what is in it.

    Everything that is declared here must be true: a cause that is not one (`after`), or a
    rescuer that always comes, hides faults. Keep counters rather than growing lists in what
    a scenario can see; a list that remembers the order of everything makes every state new.

    Example:
        >>> import asyncio
        >>> from millpond.testing import Bounds, World, explore
        >>> def scenario(world: World) -> None:
        ...     gate = asyncio.Event()
        ...     async def waiter() -> None:
        ...         await gate.wait()
        ...     world.spawn("W", waiter(), cancel=True)
        ...     world.event("open", gate.set)
        >>> explore(scenario, bounds=Bounds(cancels=1)).complete
        True
    """

    def __init__(self, loop: ExplorerLoop, execution: "Execution") -> None:
        self._loop = loop
        self._execution = execution
        self._names: dict[str, int] = {}
        self._asks_for_numbers = False
        self.actors: dict[str, Actor] = {}
        self.pending: list[External] = []
        self.happened: set[str] = set()
        self.invariants: list[tuple[str, Check]] = []
        self.finals: list[tuple[str, Check]] = []
        loop.in_thread = self._in_thread

    # -- declarations --------------------------------------------------------------------------

    def spawn(  # noqa: PLR0913 - each is a decision of the caller
        self,
        name: str,
        coroutine: Coroutine[Any, Any, Any],
        *,
        cancel: bool = False,
        anytime: bool = False,
        daemon: bool = False,
        group: str | None = None,
        may_raise: tuple[type[BaseException], ...] = (),
    ) -> Actor:
        """Declare a task.

        Args:
            name: Shown in schedules; unique in the scenario, without spaces and ``+``.
            coroutine: What it runs.
            cancel: Whether somebody may cancel it, at any moment after its creation.
            anytime: Whether its start is an event of the outside world; else it is created
                now, in the order of the calls.
            daemon: Whether it may still wait when all has ended.
            group: Tasks with the same group are alike, so of those that have not started only
                the first is tried. Implies nothing for tasks that are not `anytime`.
            may_raise: Errors that it may end with.

        Raises:
            UsageError: For a name that is taken.
            ValueError: For a name that a schedule could not hold.
        """
        _check_name(name)
        if name in self.actors:
            coroutine.close()
            msg = f"two tasks are called {name!r}; give each its own name"
            raise UsageError(msg)
        actor = Actor(name, coroutine, cancellable=cancel, daemon=daemon, may_raise=may_raise)
        self.actors[name] = actor
        if anytime:
            self._add(External(f"start({name})", lambda: actor.start(self._loop), group=group))
        else:
            actor.start(self._loop)
        return actor

    def io(
        self,
        name: str,
        *outcomes: object,
        may_hang: bool = False,
        after: Sequence[str] = (),
    ) -> "asyncio.Future[Any]":
        """Make a call to the outside, which ends at any moment with any of *outcomes*.

        Args:
            name: Shown in schedules, behind the name of the calling task.
            outcomes: Values to return, exceptions (or their classes) to raise, and functions
                that give the value when it is due. None at all is one None.
            may_hang: Whether it may never end.
            after: Labels of events before which it cannot end.

        Cancellation:
            A call that nobody waits for any more ends without effect.
        """
        _check_name(name)
        future = self._loop.create_future()
        task = asyncio.current_task(self._loop)
        base = self._unique(f"{task.get_name() if task else 'world'}.{name}")
        if self._loop.origins is not None:
            self._loop.origins[id(future)] = base
        for number, outcome in enumerate(outcomes or (None,)):
            label = f"{base}={number}" if len(outcomes) > 1 else base
            act = Settle(label, future, outcome)
            self._add(
                External(label, act, base=base, future=future, after=after, optional=may_hang)
            )
        return future

    def event(
        self,
        name: str,
        act: Callable[[], object],
        *,
        optional: bool = False,
        after: Sequence[str] = (),
    ) -> None:
        """Declare something that the outside world does to the program, once, at any moment.

        Args:
            name: Shown in schedules.
            act: Called as a callback of the loop.
            optional: Whether it may never happen. A rescuer that must come hides the faults
                that it rescues from.
            after: Labels of events before which it cannot happen.
        """
        _check_name(name)
        self._add(External(self._unique(name), act, optional=optional, after=after))

    def pick(self, name: str, *values: Any) -> Any:
        """Return one of *values*; all are tried.

        Raises:
            UsageError: Without values.
        """
        _check_name(name)
        if not values:
            msg = f"`pick({name!r})` needs values to pick from"
            raise UsageError(msg)
        base = self._unique(f"pick({name})")
        options = [f"{base}={number}" for number in range(len(values))]
        return values[options.index(self._execution.pick(options))]

    @overload
    def invariant(self, check: Check, /) -> Check: ...
    @overload
    def invariant(self, name: str, check: Check, /) -> Check: ...
    def invariant(self, name: "str | Check", check: Check | None = None, /) -> Check:
        """Declare what must hold after every callback: *check* neither raises nor is False.

        Also a decorator.
        """
        return _declare(self.invariants, name, check)

    @overload
    def final(self, check: Check, /) -> Check: ...
    @overload
    def final(self, name: str, check: Check, /) -> Check: ...
    def final(self, name: "str | Check", check: Check | None = None, /) -> Check:
        """Declare what must hold when nothing can happen any more.

        Also a decorator.
        """
        return _declare(self.finals, name, check)

    # -- the outside ---------------------------------------------------------------------------

    def thread(self, name: str, body: Callable[[], object]) -> None:
        """Let *body* run beside the loop, at once and in one go, at a moment of its choice.

        Whatever it wants the loop to do it hands over by `loop.call_soon_threadsafe`.
        """
        self._add(External(self._unique(f"thread({_printable(name)})"), body, in_thread=True))

    def causes(self) -> set[str]:
        """Return what has happened, as far as an `after` could ask for it."""
        if self._asks_for_numbers:
            return self.happened
        return {label.partition("#")[0] for label in self.happened}

    def _in_thread(self, function: Callable[[], object], name: str) -> "asyncio.Future[Any]":
        future = self._loop.create_future()

        def body() -> None:
            settle = Settle(name, future, function)
            settle.prepare()
            self._loop.call_soon_threadsafe(settle)

        self.thread(name, body)
        return future

    def _add(self, external: External) -> None:
        self.pending.append(external)
        self._asks_for_numbers |= any("#" in label for label in external.after)
        self._execution.declared(external.label)

    def _unique(self, base: str) -> str:
        count = self._names[base] = self._names.get(base, 0) + 1
        return base if count == 1 else f"{base}#{count}"


@final
class Settle:
    """Ends a call to the outside with one of its outcomes."""

    __slots__ = ("_error", "_future", "_outcome", "_prepared", "_value", "label")

    def __init__(self, label: str, future: "asyncio.Future[Any]", outcome: object) -> None:
        self.label = label
        self._future = future
        self._outcome = outcome
        self._prepared = False
        self._value: object = None
        self._error: BaseException | None = None

    def prepare(self) -> None:
        """Find out what the outcome is."""
        self._prepared = True
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            # One that several schedules share must not keep the frames of all of them.
            self._error = outcome.with_traceback(None)
            outcome.__context__ = None
        elif isinstance(outcome, type):
            self._value = cast("type[object]", outcome)
            if issubclass(outcome, BaseException):
                self._error = outcome()
        elif callable(outcome):
            try:
                self._value = outcome()
            except BaseException as error:  # noqa: BLE001 - it travels to the caller
                self._error = error
        else:
            self._value = outcome

    def __call__(self) -> None:
        if self._future.done():
            return
        if not self._prepared:
            self.prepare()
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._value)


def _declare(checks: list[tuple[str, Check]], name: str | Check, check: Check | None) -> Check:
    if isinstance(name, str):
        if check is None:
            msg = f"the check called {name!r} is missing"
            raise UsageError(msg)
        checks.append((name, check))
        return check
    checks.append((getattr(name, "__name__", repr(type(name))), name))
    return name


def _check_name(name: str) -> None:
    if not name or _FORBIDDEN.intersection(name):
        msg = f"a name in a scenario is a word without spaces and '+', got {name!r}"
        raise ValueError(msg)


def _printable(name: str) -> str:
    return "".join("_" if letter in _FORBIDDEN else letter for letter in name)
