"""The first wait ends by itself."""

import asyncio


class Reader:
    def __init__(self):
        self.data = asyncio.Event()

    async def read(self, stopped):
        await asyncio.wait_for(self.data.wait(), 1)  # millpond: allow banned-primitive - shown
        tasks = {asyncio.create_task(self.data.wait()), asyncio.create_task(stopped.wait())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
