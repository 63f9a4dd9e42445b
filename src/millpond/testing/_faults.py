"""What an exploration can find, and what can be wrong with a scenario.

::

    Fault (AssertionError)           the code under test is at fault
     +-- Violation                   a check of the scenario does not hold
     +-- Deadlock                    nothing can happen any more, and somebody still waits
     +-- Livelock                    the program goes round and round by itself
     +-- TaskFailed                  a task ended with an error that nobody expected
     +-- LoopFault                   the loop's exception handler was called
     +-- NeverAwaited                a coroutine was made and dropped

    ScenarioError (UsageError)       the scenario is at fault: mend it first
     +-- Nondeterministic            the same schedule took another course
     +-- Diverged                    a replayed schedule does not fit the program any more
     +-- UnsupportedInterpreter      asyncio has other internals than the explorer knows

A fault says what is wrong; the `Counterexample` that carries it says when.
"""

from typing import final

from millpond.errors import UsageError


class Fault(AssertionError):
    """Something that the code under test must not do."""


@final
class Violation(Fault):
    """A check of the scenario does not hold, or itself raised an error."""


@final
class Deadlock(Fault):
    """Nothing can happen any more, and a task that should have ended still waits."""


@final
class Livelock(Fault):
    """The program is busy for ever, though nothing from outside is due."""


@final
class TaskFailed(Fault):
    """A task ended with an error that is not among those it may raise."""


@final
class LoopFault(Fault):
    """The loop's exception handler was called, as for an error in a callback."""


@final
class NeverAwaited(Fault):
    """A coroutine was made and dropped without being awaited."""


class ScenarioError(UsageError):
    """The scenario cannot be explored as it is."""


@final
class Nondeterministic(ScenarioError):
    """The same schedule took another course: something beside the world decided."""


@final
class Diverged(ScenarioError):
    """A schedule names an event that the program does not offer at that place."""


@final
class UnsupportedInterpreter(ScenarioError):
    """This interpreter's asyncio has other internals than the explorer drives."""
