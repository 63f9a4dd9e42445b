"""Two wake-ups in each turn: another contract."""


class Box:
    async def settle(self):
        while not self.settled:
            await self.changed.notified()
            await self.changed.notified()
