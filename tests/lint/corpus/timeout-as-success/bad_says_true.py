"""Answered with success in so many words."""

import asyncio


async def ready(changed, box):
    try:
        async with asyncio.timeout(1):
            await changed.notified()
    except TimeoutError:
        box.slow += 1
        return True  # BAD
    return True
