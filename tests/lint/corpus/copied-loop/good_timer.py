"""A timer of its own in the wait set."""

import asyncio


class Box:
    async def wait_ready(self):
        while not self.ready:
            try:
                async with asyncio.timeout(10):
                    await self.changed.notified()
            except TimeoutError:
                self.warn()
