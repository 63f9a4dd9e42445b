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

import enum
import warnings
from collections import OrderedDict
from collections.abc import Generator
from types import TracebackType
from typing import final

from millpond._base import Home, Parked, StopSignal, park, reason_of
from millpond.errors import Stopped, UsageError


class _State(enum.Enum):
    NEW = "new"
    ARMED = "armed"
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

    __slots__ = ("_armed", "_generation", "_given", "_home", "_permit")

    def __init__(self) -> None:
        # The futures of armed waiters, oldest first. A notification takes them out.
        self._armed: OrderedDict[Parked, None] = OrderedDict()
        self._given: set[Parked] = set()  # completed by `notify_one`, and not acted on yet
        self._generation = 0  # calls of `notify_waiters` so far
        self._permit = False
        self._home = Home("Notify")

    def notify_one(self) -> None:
        """Wake the oldest armed waiter; with none, keep one permit for the next.

        Right only where all waiters are interchangeable: it may wake one whose
        predicate does not hold while the right one sleeps on.

        Raises:
            UsageError: From another thread than that of those who waited.
        """
        self._home.check_thread()
        while self._armed:
            parked, _ = self._armed.popitem(last=False)
            if not parked.done():  # else it was cancelled or stopped, and is on its way out
                self._given.add(parked)
                parked.set_result(None)
                return
        self._permit = True

    def notify_waiters(self) -> None:
        """Wake everybody whose `Notified` was made before this call.

        Raises:
            UsageError: From another thread than that of those who waited.
        """
        self._home.check_thread()
        self._generation += 1
        if self._armed:
            armed, self._armed = self._armed, OrderedDict()
            for parked in armed:
                if not parked.done():
                    parked.set_result(None)

    def notified(self) -> "Notified":
        """Return a wait that every later `notify_waiters` reaches, armed or not."""
        return Notified(self)

    # For the waits of this package; everybody else uses `notified`.

    def take_permit(self) -> bool:
        """Use up the stored permit, if there is one."""
        permit, self._permit = self._permit, False
        return permit

    def arm(self) -> Parked:
        """Return a future at the end of the line, which a notification completes."""
        parked = self._home.new_parked()
        self._armed[parked] = None
        return parked

    def check_thread(self) -> None:
        """Refuse a change of state that those who wait could miss; before it is made.

        Raises:
            UsageError: From another thread than that of those who waited.
        """
        self._home.check_thread()

    def act_on(self, parked: Parked) -> bool:
        """Count a notification as acted on; return whether it was a `notify_one`."""
        if parked in self._given:
            self._given.discard(parked)
            return True
        return False

    def disarm(self, parked: Parked) -> None:
        """Take a future out of the line; a `notify_one` that had reached it goes on (N3)."""
        if parked in self._armed:
            del self._armed[parked]
        elif self.act_on(parked):
            self.notify_one()

    def __repr__(self) -> str:
        return f"<Notify {len(self._armed)} armed, permit {'stored' if self._permit else 'none'}>"


@final
class Notified:
    """One wait for a `Notify`. Made by `Notify.notified` only; use it in a ``with``.

    Ordering:
        `notify_waiters` is looked at before the stored permit, which stays then. Among
        armed waiters `notify_one` takes the oldest.
    """

    __slots__ = (
        "__weakref__",
        "_by_one",
        "_generation",
        "_is_awaited",
        "_notify",
        "_parked",
        "_state",
    )

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._generation = notify._generation
        self._state = _State.NEW
        self._by_one = False
        self._is_awaited = False
        self._parked: Parked | None = None  # made when arming: a notification needs its mark

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
            elif self._notify.take_permit():
                self._by_one = True
                self._state = _State.DONE
            else:
                self._parked = self._notify.arm()
                self._state = _State.ARMED
        elif self._state is _State.ARMED and self._parked is not None and self._parked.done():
            self._use(self._parked)
        elif self._state is _State.LEFT:
            msg = "this Notified was left or cancelled; make a new one with notify.notified()"
            raise UsageError(msg)
        return self._state is _State.DONE

    async def wait(self, *, stop: StopSignal | None = None) -> None:
        """Arm if need be, and return when notified.

        Raises:
            Stopped: When *stop* is asked for first, or at the same time. A
                `notify_one` that came along is passed on.
            UsageError: If another task waits for it, or after it was left.

        Cancellation:
            Safe. The wait is disarmed; an unused `notify_one` goes to the next waiter.
        """
        if stop is not None and stop.is_stopped():
            self._leave()
            raise Stopped(reason_of(stop))
        if self.enable() or self._parked is None:
            return
        if self._is_awaited:
            msg = "somebody waits for this Notified already; each needs a notify.notified()"
            raise UsageError(msg)
        self._is_awaited = True
        try:
            await park(self._parked, stop)
            if stop is not None and stop.is_stopped():
                raise Stopped(reason_of(stop))  # noqa: TRY301 - one place that leaves
        except BaseException:
            self._leave()
            raise
        self._use(self._parked)

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
        if self._state is _State.ARMED:
            warnings.warn(
                "an armed Notified was dropped, and may swallow a notify_one; use it in a `with`",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    def __repr__(self) -> str:
        notified = self._state is _State.ARMED and self._parked is not None and self._parked.done()
        return f"<Notified {'notified, not used yet' if notified else self._state.value}>"

    def _use(self, parked: Parked) -> None:
        self._by_one = self._notify.act_on(parked)
        self._state = _State.DONE

    def _leave(self) -> None:
        state, self._state = self._state, _State.LEFT
        if state is _State.ARMED and self._parked is not None:
            self._notify.disarm(self._parked)
