"""Items through a channel, per item."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.harness import Case, Section
from benchmarks.rows import Contest
from millpond.sync import Channel


class Ends(NamedTuple):
    """How items go in and out."""

    send: Callable[[int], Awaitable[object]]
    receive: Callable[[], Awaitable[object]]
    close: Callable[[], object] = lambda: None


Make = Callable[[int | None], Ends]

SHAPES = ((1, 1, None), (1, 1, 100), (1, 1, 1), (10, 10, 100), (10, 10, 1), (1, 100, 100))
"""Senders, receivers, capacity."""


def contests(*, full: bool) -> list[Contest]:
    """Return what is compared: each shape in time; in the *full* suite in instructions too."""
    found: list[Contest] = []
    for senders, receivers, capacity in SHAPES:
        cap = "unbounded" if capacity is None else f"capacity {capacity}"
        shape = f"{senders}:{receivers} {cap}"

        def case(name: str, make: Make, shape: tuple[int, int, int | None], title: str) -> Case:
            return _case(f"{name} {title}", make, *shape)

        ours = case("Channel", _channel, (senders, receivers, capacity), shape)
        queue = case("asyncio.Queue", _queue, (senders, receivers, capacity), shape)
        others = {
            name: case(name, make, (senders, receivers, capacity), shape)
            for name, make in _peers().items()
        }
        title = f"channel {shape}"
        found.append(Contest(title, ours, queue, "time", 0.75, others))
        if full:
            found.append(Contest(title, ours, queue, "instructions"))
    return found


def _case(name: str, make: Make, senders: int, receivers: int, capacity: int | None) -> Case:
    async def run(operations: int, section: Section) -> None:
        ends = make(capacity)

        async def sender() -> None:
            for number in range(operations // senders):
                await ends.send(number)

        async def receiver() -> None:
            for _ in range(operations // receivers):
                await ends.receive()

        with section:
            await asyncio.gather(
                *(receiver() for _ in range(receivers)), *(sender() for _ in range(senders))
            )
        ends.close()

    return Case(name, run, (4_000, 200, 800))


def _channel(capacity: int | None) -> Ends:
    channel: Channel[int] = Channel(capacity)
    return Ends(channel.send, channel.recv)


def _queue(capacity: int | None) -> Ends:
    queue: asyncio.Queue[int] = asyncio.Queue(capacity or 0)
    return Ends(queue.put, queue.get)


def _peers() -> dict[str, Make]:
    known: dict[str, Make] = {
        "anyio": _anyio,
        "culsans": lambda capacity: _two_faced(peers.load("culsans"), capacity),
        "janus": lambda capacity: _two_faced(peers.load("janus"), capacity),
    }
    return {name: make for name, make in known.items() if peers.has(name)}


def _anyio(capacity: int | None) -> Ends:
    room = float("inf") if capacity is None else capacity
    send, receive = peers.load("anyio").create_memory_object_stream(room)

    def close() -> None:
        send.close()
        receive.close()

    return Ends(send.send, receive.receive, close)


def _two_faced(library: Any, capacity: int | None) -> Ends:  # noqa: ANN401 - see peers.load
    queue = library.Queue(capacity or 0)
    return Ends(queue.async_q.put, queue.async_q.get, queue.close)
