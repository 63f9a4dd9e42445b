"""The timeout is dropped, and it goes on."""

import asyncio
from contextlib import suppress

from millpond.sync import wait_until


class Box:
    async def use(self):
        with suppress(TimeoutError):  # BAD
            async with asyncio.timeout(5):
                await wait_until(self.changed, lambda: self.ready)
        self.start()
