"""Threads of the library, as events of the outside world."""

from collections.abc import Callable
from typing import Protocol, TypeVar, final

T = TypeVar("T")


class Outside(Protocol):
    """Takes what may run beside the loop."""

    def __call__(self, name: str, body: Callable[[], object]) -> None:
        """Let *body* run at a moment that the world chooses."""
        ...


@final
class ExploredThreads:
    """Takes the place of real threads: see `millpond._base.threads_started_by`.

    A thread's body runs in one go, at any moment. One that works on batches takes what has
    been put by then; that more is put before it runs is one of the orders that are tried.
    """

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Let *body* run once."""
        self._outside(name, body)

    def start_batches(
        self, name: str, work: Callable[[list[T]], bool], most: int
    ) -> Callable[[T], None]:
        """Let *work* run for what was put, whenever there is something."""
        waiting: list[T] = []
        is_due = ended = False

        def run() -> None:
            nonlocal is_due, ended
            is_due = False
            batch = waiting[:most]
            del waiting[:most]
            ended = not work(batch)
            if waiting:
                be_due()

        def be_due() -> None:
            nonlocal is_due
            if not (is_due or ended):
                is_due = True
                self._outside(name, run)

        def put(thing: T) -> None:
            waiting.append(thing)
            be_due()

        return put
