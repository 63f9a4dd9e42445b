"""A task may ignore its cancel."""

import asyncio


async def serve(work):
    task = asyncio.create_task(work())
    try:
        await work()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # BAD
