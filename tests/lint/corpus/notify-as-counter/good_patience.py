"""The state decides; the count only limits the patience."""


class Box:
    async def ready_soon(self):
        tries = 0
        while not self.ready and tries < 10:
            await self.changed.notified()
            self.probe()
            tries += 1
        return self.ready
