"""Exploring proofs in two processes, and what became of each."""

import logging
import multiprocessing
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from millpond.testing import Certificate, Counterexample, ScenarioError, explore
from proofs import flow, stdlib, sync
from proofs.catalogue import Proof, Tier

PROOFS: Final[tuple[Proof, ...]] = (*stdlib.PROOFS, *sync.PROOFS, *flow.PROOFS)


@final
@dataclass(frozen=True, slots=True)
class Result:
    """What became of one proof."""

    proof: Proof
    certificate: Certificate | None
    found: Counterexample | None
    error: str | None
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether it is what this Python should show."""
        if self.proof.expects_fault:
            return self.found is not None
        return self.certificate is not None and self.certificate.complete

    @property
    def verdict(self) -> str:
        """One line."""
        if self.error is not None:
            return f"ERROR: {self.error}"
        if self.found is not None:
            known = "known fault of this Python" if self.proof.expects_fault else "FAULT"
            return f"{known}: {self.found.schedule}"
        assert self.certificate is not None
        return self.certificate.verdict

    def to_json(self, tier: Tier) -> dict[str, object]:
        """Return it as plain data; a fault has the numbers of the search that found it."""
        bounds = self.proof.bounds_of(tier)
        known: dict[str, object] = (
            {
                "name": self.proof.name,
                "python": platform.python_version(),
                "bounds": str(bounds),
                "schedules": self.found.found_after if self.found else 0,
                "states": 0,
                "complete": False,
            }
            if self.certificate is None
            else self.certificate.to_json()
        )
        return known | {
            "as_expected": self.as_expected,
            "expects_fault": self.proof.expects_fault,
            "schedule": self.found.schedule if self.found else None,
            "fault": str(self.found.fault) if self.found else None,
            "error": self.error,
            "seconds": round(self.seconds, 3),
        }


End: TypeAlias = tuple[Certificate | None, Counterexample | None, str | None, float]
"""How one exploration ended: as in `Result`, without the proof."""


def prove(proof: Proof, tier: Tier) -> End:
    """Explore one scenario."""
    began = time.perf_counter()
    certificate = found = error = None
    try:
        certificate = explore(proof.scenario, name=proof.name, bounds=proof.bounds_of(tier))
    except Counterexample as counterexample:
        found = counterexample
    except ScenarioError as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
    return certificate, found, error, time.perf_counter() - began


def prove_all(proofs: Sequence[Proof], tier: Tier) -> Iterator[Result]:
    """Explore in two processes, a proof in one each, and give the results in their order."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        # Scenarios may be closures, which cannot be sent; their numbers can.
        numbers = [PROOFS.index(proof) for proof in proofs]
        ends = pool.map(_by_number, numbers, [tier] * len(numbers))
        for proof, end in zip(proofs, ends, strict=True):
            yield Result(proof, *end)


def _by_number(number: int, tier: Tier) -> End:
    logging.disable()  # what slow turns and abandoned tasks say is not the matter here
    return prove(PROOFS[number], tier)
