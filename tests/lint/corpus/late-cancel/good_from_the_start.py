"""The stop is in the first wait."""

from millpond.sync import wait_until_or_stopped


class Box:
    async def take(self, stop):
        await wait_until_or_stopped(self.changed, stop, lambda: self.begun)
        await wait_until_or_stopped(self.changed, stop, lambda: self.items)
        return self.items.pop()
