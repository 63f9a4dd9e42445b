"""What is asked is not in this process: nothing there can notify us."""

import asyncio


async def wait_for_file(path):
    while not path.exists():
        await asyncio.sleep(0.1)


async def wait_for_job(client, job):
    while True:
        if await client.status(job) == "done":
            return
        await asyncio.sleep(1)
