"""The `if` is the first thing in each turn, and the wait the last."""


class Box:
    async def take(self):
        while True:
            self.turns += 1
            self.log(self.turns)
            if self.items:
                return self.items.pop()
            await self.changed.notified()
