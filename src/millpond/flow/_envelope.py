"""A resource bound to the slot it occupies, with one owner at any time.

Invariants:
    E1  The slot goes back exactly once, and the resource is disposed of exactly once.
    E2  Only the present owner moves or settles an envelope: first the worker that made
        it, then the inventory, then a lease.
    E3  No await lies between getting the slot and owning it, nor between two owners.
"""

import enum
from typing import Generic, Protocol, TypeVar, final

from millpond._base import Clock, StopSignal, loop_time, seconds
from millpond.errors import AlreadyReleased, UsageError
from millpond.flow._disposal import Discard, Disposer
from millpond.flow._limiter import Limiter, Permit

R = TypeVar("R")
N = TypeVar("N")


class Owner(enum.StrEnum):
    """Who answers for an envelope."""

    WORKER = "worker"
    INVENTORY = "inventory"
    LEASE = "lease"
    SETTLED = "settled"


class Expiring(Protocol):
    """Something that may outlive its time."""

    @property
    def expires_at(self) -> float | None:
        """When, by the clock of the loop; None: never."""
        ...


@final
class ResourceEnvelope(Generic[R]):
    """A resource, its slot, and its time. Made by `create_with_slot` only.

    Example:
        >>> import asyncio
        >>> from millpond.flow import Limiter
        >>> async def main() -> None:
        ...     slots = Limiter(1, name="t_slot")
        ...     envelope = await ResourceEnvelope.create_with_slot("sandbox", slots, ttl=300)
        ...     print(envelope.owner, slots)
        ...     envelope.release()
        ...     print(envelope.owner, slots)
        >>> asyncio.run(main())
        worker <Limiter 't_slot' 1/1 out, 0 queued>
        settled <Limiter 't_slot' 0/1 out, 0 queued>
    """

    __slots__ = ("_clock", "_disposer", "_slot", "created_at", "expires_at", "owner", "resource")

    def __init__(  # noqa: PLR0913 - called by `create_with_slot` alone
        self,
        resource: R,
        slot: Permit,
        *,
        created_at: float,
        expires_at: float | None,
        disposer: Disposer[R],
        clock: Clock,
    ) -> None:
        self.resource = resource
        self.owner = Owner.WORKER
        self.created_at = created_at
        self.expires_at = expires_at
        self._slot = slot
        self._disposer = disposer
        self._clock = clock

    @staticmethod
    async def create_with_slot(  # noqa: PLR0913 - each is a fact of the resource
        resource: N,
        slots: Limiter,
        *,
        ttl: float | None = None,
        discard: Discard[N] | Disposer[N] | None = None,
        stop: StopSignal | None = None,
        clock: Clock = loop_time,
    ) -> "ResourceEnvelope[N]":
        """Wait for a slot and bind *resource* to it. The caller owns the result.

        From the call on, this function answers for *resource*: when it raises, the
        resource is disposed of.

        Args:
            resource: Made already; a slot is taken only for what exists.
            slots: Where the slot comes from.
            ttl: Seconds from now until it expires, the wait for the slot included.
                None: never.
            discard: Disposes of the resource when it is settled, plain or async; the
                slot goes back when that ended. None: nothing to dispose of.
            stop: Ends the wait.
            clock: Where the time comes from.

        Raises:
            Stopped: When *stop* is asked for.
            Closed: When *slots* is closed.

        Cancellation:
            Safe. No slot is taken, and the resource is disposed of.

        Ordering:
            As `Limiter.acquire`.
        """
        disposer = discard if isinstance(discard, Disposer) else Disposer(discard)
        created_at = clock()
        try:
            seconds("ttl", ttl)
            slot = await slots.acquire(stop=stop)
        except BaseException:
            disposer.dispose(resource)
            raise
        slot.hand_over("envelope")
        return ResourceEnvelope(
            resource,
            slot,
            created_at=created_at,
            expires_at=None if ttl is None else created_at + ttl,
            disposer=disposer,
            clock=clock,
        )

    @property
    def age(self) -> float:
        """Seconds since the resource was produced."""
        return self._clock() - self.created_at

    def is_expired(self, now: float | None = None) -> bool:
        """Whether its time is over, at *now* or at this moment."""
        if self.expires_at is None:
            return False
        return (self._clock() if now is None else now) > self.expires_at

    def release(self) -> None:
        """Settle the envelope, as the worker that made it and has not put it anywhere.

        Raises:
            AlreadyReleased: If it is settled.
            UsageError: If somebody else owns it by now.
        """
        self.settle(Owner.WORKER)

    def move(self, giver: Owner, taker: Owner) -> None:
        """Pass the ownership on. For inventory and lease."""
        self._check(giver)
        self.owner = taker

    def settle(self, owner: Owner) -> None:
        """Dispose of the resource, and give the slot back when that ended."""
        self._check(owner)
        self.owner = Owner.SETTLED
        self._disposer.dispose(self.resource, self._slot.release)

    def _check(self, owner: Owner) -> None:
        if self.owner is Owner.SETTLED:
            raise AlreadyReleased(self)
        if self.owner is not owner:
            msg = (
                f"{self!r} belongs to the {self.owner}, not to the {owner}; only its owner may act"
            )
            raise UsageError(msg)

    def __repr__(self) -> str:
        return f"<ResourceEnvelope {self.resource!r}, {self.owner}>"
