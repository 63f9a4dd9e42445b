"""It is the stop that is waited for first."""

import asyncio


class Server:
    def __init__(self):
        self.stopping = asyncio.Event()

    async def end(self):
        await self.stopping.wait()
        tasks = {asyncio.create_task(self.stopping.wait()), asyncio.create_task(self.drained())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
