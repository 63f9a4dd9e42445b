"""Bounded by a timeout around."""

import asyncio


async def ask(client):
    try:
        return await client.get()
    finally:
        async with asyncio.timeout(5):
            await client.aclose()
