"""One vocabulary of ends, for every floor."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from millpond.errors import UsageError

I_co = TypeVar("I_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)


class Status(enum.StrEnum):
    """How a unit of work ended."""

    OK = "ok"
    DEGRADED = "degraded"
    """A value came, but not the one that was asked for; `degraded_reason` says why."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    """A layer's time ran out; `layer` names it."""
    EXPIRED = "expired"
    """An item outlived its time before it was used."""
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """Never begun: a need failed, or the run ended first."""
    ABANDONED = "abandoned"
    """Begun, and did not obey when it was told to end."""

    @property
    def has_value(self) -> bool:
        """Whether an outcome of this status carries a value."""
        return self in (Status.OK, Status.DEGRADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[I_co, V_co]):
    """What became of one item. There is exactly one for each."""

    item: I_co
    status: Status
    value: V_co | None = None
    """The result, when the status is ok or degraded."""
    stage: str = ""
    """The stage in which it ended."""
    layer: str = ""
    """The layer whose time ran out, when the status is timed_out."""
    error: BaseException | None = None
    degraded_reason: str = ""
    """For people: why this is not ok. Empty when it is."""
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds spent per stage."""
    recorded: bool = False
    """Whether the outcome is committed to a journal."""

    def unwrap(self) -> V_co:
        """Return the value, or raise what prevented it.

        Raises:
            BaseException: `error`, when there is one.
            UsageError: When there is neither a value nor an error.
        """
        if self.status.has_value:
            return cast("V_co", self.value)
        if self.error is not None:
            raise self.error
        msg = f"no value: {self.status} ({self.degraded_reason or 'no reason given'})"
        raise UsageError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled(Generic[V_co]):
    """What a journal knows about a key: an answer to inject again, or an end.

    ``finished`` is None while only the answer is known.
    """

    answer: V_co | None = None
    has_answer: bool = False
    finished: "Outcome[object, object] | None" = None
