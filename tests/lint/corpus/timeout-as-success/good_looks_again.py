"""After the timeout the state decides."""

import asyncio
from contextlib import suppress

from millpond.sync import wait_until


class Box:
    async def use(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await wait_until(self.changed, lambda: self.ready)
        if not self.ready:
            raise RuntimeError("not ready after 5 s")
        self.start()
