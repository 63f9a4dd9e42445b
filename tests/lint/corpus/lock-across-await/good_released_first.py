"""The state changes under the lock, the await comes after."""

import threading


class Books:
    def __init__(self):
        self.guard = threading.Lock()

    async def move(self, store):
        with self.guard:
            rows = list(self.rows)
            self.rows.clear()
        await store.write(rows)
