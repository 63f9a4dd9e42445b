"""The bound that does not swallow a cancel."""

import asyncio


async def ask(client):
    async with asyncio.timeout(3):
        return await client.get()
