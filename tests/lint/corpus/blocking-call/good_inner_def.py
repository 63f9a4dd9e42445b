"""The inner function runs elsewhere."""

import asyncio


async def load(path):
    def read():
        with open(path) as file:
            return file.read()

    return await asyncio.to_thread(read)
