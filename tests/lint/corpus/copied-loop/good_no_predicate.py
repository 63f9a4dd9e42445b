"""Nothing is looked at: it uses up wake-ups."""


class Box:
    async def swallow(self):
        while True:
            await self.changed.notified()
