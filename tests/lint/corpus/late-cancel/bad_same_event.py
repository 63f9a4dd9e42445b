"""An event is waited for alone, then beside the stop."""

import asyncio


class Reader:
    def __init__(self):
        self.data = asyncio.Event()

    async def read(self, stopped):
        await self.data.wait()  # BAD
        self.handle()
        tasks = [asyncio.ensure_future(self.data.wait()), asyncio.ensure_future(stopped.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
