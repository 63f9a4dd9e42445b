"""Time passes by itself."""

import asyncio
import time


async def spend(end, step):
    while time.monotonic() < end:
        await step()
        await asyncio.sleep(0.5)
