"""A wake-up hint. The state it speaks of lives elsewhere, and is what decides.

Invariants:
    N1  At most one permit is stored, however often `notify_one` is called.
    N2  `notify_waiters` reaches every `Notified` made before it, and stores nothing.
    N3  A `notify_one` that reached somebody who left without using it goes to the next
        waiter, or back to the stored permit.
    N4  Nothing that was left behind is armed: leaving the ``with`` disarms.

Semantics follow `tokio::sync::Notify`. Rust disarms a dropped `Notified` by itself;
Python does not, so a check that succeeds after arming would leave a phantom that
swallows the next `notify_one`. That is why a `Notified` is a context manager.
"""

import asyncio
import enum
import warnings
from collections import OrderedDict
from collections.abc import Generator
from types import TracebackType
from typing import final

from millpond._base import Parked, StopSignal, park, reason_of, wake
from millpond.errors import Stopped, UsageError


class _State(enum.Enum):
    NEW = "new"
    ARMED = "armed"
    BY_ONE = "notified by notify_one, not used yet"
    BY_ALL = "notified by notify_waiters, not used yet"
    DONE = "done"
    LEFT = "left"


@final
class Notify:
    """Wakes tasks that wait for a state to change.

    Publish the state first, then notify. A notification says "look again", never
    "it is so": notifications coalesce, and may come for nothing.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     changed, ready = Notify(), False
        ...     with changed.notified() as armed:
        ...         armed.enable()
        ...         changed.notify_one()
        ...         await armed
        ...         print("look again")
        >>> asyncio.run(main())
        look again
    """

    __slots__ = ("_armed", "_generation", "_permit")

    def __init__(self) -> None:
        self._armed: OrderedDict[Notified, None] = OrderedDict()  # oldest first, all ARMED
        self._generation = 0  # calls of `notify_waiters` so far
        self._permit = False

    def notify_one(self) -> None:
        """Wake the oldest armed waiter; with none, keep one permit for the next.

        Right only where all waiters are interchangeable: it may wake one whose
        predicate does not hold while the right one sleeps on.
        """
        if self._armed:
            oldest, _ = self._armed.popitem(last=False)
            oldest._mark(_State.BY_ONE)
        else:
            self._permit = True

    def notify_waiters(self) -> None:
        """Wake everybody whose `Notified` was made before this call."""
        self._generation += 1
        armed, self._armed = self._armed, OrderedDict()
        for waiter in armed:
            waiter._mark(_State.BY_ALL)

    def notified(self) -> "Notified":
        """Return a wait that every later `notify_waiters` reaches, armed or not."""
        return Notified(self)

    def __repr__(self) -> str:
        return f"<Notify {len(self._armed)} armed, permit {'stored' if self._permit else 'none'}>"


@final
class Notified:
    """One wait for a `Notify`. Made by `Notify.notified` only; use it in a ``with``.

    Ordering:
        `notify_waiters` is looked at before the stored permit, which stays then. Among
        armed waiters `notify_one` takes the oldest.
    """

    __slots__ = ("__weakref__", "_by_one", "_generation", "_notify", "_parked", "_state")

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._generation = notify._generation
        self._state = _State.NEW
        self._by_one = False
        self._parked: Parked | None = None

    @property
    def used_one(self) -> bool:
        """Whether this wait was ended by a `notify_one`, or by a stored permit."""
        return self._by_one

    def enable(self) -> bool:
        """Arm without waiting.

        Returns:
            True if already notified: the notification is used up then, and leaving the
            ``with`` forwards nothing.

        Raises:
            UsageError: After it was left.
        """
        if self._state is _State.NEW:
            if self._generation != self._notify._generation:
                self._state = _State.DONE
            elif self._notify._permit:
                self._notify._permit = False
                self._by_one = True
                self._state = _State.DONE
            else:
                self._state = _State.ARMED
                self._notify._armed[self] = None
                return False
        elif self._state is _State.ARMED:
            return False
        elif self._state is _State.LEFT:
            msg = "this Notified was left or cancelled; make a new one with notify.notified()"
            raise UsageError(msg)
        else:
            self._use()
        return True

    async def wait(self, *, stop: StopSignal | None = None) -> None:
        """Arm if need be, and return when notified.

        Raises:
            Stopped: When *stop* is asked for first, or at the same time. A
                `notify_one` that came along is passed on.

        Cancellation:
            Safe. The wait is disarmed; an unused `notify_one` goes to the next waiter.
        """
        if stop is not None and stop.is_stopped():
            self._leave()
            raise Stopped(reason_of(stop))
        if self.enable():
            return
        if self._parked is not None:
            msg = "somebody waits for this Notified already; each needs a notify.notified()"
            raise UsageError(msg)
        self._parked = asyncio.get_running_loop().create_future()
        try:
            await park(self._parked, stop)
            if stop is not None and stop.is_stopped():
                raise Stopped(reason_of(stop))  # noqa: TRY301 - one place that leaves
        except BaseException:
            self._leave()
            raise
        self._use()

    def __await__(self) -> Generator[object, None, None]:
        return self.wait().__await__()

    def __enter__(self) -> "Notified":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._leave()

    def __del__(self) -> None:
        if self._state is _State.BY_ONE:
            warnings.warn(
                "a Notified was dropped with an unused notify_one; use it in a `with`",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    def __repr__(self) -> str:
        return f"<Notified {self._state.value}>"

    def _mark(self, state: _State) -> None:
        self._state = state
        if self._parked is not None:
            wake(self._parked)

    def _use(self) -> None:
        self._by_one = self._by_one or self._state is _State.BY_ONE
        self._state = _State.DONE

    def _leave(self) -> None:
        state, self._state = self._state, _State.LEFT
        if state is _State.ARMED:
            del self._notify._armed[self]
        elif state is _State.BY_ONE:
            self._notify.notify_one()
