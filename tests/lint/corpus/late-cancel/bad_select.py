"""The stop joins the set only with the second wait."""

import asyncio


class Reader:
    async def read(self, shutdown):
        with self.changed.notified() as first:
            await first.wait()  # BAD
        news = asyncio.create_task(self.next())
        ending = asyncio.create_task(shutdown.wait())
        await asyncio.wait({news, ending}, return_when=asyncio.FIRST_COMPLETED)
