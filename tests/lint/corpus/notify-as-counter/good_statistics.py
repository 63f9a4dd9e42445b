"""Wake-ups are counted, and the state decides."""


class Box:
    async def take(self):
        while not self.items:
            self.probe()
            await self.changed.notified()
            self.wakeups += 1
        return self.items.pop()
