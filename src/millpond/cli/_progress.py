"""What a person sees on standard error while a job runs."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from millpond._base import loop_time
from millpond.cli._exit import say
from millpond.flow import Run, Status

LIVE_SECONDS = 0.2
HEARTBEAT_SECONDS = 10.0


def line_of(run: Run[Any, Any], total: int | None, elapsed: float) -> str:
    """Describe the run in one line. Nothing that waits looks like a hang."""
    now = run.statistics()
    good = sum(n for status, n in now.by_status.items() if status is Status.OK)
    parts = [
        f"{elapsed:.0f} s",
        f"{now.ended}/{total}" if total is not None else f"{now.ended} of {now.pulled}",
        f"{good} ok",
        f"{now.ended - good} not ok" if now.ended != good else "",
        f"{now.in_flight} in flight",
        f"{now.q_stock} answers wait" if now.q_stock else "",
        f"{now.producing} in the making" if now.producing else "",
        f"{now.t_stock} ready",
        f"{now.consuming} being consumed" if now.consuming else "",
        f"{now.retries} retried" if now.retries else "",
    ]
    return " | ".join(part for part in parts if part)


async def show(run: Run[Any, Any], total: int | None) -> None:
    """Show progress until cancelled: a live line on a terminal, else one every 10 s.

    Cancellation:
        Ends the display.
    """
    begun = loop_time()

    def line() -> str:
        return line_of(run, total, loop_time() - begun)

    if sys.stderr.isatty():
        await _show_live(line)
    else:
        await _show_heartbeat(line)


async def _show_live(line: Callable[[], str]) -> None:
    console = Console(stderr=True)
    # Refreshed by this task: rich's own thread would read the books while they change.
    with (
        suppress(BrokenPipeError),
        # rich would send what is printed to standard output to the console as well, which is
        # standard error: right only where both are the terminal.
        Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        ) as live,
    ):
        while True:
            live.update(Text(line(), no_wrap=True, overflow="ellipsis"), refresh=True)
            await asyncio.sleep(LIVE_SECONDS)


async def _show_heartbeat(line: Callable[[], str]) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        say(line())
