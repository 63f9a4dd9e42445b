"""Asynchronous ones of the same names."""

import asyncio

import anyio
import httpx


class Store:
    def __init__(self):
        self.ready = asyncio.Event()
        self.client = httpx.AsyncClient()

    async def load(self, path, url):
        await self.ready.wait()
        await self.client.get(url)
        process = await asyncio.create_subprocess_exec("true")
        await process.wait()
        await process.communicate()
        return await anyio.Path(path).read_text()
