"""Every planted fault is found, every mended twin is exhausted; deduplication hides nothing."""

import pytest

from millpond.testing import Bounds, Counterexample, explore, replay
from millpond.testing._execution import Execution
from millpond.testing._search import Explorer, Search
from proofs import stdlib
from proofs.catalogue import Proof
from tests.testing.corpus import PLANTED, Planted

by_name = pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)


@by_name
def test_a_planted_fault_is_found(planted: Planted) -> None:
    """It is found within a few schedules, and its line replays it."""
    with pytest.raises(Counterexample) as found:
        explore(planted.make(True), bounds=planted.bounds)
    told = found.value
    assert isinstance(told.fault, planted.kind)
    assert told.found_after <= planted.within
    again = replay(planted.make(True), told.schedule)
    assert again.log == told.log
    assert again.waiting == told.waiting


@by_name
def test_its_mended_twin_is_exhausted(planted: Planted) -> None:
    """Within the same bounds, nothing is found, and nothing is left."""
    certificate = explore(planted.make(False), bounds=planted.bounds)
    assert certificate.complete
    assert certificate.stopped_by is None


@by_name
def test_a_shrunk_schedule_is_minimal(planted: Planted) -> None:
    """No single event can be left out of it."""
    with pytest.raises(Counterexample) as found:
        explore(planted.make(True), bounds=planted.bounds)
    head, python, *parts = found.value.schedule.split()
    for number in range(len(parts) if parts != ["fifo"] else 0):
        fewer = " ".join([head, python, *parts[:number], *parts[number + 1 :]])
        with pytest.raises(Exception, match=r"does not fit|shows no fault"):
            raise replay(planted.make(True), fewer)


@by_name
def test_deduplication_loses_no_end(planted: Planted) -> None:
    """The final states are the same with and without it: the audit."""
    ends = {dedupe: final_states(planted, dedupe=dedupe) for dedupe in (True, False)}
    assert ends[True] == ends[False]
    assert ends[True]


@by_name
def test_questions_that_are_left_out_lose_no_end(planted: Planted) -> None:
    """Offering events only where the answer can matter reaches the same final states."""
    assert final_states(planted, skip_repeats=True) == final_states(planted, skip_repeats=False)


def final_states(planted: Planted, *, dedupe: bool = True, skip_repeats: bool = True) -> set[bytes]:
    """Explore the mended twin; return the fingerprints at the ends of its schedules."""
    ends: set[bytes] = set()

    def note(execution: Execution) -> None:
        ends.add(execution.digest())

    bounds = Bounds(preemptions=1, cancels=planted.bounds.cancels)
    search = Search(bounds=bounds, dedupe=dedupe)
    Explorer(
        planted.make(False), planted.name, search, outcomes=note, skip_repeats=skip_repeats
    ).run()
    return ends


@pytest.mark.parametrize("planted", PLANTED[:6], ids=lambda planted: planted.name)
def test_two_processes_see_the_same_states(planted: Planted) -> None:
    """A search that is shared by two processes covers what one covers."""
    one = explore(planted.make(False), bounds=planted.bounds)
    two = explore(planted.make(False), bounds=planted.bounds, processes=2)
    assert two.complete
    assert two.states == one.states
    with pytest.raises(Counterexample) as found:
        explore(planted.make(True), bounds=planted.bounds, processes=2)
    # Which of several faults comes first depends on the shares; each replays.
    assert str(replay(planted.make(True), found.value.schedule)) == str(found.value)


@pytest.mark.parametrize("proof", stdlib.PROOFS, ids=lambda proof: proof.name)
def test_known_faults_of_asyncio(proof: Proof) -> None:
    """They are found on the Pythons that have them, and exhausted on the others."""
    if proof.expects_fault:
        with pytest.raises(Counterexample) as found:
            explore(proof.scenario, bounds=proof.bounds)
        assert found.value.found_after <= 17
    else:
        assert explore(proof.scenario, bounds=proof.bounds).complete
