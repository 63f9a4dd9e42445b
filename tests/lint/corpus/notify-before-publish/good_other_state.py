"""What is changed after is not what the waiters look at."""

from millpond.sync import wait_until


class Box:
    def mark_ready(self):
        self.ready = True
        self.changed.notify_waiters()
        self.told += 1
        self.timer = None

    async def wait_ready(self):
        await wait_until(self.changed, lambda: self.ready)
