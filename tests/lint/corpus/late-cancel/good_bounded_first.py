"""The first wait ends in any case."""

import asyncio

from millpond.sync import wait_until, wait_until_or_stopped


class Box:
    async def take(self, stop):
        async with asyncio.timeout(1):
            await wait_until(self.changed, lambda: self.begun)
        await wait_until_or_stopped(self.changed, stop, lambda: self.items)
