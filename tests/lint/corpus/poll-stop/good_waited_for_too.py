"""The stop is waited for; the sleep only keeps a broken signal from spinning."""

import asyncio


async def relay(stop):
    while not stop.is_stopped():
        await stop.wait_stopped()
        await asyncio.sleep(0.1)
