"""The same, with the look inside."""

from asyncio import sleep


async def wait_for_items(queue, log):
    while True:  # BAD
        if len(queue.items) > 3:
            break
        log.debug("not yet")
        await sleep(0.01)
