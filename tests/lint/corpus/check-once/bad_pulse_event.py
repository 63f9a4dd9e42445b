"""An event that is cleared is a pulse, not a state."""

import asyncio


class Queue:
    def __init__(self):
        self.items = []
        self.pulse = asyncio.Event()

    def put(self, item):
        self.items.append(item)
        self.pulse.set()
        self.pulse.clear()

    async def get(self):
        if not self.items:
            await self.pulse.wait()  # BAD
        return self.items.pop()
