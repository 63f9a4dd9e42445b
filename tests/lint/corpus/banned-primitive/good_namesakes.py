"""Others of that name."""

import asyncio
import threading


class Condition:
    pass


class Watch:
    async def wait_for(self, predicate):
        return predicate


async def use(watch):
    await watch.wait_for(bool)
    return Condition(), threading.Condition(), threading.Semaphore(3), asyncio.Lock()
