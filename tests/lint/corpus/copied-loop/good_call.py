"""What to write instead."""

from millpond.sync import wait_until


class Box:
    async def take(self):
        await wait_until(self.changed, lambda: self.items)
        return self.items.pop()
