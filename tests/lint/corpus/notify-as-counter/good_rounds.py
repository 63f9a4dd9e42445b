"""A number of rounds, with the state looked at in each."""


class Box:
    async def rounds(self, n):
        for _ in range(n):
            while not self.ready:
                self.probe()
                await self.changed.notified()
            self.ready = False
