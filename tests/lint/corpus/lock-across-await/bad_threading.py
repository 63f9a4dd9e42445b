"""A lock of threads, held while others run."""

import threading


class Books:
    def __init__(self):
        self.guard = threading.Lock()

    async def move(self, store):
        with self.guard:  # BAD
            await store.write(1)
