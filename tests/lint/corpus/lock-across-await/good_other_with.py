"""A permit is no lock of threads, and neither is what only sounds like one."""


class Books:
    async def move(self, store, limiter, block, clock):
        with await limiter.acquire():
            await store.write(1)
        with block:
            await store.write(2)
        with clock:
            await store.write(3)
