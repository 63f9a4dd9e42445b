"""Taken by hand."""

from threading import RLock

guard = RLock()


async def move(store):
    guard.acquire()  # BAD
    try:
        await store.write(1)
    finally:
        guard.release()
