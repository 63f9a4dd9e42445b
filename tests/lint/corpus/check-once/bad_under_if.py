"""The seed's own example: one look, then a wait that is believed."""


class Box:
    async def wait_ready(self):
        if not self.is_ready():
            await self.changed.notified()  # BAD
