"""A line in the log does not tell the caller."""

import asyncio
import logging


class Box:
    def __init__(self):
        self.loaded = asyncio.Event()

    async def wait_loaded(self):
        try:
            async with asyncio.timeout(5):
                await self.loaded.wait()
        except asyncio.TimeoutError:
            logging.warning("slow")  # BAD
