"""The right order."""

from millpond.sync import wait_until


class Box:
    def mark_ready(self):
        self.ready = True
        self.changed.notify_waiters()

    async def wait_ready(self):
        await wait_until(self.changed, lambda: self.ready)
