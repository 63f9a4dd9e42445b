"""After each wake-up everything that is there is handled."""


class Reader:
    async def follow(self):
        while True:
            await self.changed.notified()
            self.batches += 1
            self.handle_all()
