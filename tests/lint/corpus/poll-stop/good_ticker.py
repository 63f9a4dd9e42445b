"""A clock that ticks: nothing is looked at."""

import asyncio


async def heartbeat(send):
    while True:
        await asyncio.sleep(5)
        await send("alive")
