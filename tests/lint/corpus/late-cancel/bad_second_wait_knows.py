"""The first wait hangs through a shutdown."""

from millpond.sync import wait_until_or_stopped


class Box:
    async def take(self, stop):
        await self.changed.notified()  # BAD
        await wait_until_or_stopped(self.changed, stop, lambda: self.items)
        return self.items.pop()
