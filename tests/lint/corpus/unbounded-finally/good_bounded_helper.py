"""The method that is called bounds all it waits for."""

import asyncio


class Server:
    async def run(self):
        try:
            await self.serve()
        finally:
            await self.end()

    async def end(self):
        self.closing = True
        await self.flush()
        await asyncio.wait(self.tasks, timeout=5)

    async def flush(self):
        async with asyncio.timeout(1):
            await self.writer.drain()
