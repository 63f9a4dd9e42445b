"""Attempts with a pause between; what ends the loop is the loop's own."""

import asyncio


async def fetch(client):
    attempt = 0
    answer = None
    while answer is None and attempt < 5:
        attempt += 1
        answer = await client.get()
        await asyncio.sleep(2**attempt)
    return answer
