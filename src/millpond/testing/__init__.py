"""A kit that tries every order and every cancel, and says what it did not try.

| I want to | use |
|---|---|
| try every behaviour of the outside world within bounds | `explore`, with a `World` |
| run one schedule again | `replay` |

The explorer never reorders the loop's queue: asyncio documents it as first in, first out. Only
the outside world has a choice, so what it finds can happen.
"""

from millpond.testing._bounds import Bounds
from millpond.testing._certificate import NOT_EXPLORED, Certificate
from millpond.testing._counterexample import Counterexample
from millpond.testing._explore import Incomplete, explore, replay
from millpond.testing._faults import (
    Deadlock,
    Diverged,
    Fault,
    Livelock,
    LoopFault,
    NeverAwaited,
    Nondeterministic,
    ScenarioError,
    TaskFailed,
    UnsupportedInterpreter,
    Violation,
)
from millpond.testing._world import Actor, World

__all__ = [
    "NOT_EXPLORED",
    "Actor",
    "Bounds",
    "Certificate",
    "Counterexample",
    "Deadlock",
    "Diverged",
    "Fault",
    "Incomplete",
    "Livelock",
    "LoopFault",
    "NeverAwaited",
    "Nondeterministic",
    "ScenarioError",
    "TaskFailed",
    "UnsupportedInterpreter",
    "Violation",
    "World",
    "explore",
    "replay",
]
