"""Taking from what is empty raises: that is the second look."""

import asyncio


class Queue:
    def __init__(self):
        self.pulse = asyncio.Event()

    async def get(self):
        if not self.items:
            self.pulse.clear()
            await self.pulse.wait()
        try:
            return self.queue.popleft()
        except IndexError:
            raise EOFError from None
