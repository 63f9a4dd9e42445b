"""The source counts, the waiter looks at the count."""

from millpond.sync import wait_until


class Barrier:
    def arrive(self):
        self.came += 1
        self.arrived.notify_waiters()

    async def wait_all(self, parties):
        await wait_until(self.arrived, lambda: self.came >= parties)
