"""An event that nobody clears is a state of its own: the wait looks at it."""

import asyncio


class Server:
    def __init__(self):
        self.started = False
        self.start_event = asyncio.Event()

    async def wait_started(self):
        if not self.started:
            await self.start_event.wait()
