"""Nothing waits; what waits is in a function that runs later."""

import asyncio


async def ask(client):
    try:
        return await client.get()
    finally:
        client.close()

        async def later():
            await client.aclose()

        client.loop.call_soon(asyncio.ensure_future, later())
