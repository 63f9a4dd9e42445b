"""The look and the wait are at the same event: the look is only quicker."""

import asyncio


class Server:
    def __init__(self):
        self.open = asyncio.Event()

    def pause(self):
        self.open.clear()

    async def wait_open(self):
        if not self.open.is_set():
            await self.open.wait()
