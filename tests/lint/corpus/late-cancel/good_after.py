"""The wait without a stop comes last: whoever gets there was not stopped."""

from millpond.sync import wait_until, wait_until_or_stopped


class Box:
    async def drain(self, stop):
        await wait_until_or_stopped(self.changed, stop, lambda: self.closed)
        await wait_until(self.changed, lambda: not self.items)
