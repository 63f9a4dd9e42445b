"""Shelf: order of arrival, order of expiry, and what they cost (H1-H3)."""

import sys
from dataclasses import dataclass
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.flow._shelf import Shelf  # no public name: the machine under the inventory


@dataclass(frozen=True)
class Item:
    """Something on a shelf."""

    name: int
    expires_at: float | None = None


def names(items: list[Item]) -> list[int]:
    """Return the names of *items*."""
    return [item.name for item in items]


def test_the_oldest_is_taken_first() -> None:
    """H1: first come, first taken."""
    shelf: Shelf[Item] = Shelf()
    for name in range(3):
        shelf.add(Item(name))
    assert [shelf.take()[1].name for _ in range(3)] == [0, 1, 2]


def test_what_is_put_back_is_the_oldest_again() -> None:
    """H1: also when it is put back behind newer arrivals, and in the reverse order of taking."""
    shelf: Shelf[Item] = Shelf()
    for name in range(3):
        shelf.add(Item(name))
    first, second = shelf.take(), shelf.take()
    shelf.add(Item(3))
    shelf.put_back(*second)
    shelf.put_back(*first)
    assert [shelf.take()[1].name for _ in range(4)] == [0, 1, 2, 3]


def test_an_expired_item_behind_a_fresh_head_is_found() -> None:
    """H2: item 2 of 3 is expired; the survivors keep their order."""
    shelf: Shelf[Item] = Shelf()
    for name, expires_at in enumerate((None, 5.0, 9.0)):
        shelf.add(Item(name, expires_at))
    assert names(shelf.drop_expired(6.0)) == [1]
    assert [shelf.take()[1].name for _ in range(2)] == [0, 2]


def test_an_item_is_expired_only_after_its_time() -> None:
    """H2: the test is strict, and 0 is a time like any other."""
    shelf: Shelf[Item] = Shelf()
    shelf.add(Item(0, 0.0))
    assert shelf.drop_expired(0.0) == []
    assert shelf.count_expired(0.0) == 0
    assert shelf.earliest_expiry() == 0.0
    assert shelf.count_expired(0.001) == 1
    assert names(shelf.drop_expired(0.001)) == [0]
    assert shelf.earliest_expiry() is None


def test_what_was_put_back_still_expires_once() -> None:
    """H2: taking and putting back leaves no second life and no second end."""
    shelf: Shelf[Item] = Shelf()
    shelf.add(Item(0, 1.0))
    for _ in range(200):
        shelf.put_back(*shelf.take())
    assert shelf.earliest_expiry() == 1.0
    assert names(shelf.drop_expired(2.0)) == [0]
    assert len(shelf) == 0


def test_the_earliest_expiry_is_that_of_an_item_still_there() -> None:
    """H2: an item that was taken leaves no false alarm."""
    shelf: Shelf[Item] = Shelf()
    shelf.add(Item(0, 1.0))
    shelf.add(Item(1, 2.0))
    shelf.take()
    assert shelf.earliest_expiry() == 2.0


def test_clearing_returns_everything_in_order() -> None:
    """And leaves nothing that could expire."""
    shelf: Shelf[Item] = Shelf()
    for name in range(3):
        shelf.add(Item(name, 1.0))
    assert names(shelf.clear()) == [0, 1, 2]
    assert (len(shelf), shelf.earliest_expiry(), shelf.drop_expired(9.0)) == (0, None, [])


def calls_of_a_round(shelf: Shelf[Item], rounds: int) -> int:
    """Return how many calls *rounds* of add, drop and take make: a cost without a clock."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for name in range(rounds):
            shelf.add(Item(name, 1000.0 + name))
            shelf.drop_expired(0.0)
            shelf.earliest_expiry()
            shelf.take()
    finally:
        sys.setprofile(None)
    return calls


def test_full_scan_per_event() -> None:
    """H3 (defect row 8): with 10 times the stock, an event costs less than twice as much."""
    costs: list[int] = []
    for stock in (500, 5000):
        shelf: Shelf[Item] = Shelf()
        for name in range(stock):
            shelf.add(Item(name, 1000.0 + name))
        costs.append(calls_of_a_round(shelf, 2 * stock) // (2 * stock))
    assert costs[1] < 2 * costs[0]


def test_stale_entries_do_not_pile_up() -> None:
    """H3: the memory for expiries is bounded by the stock, not by the traffic."""
    shelf: Shelf[Item] = Shelf()
    shelf.add(Item(0, 1e9))
    for name in range(1, 5000):
        shelf.add(Item(name, 1e9 + name))
        shelf.take()
    assert len(shelf) == 1
    assert len(shelf._by_expiry) < 200  # nothing public shows it


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.one_of(st.none(), st.integers(0, 9))),
            st.tuples(st.just("take"), st.none()),
            st.tuples(st.just("take and put back"), st.none()),
            st.tuples(st.just("time"), st.integers(0, 9)),
        ),
        max_size=60,
    )
)
def test_it_behaves_like_a_list(program: list[tuple[str, int | None]]) -> None:
    """H1, H2: any program gives what a plain list with a full scan gives."""
    shelf: Shelf[Item] = Shelf()
    model: list[Item] = []
    for number, (step, argument) in enumerate(program):
        if step == "add":
            item = Item(number, None if argument is None else float(argument))
            shelf.add(item)
            model.append(item)
        elif step == "time" and argument is not None:
            dropped = {
                item.name
                for item in model
                if item.expires_at is not None and item.expires_at < argument
            }
            assert shelf.count_expired(argument) == len(dropped)
            assert set(names(shelf.drop_expired(argument))) == dropped
            model = [item for item in model if item.name not in dropped]
        elif model and step == "take":
            assert shelf.take()[1] == model.pop(0)
        elif model:
            shelf.put_back(*shelf.take())
        assert len(shelf) == len(model)
        assert shelf.earliest_expiry() == min(
            (item.expires_at for item in model if item.expires_at is not None), default=None
        )
    assert shelf.clear() == model
