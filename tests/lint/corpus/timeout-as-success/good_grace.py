"""A close that gives a peer some time, and then closes in any case."""

import asyncio
from contextlib import suppress


class Client:
    def __init__(self):
        self.flushed = asyncio.Event()

    async def aclose(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.transport.drain()
        self.transport.abort()

    async def close(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.flushed.wait()
        self.transport.abort()
