"""A stop that is asked for once, stays asked for, and reaches everything below it."""

from typing import final
from weakref import WeakValueDictionary

from millpond._base import PushStop, wake


@final
class Stop(PushStop):
    """Asks everybody who listens to come to an end. Sticky and idempotent.

    Stops form a tree: asking a parent asks its children, never the other way round.

    Invariants:
        S1  Once `is_stopped()` is true, it stays true, and `reason` stays the first one.
        S2  A wait that begins after the stop returns from its check.
        S3  A child is stopped whenever its parent is.

    Example:
        >>> run = Stop()
        >>> item = run.child()
        >>> run.stop("enough results")
        >>> item.is_stopped(), item.reason
        (True, 'enough results')
    """

    __slots__ = (
        "__weakref__",
        "_born",
        "_children",
        "_parent",
        "_reason",
    )

    def __init__(self) -> None:
        super().__init__("Stop")
        self._reason = ""
        # Strong: a stop in between lives as long as somebody below it may listen (S3).
        self._parent: Stop | None = None
        # Weak, so that a long-lived parent does not collect its dead children; keyed by
        # number, so that children are told in the order in which they were made.
        self._born = 0
        self._children: WeakValueDictionary[int, Stop] = WeakValueDictionary()

    def stop(self, reason: str = "") -> None:
        """Ask for the stop. Only the first call and its *reason* count.

        Raises:
            UsageError: From another thread than that of those who wait; use
                ``loop.call_soon_threadsafe(stop.stop)`` there.
        """
        asked: list[Stop] = [] if self._stopped else [self]
        for stop in asked:  # it grows
            # Refused before anything changes: a tree that is stopped in part stays so (S1).
            # Where nobody waits, nobody can miss it: below, a loop may long be closed.
            if stop is self or stop._parked:
                stop._home.check_thread()
            asked.extend(child for child in stop._children.values() if not child._stopped)
        for stop in asked:
            stop._stopped = True
            stop._reason = reason
            parked, stop._parked = stop._parked, {}
            for future in parked:
                wake(future)

    @property
    def reason(self) -> str:
        """Why, in the words of the first call. Empty before."""
        return self._reason

    def child(self) -> "Stop":
        """Return a stop that is stopped with this one, and may be stopped alone."""
        child = Stop()
        if self._stopped:
            child.stop(self._reason)
        else:
            child._parent = self
            self._born += 1
            self._children[self._born] = child
        return child

    def __repr__(self) -> str:
        state = f"stopped: {self._reason!r}" if self._stopped else "not stopped"
        return f"<Stop {state}, {len(self._parked)} waiting>"
