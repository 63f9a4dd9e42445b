"""Ground: what every floor stands on. A user meets it through the floors."""

from millpond._base._chance import chance, chance_from
from millpond._base._checks import at_least, at_least_one, not_negative, seconds
from millpond._base._clock import Clock, loop_time, wall_time, wall_time_from
from millpond._base._deadline import Deadline
from millpond._base._home import Home, Parked
from millpond._base._hooks import listening, reach
from millpond._base._machine import Machine, read_machine
from millpond._base._outcome import Outcome, Recalled, Status
from millpond._base._parking import (
    PushStop,
    StopSignal,
    either,
    park,
    pause,
    reason_of,
    wake,
)
from millpond._base._threads import (
    DaemonThreads,
    Threads,
    offload,
    start_batch_thread,
    start_thread,
    threads_started_by,
)
from millpond._base._turns import TurnQueue

__all__ = [
    "Clock",
    "DaemonThreads",
    "Deadline",
    "Home",
    "Machine",
    "Outcome",
    "Parked",
    "PushStop",
    "Recalled",
    "Status",
    "StopSignal",
    "Threads",
    "TurnQueue",
    "at_least",
    "at_least_one",
    "chance",
    "chance_from",
    "either",
    "listening",
    "loop_time",
    "not_negative",
    "offload",
    "park",
    "pause",
    "reach",
    "read_machine",
    "reason_of",
    "seconds",
    "start_batch_thread",
    "start_thread",
    "threads_started_by",
    "wake",
    "wall_time",
    "wall_time_from",
]
