"""Taken and released before the await."""

import threading

guard = threading.Lock()


async def move(store, rows):
    guard.acquire()
    taken = list(rows)
    guard.release()
    await store.write(taken)
