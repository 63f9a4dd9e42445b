"""A bounded number of looks is still looking."""

import asyncio


class Client:
    async def connected(self):
        for _ in range(100):  # BAD
            if self.is_connected:
                return True
            await asyncio.sleep(0.1)
        return False
