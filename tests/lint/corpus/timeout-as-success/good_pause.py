"""A pause that a stop may end: the timeout is what was wanted."""

import asyncio
from contextlib import suppress


class Poller:
    def __init__(self):
        self.stopping = asyncio.Event()

    async def pause(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                await self.stopping.wait()
        self.rounds += 1
