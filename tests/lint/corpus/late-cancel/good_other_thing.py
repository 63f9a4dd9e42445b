"""What is waited for first is another thing: it may come before any stop counts."""

import asyncio


class Reader:
    def __init__(self):
        self.loaded = asyncio.Event()
        self.data = asyncio.Event()

    async def read(self, stopped):
        await self.loaded.wait()
        tasks = {asyncio.create_task(self.data.wait()), asyncio.create_task(stopped.wait())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
