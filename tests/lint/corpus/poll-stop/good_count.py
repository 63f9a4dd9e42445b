"""The loop itself changes what it looks at."""

import asyncio


class Launch:
    async def count_down(self):
        while self.left > 0:
            self.left -= 1
            await asyncio.sleep(1)
