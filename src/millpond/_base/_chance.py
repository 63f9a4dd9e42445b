"""Chance has one source, so that a test kit can replace it. Not for secrets."""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager

_source: Callable[[], float] = random.random


def chance() -> float:
    """Return a number from 0, which may come, to 1, which never comes."""
    return _source()


@contextmanager
def chance_from(source: Callable[[], float]) -> Generator[None]:
    """Let `chance` return what *source* returns inside the block, in whatever thread."""
    global _source  # noqa: PLW0603 - one test replaces it at a time; product code only reads
    previous, _source = _source, source
    try:
        yield
    finally:
        _source = previous
