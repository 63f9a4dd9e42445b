"""A stop flag, looked at every 50 ms."""

import asyncio


class Worker:
    async def wait_stopped(self):
        while not self.stopped:  # BAD
            await asyncio.sleep(0.05)
