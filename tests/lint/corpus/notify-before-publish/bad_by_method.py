"""The predicate is a method."""

from millpond.sync import wait_until


class Gate:
    def is_open(self):
        return self.level > self.low

    async def open(self):
        self.moved.notify_waiters()  # BAD
        await self.log("opening")
        self.level += 1

    async def passed(self):
        await wait_until(self.moved, self.is_open)
