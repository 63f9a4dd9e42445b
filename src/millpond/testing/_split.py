"""One search in several processes, each with its share of the branches."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, final

from millpond.errors import UsageError
from millpond.testing._strategies import Share


@final
@dataclass(frozen=True, slots=True)
class Tally:
    """What a process tried."""

    schedules: int
    cut: int
    callbacks: int
    states: frozenset[bytes]
    labels: frozenset[str]
    stopped_by: str | None


def in_processes(count: int, search: Callable[[Share], Tally]) -> list[Tally]:
    """Run *search* with each of *count* shares, in a forked process each.

    Raises:
        UsageError: Where processes cannot fork.
        Exception: The first error of any of them; the others are ended.
        RuntimeError: If one of them died.
    """
    if not hasattr(os, "fork"):
        msg = "a search in several processes needs `fork`, which this system does not have"
        raise UsageError(msg)
    context = multiprocessing.get_context("fork")
    processes: dict[Any, Any] = {}
    for index in range(count):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, search, Share(index, count)))
        process.start()
        theirs.close()
        processes[ours] = process
    tallies: list[Tally] = []
    try:
        while len(tallies) < count:
            for line in wait([line for line in processes if not line.closed]):
                assert isinstance(line, Connection)  # noqa: S101 - nothing else was given
                tallies.append(_receive(line, processes[line]))
                line.close()
    finally:
        for line, process in processes.items():
            line.close()
            process.terminate()
            process.join()
    return tallies


def _receive(line: Connection, process: Any) -> Tally:
    try:
        said = line.recv()
    except EOFError:
        process.join()
        msg = f"a process of the search ended without a word (exit code {process.exitcode})"
        raise RuntimeError(msg) from None
    if isinstance(said, BaseException):
        raise said
    assert isinstance(said, Tally)  # noqa: S101 - `_work` sends nothing else
    return said


def _work(line: Connection, search: Callable[[Share], Tally], share: Share) -> None:
    try:
        line.send(search(share))
    except BaseException as error:  # noqa: BLE001 - it travels to the parent
        line.send(error)
