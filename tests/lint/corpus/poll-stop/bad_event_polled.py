"""An event could be waited for."""

import asyncio


async def drain(stop):
    done = asyncio.Event()
    start(done)
    while not done.is_set():  # BAD
        await asyncio.sleep(0)
