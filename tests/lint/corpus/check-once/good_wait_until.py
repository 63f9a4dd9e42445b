"""What to write instead."""

from millpond.sync import wait_until


class Box:
    async def wait_ready(self):
        if self.verbose:
            print("waiting")
        await wait_until(self.changed, lambda: self.ready)
