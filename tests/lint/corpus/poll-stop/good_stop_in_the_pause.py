"""The stop is waited for in the pause."""

import asyncio
from contextlib import suppress


class Poller:
    async def run(self):
        while not self.stop.is_stopped():
            await self.fetch()
            with suppress(TimeoutError):
                async with asyncio.timeout(30):
                    await self.stop.wait_stopped()
