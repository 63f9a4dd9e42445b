"""The await belongs to another function, which runs later."""


class Books:
    async def move(self, store):
        with self.lock:

            async def later():
                await store.write(1)

            self.pending.append(later)
        await self.pending[0]()
