"""Named points inside a wait where a test may act. No-ops unless one listens."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

_listener: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tell the listener, if there is one, that *point* was reached."""
    if _listener is not None:
        _listener(point)


@contextmanager
def listening(listener: Callable[[str], None]) -> Generator[None]:
    """Call *listener* with the name of every point that is reached inside the block."""
    global _listener  # noqa: PLW0603 - one test listens at a time; product code only reads
    previous, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = previous
