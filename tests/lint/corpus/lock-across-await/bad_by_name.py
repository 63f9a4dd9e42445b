"""Nobody knows what it is, but a plain `with` works with no lock of asyncio."""


class Books:
    async def move(self, store):
        with self.write_lock:  # BAD
            async for row in store.rows():
                self.rows.append(row)
