"""What a pipeline asks of whoever keeps its answers. `millpond.record` implements it."""

from typing import Protocol

from millpond._base import Outcome, Recalled


class Journal(Protocol):
    """Keeps answers and ends, by the key of their item.

    The appending methods are plain ``def``s, so that no cancel can fall between a
    result and its record. A journal that cannot store something raises `RecordError`
    from `committed`, not from a later, unrelated call.
    """

    def recall(self, key: str) -> Recalled[object] | None:
        """Return what an earlier run left under *key*, or None."""
        ...

    def answer(self, key: str, value: object) -> None:
        """Take note of an answer, in the moment it returns."""
        ...

    def finish(self, key: str, outcome: Outcome[object, object]) -> None:
        """Take note of the end of an item."""
        ...

    async def committed(self, key: str) -> None:
        """Return once everything said of *key* so far is safe.

        Raises:
            RecordError: If it cannot be made safe.
        """
        ...
