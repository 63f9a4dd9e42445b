"""A loop around it does not help when the turn goes on after the wait."""


class Worker:
    async def work(self):
        while True:
            if not self.items:
                await self.changed.notified()  # BAD
            self.handle(self.items.pop())
