"""Taken and released before the await."""

import threading

guard = threading.Lock()


async def move(store, rows):
    guard.acquire()
    taken = list(rows)
    with guard:
        taken += [row for row in rows]
    guard.release()
    await store.write(taken)
