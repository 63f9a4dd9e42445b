"""What a pipeline was told, checked and completed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from millpond._base import at_least_one, seconds
from millpond.errors import UsageError
from millpond.flow._capacity import Capacity
from millpond.flow._disposal import Discard
from millpond.flow._gate import Watermarks
from millpond.flow._journal import Journal
from millpond.flow._retry import Retry
from millpond.flow._supplier import Supply

I = TypeVar("I")  # noqa: E741 - the item's type, as in Outcome[I, V]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Generic[I, V]):
    """The settings of a `Pipeline`, where they are explained."""

    supply: Supply[Any]
    request: Callable[[Any], Awaitable[Any]]
    consume: Callable[[Any, Any, I], Awaitable[V]]
    send: Callable[[I], Awaitable[Any]] | None
    discard_t: Discard[Any] | None
    discard_q: Discard[Any] | None
    capacity: Capacity
    ttl_t: float | None
    ttl_q: float | None
    t_marks: Watermarks
    q_marks: Watermarks
    request_timeout: float | None
    consume_timeout: float | None
    discard_timeout: float
    grace: float
    supply_failures: int
    retry: Retry | None
    journal: Journal | None
    key: Callable[[I], str] | None
    max_unread: int

    def __post_init__(self) -> None:
        for name in ("supply", "request", "consume"):
            if not callable(getattr(self, name)):
                msg = f"`{name}` must be an async function, got {getattr(self, name)!r}"
                raise UsageError(msg)
        for name in ("ttl_t", "ttl_q", "request_timeout", "consume_timeout"):
            seconds(name, getattr(self, name))
        for name in ("discard_timeout", "grace"):
            seconds(name, getattr(self, name), optional=False)
        at_least_one("supply_failures", self.supply_failures)
        at_least_one("max_unread", self.max_unread)
        if self.journal is not None and self.key is None:
            msg = "a journal knows items by their key; pass `key=`, a function from item to str"
            raise UsageError(msg)
