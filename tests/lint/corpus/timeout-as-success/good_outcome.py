"""The two ends are told apart."""

import asyncio

from millpond.sync import wait_until


class Box:
    async def is_ready_within(self, seconds):
        try:
            async with asyncio.timeout(seconds):
                await wait_until(self.changed, lambda: self.ready)
        except TimeoutError:
            return False
        return True
