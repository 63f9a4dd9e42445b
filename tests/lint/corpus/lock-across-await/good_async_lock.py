"""A lock of asyncio lets others run."""

import asyncio


class Books:
    def __init__(self):
        self.lock = asyncio.Lock()

    async def move(self, store):
        async with self.lock:
            await store.write(1)
