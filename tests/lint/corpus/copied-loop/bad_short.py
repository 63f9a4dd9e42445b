"""Its short form."""


class Box:
    async def take(self):
        while not self.items:  # BAD
            await self.changed.notified()
        return self.items.pop()
