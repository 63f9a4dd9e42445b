"""Every exception and warning of millpond.

::

    MillpondError
     +-- UsageError (RuntimeError)       a mistake in the calling code: mend it, do not catch it
     |    +-- AlreadyReleased            released, settled or started a second time
     |    +-- NestedAcquire              the task itself holds what it waits for
     +-- WouldBlock                      a `..._nowait` call that would have had to wait
     +-- Closed                          the thing was closed, and nothing is left in it
     +-- Stopped                         a stop signal ended the wait
     +-- Lagged                          a subscriber was too slow and missed values
     +-- SequenceFailed                  a number before ours failed, so our turn never comes
     +-- DeadlineError (TimeoutError)    a named layer ran out of time
     +-- Transient                       raise it in a stage to say "worth another try"
     +-- Expired                         an item outlived its time
     +-- SupplierFailed                  the supplier failed too often in a row: the run ended
     +-- SourceFailed                    the iterable of items raised: the run ended
     +-- Stalled                         stages that ignore their cancel hold a whole capacity
     +-- InvariantViolated               books do not balance: a bug, please report it
     +-- RecordError                     a record cannot be read or written
     +-- InputError (ValueError)         a file, an option or a setting is not as it must be

    LeakWarning (ResourceWarning)        a permit was dropped without being released

An error carries facts as attributes, and its sentence is derived from them. All
of them pickle. `asyncio.CancelledError` is never wrapped and never renamed.
"""

from typing import Self

__all__ = [
    "AlreadyReleased",
    "Closed",
    "DeadlineError",
    "Expired",
    "InputError",
    "InvariantViolated",
    "Lagged",
    "LeakWarning",
    "MillpondError",
    "NestedAcquire",
    "RecordError",
    "SequenceFailed",
    "SourceFailed",
    "Stalled",
    "Stopped",
    "SupplierFailed",
    "Transient",
    "UsageError",
    "WouldBlock",
]


class MillpondError(Exception):
    """Root of everything that millpond raises on its own account."""

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors with keyword-only facts cannot be called again with `args`,
        # which is what pickling an exception does by default.
        return _revive, (type(self), self.args, self.__dict__.copy())

    @classmethod
    def _revived(cls, args: tuple[object, ...], facts: dict[str, object]) -> Self:
        error = cls.__new__(cls, *args)
        error.args = args
        error.__dict__.update(facts)
        return error


def _revive(
    kind: type[MillpondError], args: tuple[object, ...], facts: dict[str, object]
) -> MillpondError:
    return kind._revived(args, facts)


class UsageError(MillpondError, RuntimeError):
    """The calling code uses an object in a way that can never work."""


class AlreadyReleased(UsageError):
    """Something that goes back exactly once was given back twice."""

    def __init__(self, what: object) -> None:
        self.what = repr(what)
        super().__init__(f"{self.what} was already given back; release it exactly once")


class NestedAcquire(UsageError):
    """A task waits for permits that it holds itself, so the wait could never end."""

    def __init__(self, *, limiter: str, asked: int, held: int, capacity: int) -> None:
        self.limiter = limiter
        self.asked = asked
        self.held = held
        self.capacity = capacity
        super().__init__(
            f"this task holds {held} of the {capacity} permits of {limiter!r} and asks for"
            f" {asked} more, which can never be granted; release the outer permit first,"
            f" or raise the capacity"
        )


class WouldBlock(MillpondError):
    """The call would have to wait, and was told not to."""

    def __init__(self) -> None:
        super().__init__("nothing is free, or somebody else's turn comes first")


