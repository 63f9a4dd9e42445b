"""Callers who queue for something that is handed out strictly in order.

The queue under limiter, inventory, gate and intake. Its owner decides *what* may
be handed out and when; this module only keeps the line.

Invariants:
    B1  Callers resume in the order in which they came. While a grant is under way
        (handed over, its task has not run yet), a newcomer queues too: `busy`.
    B2  Every grant is either returned by `turn` or given to `take_back`, once.
    B3  ``len(queue)`` is the exact number of callers without a grant.
"""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from millpond._base._home import Home
from millpond._base._parking import StopSignal, park, reason_of, wake
from millpond.errors import Stopped

W = TypeVar("W")
G = TypeVar("G")


class Turn(Generic[W, G]):
    """One queued caller: what it wants, and what it was handed."""

    __slots__ = ("error", "grant", "granted", "parked", "want")

    def __init__(self, want: W, parked: "asyncio.Future[None]") -> None:
        self.want = want
        self.parked = parked
        self.granted = False
        self.grant: G | None = None
        self.error: Exception | None = None


class TurnQueue(Generic[W, G]):
    """A line of callers, each of whom wants a W and is handed a G.

    Args:
        take_back: Gets a grant whose caller was cancelled or stopped before it ran.
        serve: Looks whether the head of the line can be handed something now.
        owner: What the line is for, in messages.
    """

    __slots__ = ("_home", "_line", "_serve", "_take_back", "_under_way")

    def __init__(
        self, *, take_back: Callable[[G], None], serve: Callable[[], None], owner: str
    ) -> None:
        self._home = Home(owner)
        # An OrderedDict, because a caller may leave from anywhere in O(1).
        self._line: OrderedDict[Turn[W, G], None] = OrderedDict()
        self._under_way = 0
        self._take_back = take_back
        self._serve = serve

    def __len__(self) -> int:
        return len(self._line)

    def wants(self) -> Iterator[W]:
        """Return what those in line want, the first one first."""
        return (turn.want for turn in self._line)

    @property
    def busy(self) -> bool:
        """Whether a newcomer has to queue (B1)."""
        return self._under_way > 0 or bool(self._line)

    @property
    def under_way(self) -> int:
        """How many grants were handed over to tasks that have not run yet."""
        return self._under_way

    def head(self) -> W:
        """Return what the first in line wants. The line must not be empty."""
        return next(iter(self._line)).want

    def check_thread(self) -> None:
        """Refuse a change from outside the loop's thread, if somebody could miss it.

        For the owner, before it changes anything: a change that is refused half-way would
        lose what it was about.

        Raises:
            UsageError: With what to call instead.
        """
        if self._line or self._under_way:
            self._home.check_thread()

    def hand(self, grant: G) -> None:
        """Hand *grant* to the first in line, who leaves it. It must not be empty."""
        turn, _ = self._line.popitem(last=False)
        turn.granted = True
        turn.grant = grant
        self._under_way += 1
        wake(turn.parked)

    def dismiss(self, error: Exception, *, hopeless: Callable[[W], bool] | None = None) -> None:
        """Send callers away with *error*: all, or those whose want is *hopeless*."""
        self.check_thread()
        for turn in list(self._line):
            if hopeless is None or hopeless(turn.want):
                del self._line[turn]
                turn.error = copy.copy(error)  # each its own: a raise adds to the traceback
                wake(turn.parked)

    async def turn(self, want: W, *, stop: StopSignal | None) -> G:
        """Join the end of the line, and return what is handed over.

        Raises:
            Stopped: When *stop* is asked for first, or at the same time.
            Exception: What `dismiss` was told.
            UsageError: In any loop but the first one in which somebody queued.

        Cancellation:
            Safe. A caller in line loses its place; a caller that was handed a grant
            and has not run yet gives it back.

        Ordering:
            First come, first served. Stop beats grant. A foreign *stop* costs a task that
            has to end first, so its caller resumes a turn of the loop later.
        """
        turn: Turn[W, G] = Turn(want, self._home.new_parked())
        self._line[turn] = None
        try:
            if stop is None:
                await turn.parked
            else:
                await park(turn.parked, stop)
                if stop.is_stopped():
                    raise Stopped(reason_of(stop))  # noqa: TRY301 - one place that leaves the line
            if turn.error is not None:
                raise turn.error  # noqa: TRY301 - the same
        except BaseException:
            self._leave(turn)
            raise
        self._under_way -= 1
        if self._line:
            # Somebody may have queued only because this grant was under way.
            self._serve()
        return turn.grant  # type: ignore[return-value] # woken by nobody else: `hand` was called

    def _leave(self, turn: Turn[W, G]) -> None:
        if turn.granted:
            self._under_way -= 1
            self._take_back(turn.grant)  # type: ignore[arg-type] # set together with `granted`
        else:
            first = next(iter(self._line), None)
            self._line.pop(turn, None)
            if first is not turn:
                return
        # The next in line may want less than this one did.
        self._serve()
