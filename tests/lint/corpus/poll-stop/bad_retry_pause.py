"""A pause between attempts that no stop can end."""

import asyncio


class Poller:
    def stop(self):
        self.stopping = True

    async def run(self):
        while not self.stopping:
            await self.fetch()
            await asyncio.sleep(30)  # BAD