class Closed(MillpondError):
    """The object was closed: it takes nothing more and has nothing left to give."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is closed")


class Stopped(MillpondError):
    """A stop signal ended the wait. Whatever had been granted went back."""

    def __init__(self, reason: str = "", *, report: object = None) -> None:
        self.reason = reason
        self.report = report  # what the wait has to tell, where it keeps an account
        super().__init__(f"stopped: {reason}" if reason else "stopped")


class Lagged(MillpondError):
    """Values were overwritten before this subscriber received them.

    Nothing is closed: the next receive goes on with the oldest value that is kept.
    """

    def __init__(self, *, missed: int) -> None:
        self.missed = missed
        super().__init__(f"{missed} values were overwritten before they were received")


class SequenceFailed(MillpondError):
    """A number failed before its turn was over, so no later turn comes.

    Args:
        sequence: The number that failed first.
        error_type: The class of its error.
        text: The text of its error.
        report: How long the caller has waited, for whom.
    """

    def __init__(self, *, sequence: int, error_type: str, text: str, report: object = None) -> None:
        self.sequence = sequence
        self.error_type = error_type
        self.text = text
        self.report = report
        super().__init__(f"number {sequence} failed, so no later turn comes: {error_type}: {text}")

    def told(self, report: object) -> "SequenceFailed":
        """Return the same failure for another caller, with a *report* of its own."""
        return SequenceFailed(
            sequence=self.sequence, error_type=self.error_type, text=self.text, report=report
        )


class DeadlineError(MillpondError, TimeoutError):
    """A named layer ran out of time."""

    def __init__(self, *, layer: str, timeout: float, elapsed: float) -> None:
        self.layer = layer
        self.timeout = timeout
        self.elapsed = elapsed
        super().__init__(f"{layer} exceeded its {timeout:g} s (ended after {elapsed:.3g} s)")


class Transient(MillpondError):
    """Raised by a stage: this failure may pass, another attempt is worth it.

    Args:
        what: What went wrong, for people.
        retry_after: Seconds that the other side asked us to wait, if it did.
    """

    def __init__(self, what: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(what)


class Expired(MillpondError):
    """An item outlived its time before it was used."""

    def __init__(self, *, what: str, age: float, ttl: float) -> None:
        self.what = what
        self.age = age
        self.ttl = ttl
        super().__init__(f"{what} expired: {age:.3g} s old, allowed {ttl:g} s")


class SupplierFailed(MillpondError):
    """The supplier failed too often in a row. Its last error is the `__cause__`."""

    def __init__(self, *, failures: int, cause: BaseException) -> None:
        self.failures = failures
        self.cause = repr(cause)
        super().__init__(
            f"the supplier failed {failures} times in a row, last with {self.cause};"
            f" nothing more can be paired"
        )


class SourceFailed(MillpondError):
    """The iterable of items raised. Its error is the `__cause__`."""

    def __init__(self, *, pulled: int, cause: BaseException) -> None:
        self.pulled = pulled
        self.cause = repr(cause)
        super().__init__(f"the source of items raised {self.cause} after {pulled} items")


class Stalled(MillpondError):
    """Stages that ignore their cancel hold all of a capacity: nothing can go on."""

    def __init__(self, *, capacity: str, stages: tuple[str, ...]) -> None:
        self.capacity = capacity
        self.stages = stages
        super().__init__(
            f"all of {capacity!r} is held by stages that ignore their cancel: {', '.join(stages)}"
        )


class InvariantViolated(MillpondError):
    """A promise about the books does not hold. `ledger` shows every figure.

    Args:
        what: The promise that is broken.
        ledger: The figures it speaks of.
    """

    def __init__(self, what: str, ledger: dict[str, object]) -> None:
        self.what = what
        self.ledger = ledger
        figures = ", ".join(f"{name}={value}" for name, value in ledger.items())
        super().__init__(f"{what} does not hold: {figures}")


class RecordError(MillpondError):
    """A record cannot be read or written. What was committed is still there.

    Args:
        what: What failed, and why.
        path: The file.
        hint: What to do about it.
    """

    def __init__(self, what: str, *, path: object, hint: str = "") -> None:
        self.path = str(path)
        self.hint = hint
        super().__init__(f"{what} ({self.path})" + (f"; {hint}" if hint else ""))


class InputError(MillpondError, ValueError):
    """A file, an option or a setting is not as it must be.

    Args:
        what: What was expected and what came.
        where: File and line, option, or setting.
        hint: What to do about it.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.where = where
        self.hint = hint
        super().__init__((f"{where}: " if where else "") + what + (f"; {hint}" if hint else ""))


class LeakWarning(ResourceWarning):
    """A permit was dropped without being released; it stays out until then."""
