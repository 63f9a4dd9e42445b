"""Imported by name, under another name, and handed on."""

from asyncio import wait_for
from asyncio import wait_for as bounded


async def ask(client, call):
    await wait_for(client.get(), 3)  # BAD
    await bounded(client.get(), 3)  # BAD
    await call(wait_for, client.get(), 3)  # BAD
