"""The predicate has to wait itself."""


class Box:
    async def wait_ready(self):
        while not await self.remote.ready():
            await self.changed.notified()
