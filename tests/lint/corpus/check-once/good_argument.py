"""The `if` asks the caller, not a state."""


class Box:
    async def flush(self, wait):
        self.start()
        if wait:
            await self.flushed.notified()
