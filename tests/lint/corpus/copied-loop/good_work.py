"""The loop does its work, and waits for more."""


class Worker:
    async def run(self):
        while not self.closed:
            self.handle_all()
            await self.changed.notified()
