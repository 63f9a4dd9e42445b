"""A warning timer: the loop looks again."""

import asyncio
import logging


class Box:
    def __init__(self):
        self.loaded = asyncio.Event()

    async def wait_loaded(self):
        while not self.loaded.is_set():
            try:
                async with asyncio.timeout(5):
                    await self.loaded.wait()
            except TimeoutError:
                logging.warning("still waiting")
