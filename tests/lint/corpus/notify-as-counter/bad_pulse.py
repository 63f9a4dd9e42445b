"""An event that is cleared counts no better."""

import asyncio


class Meter:
    def __init__(self):
        self.tick = asyncio.Event()
        self.ticks = 0

    async def count(self):
        while True:
            await self.tick.wait()
            self.tick.clear()
            self.ticks += 1  # BAD
