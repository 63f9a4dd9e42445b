"""Whoever sets the flag also cancels the sleeper."""

import asyncio


class Poller:
    def stop(self):
        self.stopping = True
        self.task.cancel()

    async def run(self):
        while not self.stopping:
            await self.fetch()
            await asyncio.sleep(30)
