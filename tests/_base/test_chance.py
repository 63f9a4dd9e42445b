"""chance: jitter comes from one source, which can be replaced."""

import pytest

from millpond._base import chance, chance_from
from millpond.errors import Transient
from millpond.flow import Retry


def test_it_is_a_number_from_0_to_1() -> None:
    """Not always the same."""
    drawn = {chance() for _ in range(100)}
    assert len(drawn) > 1
    assert all(0 <= number < 1 for number in drawn)


def test_its_source_can_be_replaced() -> None:
    """Inside the block only, and whatever ends it."""
    with chance_from(lambda: 5.0):
        with chance_from(lambda: 6.0):
            assert chance() == 6.0
        assert chance() == 5.0

    def fail() -> None:
        with chance_from(lambda: 7.0):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert chance() < 1


def test_retries_draw_their_jitter_from_it() -> None:
    """Those that were made before, too."""
    retry = Retry(first_wait=4, jitter=0.5)
    with chance_from(lambda: 0.0):
        assert retry.wait_after(Transient("busy"), 1) == 4
    with chance_from(lambda: 1.0):
        assert retry.wait_after(Transient("busy"), 1) == 6
