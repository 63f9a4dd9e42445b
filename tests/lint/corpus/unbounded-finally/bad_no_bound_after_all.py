"""A timeout of None is none; a helper that waits is no better than a wait."""

import asyncio


class Server:
    async def run(self, tasks):
        try:
            await self.serve()
        finally:
            await asyncio.wait(tasks, timeout=None)  # BAD
            await self.drain()  # BAD
            async with asyncio.timeout(None):
                await self.serve()  # BAD

    async def drain(self):
        await self.connections.empty()
