"""The waiters look at what is set after the wake-up."""

from millpond.sync import wait_until


class Box:
    def mark_ready(self):
        self.changed.notify_waiters()  # BAD
        self.ready = True

    async def wait_ready(self):
        await wait_until(self.changed, lambda: self.ready)
