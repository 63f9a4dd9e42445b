"""Calm concurrency for asyncio: many slow, uncertain, expensive external calls.

Without stalling, leaking, or losing what already finished.

=====================  ========================================================
Floor                  Law
=====================  ========================================================
`millpond.sync`        nothing that changed goes unnoticed
`millpond.flow`        nothing that was taken stays taken
`millpond.record`      nothing that happened goes unrecorded
=====================  ========================================================

`millpond.jobs` and the ``millpond`` command stand on them. Errors are in
`millpond.errors`, drawn as a tree.
"""

from millpond.flow import Capacity, Limiter, Outcome, Pipeline, Retry, Status
from millpond.sync import Stop

__all__ = ["Capacity", "Limiter", "Outcome", "Pipeline", "Retry", "Status", "Stop"]
