"""The change is waited for."""

from millpond.sync import wait_until


class Worker:
    async def wait_stopped(self):
        while not self.stopped:
            await wait_until(self.changed, lambda: self.stopped or self.news)
