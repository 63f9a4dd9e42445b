"""Pipelines that pair a scarce local resource T with a slow external answer Q.

Law of this floor: nothing that was taken stays taken. Every slot, permit, ticket and
resource has one owner at any time, and goes back exactly once, whatever fails and
whoever is cancelled.

S makes T, P awaits Q, C claims a pair and consumes it:

=================================  ==================================================
`Pipeline`, `Run`                  the whole: items in, one `Outcome` per item out
`Limiter`, `Permit`                counted permits, first come first served
`Inventory`, `PairLease`           the stock, and the atomic claim of a pair
`ResourceEnvelope`                 a resource bound to its slot
`AdmissionGate`, `Watermarks`      whether a producer may go on
`Capacity`                         what may go on at once, and why
`Retry`                            which failures are worth another attempt
`Disposer`                         bounded disposal that nobody has to wait for
`Journal`, `Recalled`              what a pipeline asks of whoever keeps its answers
=================================  ==================================================

What it deliberately does not do: no scheduler, no choice of roles, no scoring, no
change of concurrency at run time, no requeueing by workers, no rescue of valuable
resources, no sweeper, no automatic switch to a riskier mode.
"""

from millpond._base import Outcome, Recalled, Status
from millpond.flow._capacity import Capacity, Workers
from millpond.flow._disposal import DisposalStatistics, Disposer
from millpond.flow._envelope import Owner, ResourceEnvelope
from millpond.flow._gate import AdmissionGate, GateStatistics, Ticket, Watermarks
from millpond.flow._inventory import (
    Admission,
    Inventory,
    InventoryStatistics,
    PairLease,
    SideStatistics,
)
from millpond.flow._journal import Journal
from millpond.flow._limiter import Holder, Limiter, LimiterStatistics, Permit
from millpond.flow._pipeline import Pipeline
from millpond.flow._retry import Attempt, Retry
from millpond.flow._run import Run, RunStatistics

__all__ = [
    "Admission",
    "AdmissionGate",
    "Attempt",
    "Capacity",
    "DisposalStatistics",
    "Disposer",
    "GateStatistics",
    "Holder",
    "Inventory",
    "InventoryStatistics",
    "Journal",
    "Limiter",
    "LimiterStatistics",
    "Outcome",
    "Owner",
    "PairLease",
    "Permit",
    "Pipeline",
    "Recalled",
    "ResourceEnvelope",
    "Retry",
    "Run",
    "RunStatistics",
    "SideStatistics",
    "Status",
    "Ticket",
    "Watermarks",
    "Workers",
]
