"""Whether the connection is closed is for the connection to say."""

import asyncio


class Pinger:
    async def run(self):
        while not self.client.wire.closed:
            await self.client.ping()
            await asyncio.sleep(20)
