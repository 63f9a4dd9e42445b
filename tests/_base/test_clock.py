"""wall_time: stamps come from one source, which can be replaced."""

import time

import pytest

from millpond._base import wall_time, wall_time_from


def test_it_is_the_time_that_people_read() -> None:
    """Seconds since the epoch."""
    before = time.time()
    assert before <= wall_time() <= time.time()


def test_its_source_can_be_replaced() -> None:
    """Inside the block only, and whatever ends it."""
    with wall_time_from(lambda: 5.0):
        with wall_time_from(lambda: 6.0):
            assert wall_time() == 6.0
        assert wall_time() == 5.0

    def fail() -> None:
        with wall_time_from(lambda: 7.0):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert wall_time() > 7.0
