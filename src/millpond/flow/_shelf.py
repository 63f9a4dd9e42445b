"""One side of the stock: a queue whose items may expire anywhere in it.

A state machine without await, clock or input/output: the time is an argument.

Invariants:
    H1  `take` returns the oldest item that was added; `put_back` makes it the oldest again.
    H2  After ``drop_expired(now)`` no item that expired before *now* is left, wherever
        it stood and whatever the other items' times are.
    H3  Every operation is O(1), or O(log n) where an item has an expiry.
"""

import heapq
from collections import OrderedDict
from typing import Generic, TypeVar

from millpond.flow._envelope import Expiring

E = TypeVar("E", bound=Expiring)

SPARE_ENTRIES = 64
"""Stale heap entries that are always tolerated; beyond, at most one per live item."""


class Shelf(Generic[E]):
    """Items in the order of arrival, found again in the order of expiry."""

    __slots__ = ("_arrivals", "_by_expiry", "_items")

    def __init__(self) -> None:
        self._items: OrderedDict[int, E] = OrderedDict()
        self._arrivals = 0
        # (expires_at, arrival). An entry is stale once its item was taken; it is skipped then.
        self._by_expiry: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: E) -> None:
        """Put *item* behind all others."""
        self._arrivals += 1
        self._items[self._arrivals] = item
        self._note_expiry(self._arrivals, item)

    def take(self) -> tuple[int, E]:
        """Remove the oldest item; return it with its number. There must be one."""
        return self._items.popitem(last=False)

    def put_back(self, number: int, item: E) -> None:
        """Undo `take`: *item* is the oldest again."""
        self._items[number] = item
        self._items.move_to_end(number, last=False)
        self._note_expiry(number, item)

    def drop_expired(self, now: float) -> list[E]:
        """Remove and return every item whose time was over before *now*."""
        dropped: list[E] = []
        while self._by_expiry and self._by_expiry[0][0] < now:
            _, number = heapq.heappop(self._by_expiry)
            item = self._items.pop(number, None)
            if item is not None:
                dropped.append(item)
        return dropped

    def earliest_expiry(self) -> float | None:
        """Return when the next item expires, or None if none ever will."""
        while self._by_expiry and self._by_expiry[0][1] not in self._items:
            heapq.heappop(self._by_expiry)
        return self._by_expiry[0][0] if self._by_expiry else None

    def count_expired(self, now: float) -> int:
        """Return how many items are over their time, without touching them. O(n)."""
        return sum(
            item.expires_at is not None and item.expires_at < now for item in self._items.values()
        )

    def clear(self) -> list[E]:
        """Remove and return everything."""
        items = list(self._items.values())
        self._items.clear()
        self._by_expiry.clear()
        return items

    def _note_expiry(self, number: int, item: E) -> None:
        if item.expires_at is None:
            return
        heapq.heappush(self._by_expiry, (item.expires_at, number))
        if len(self._by_expiry) > 2 * len(self._items) + SPARE_ENTRIES:
            # Mostly items that were taken before they expired. Duplicates of a number
            # (taken and put back) fall away here too.
            self._by_expiry = [
                (kept.expires_at, arrival)
                for arrival, kept in self._items.items()
                if kept.expires_at is not None
            ]
            heapq.heapify(self._by_expiry)
