"""A context manager's clean-up is one, too."""

from contextlib import asynccontextmanager


@asynccontextmanager
async def connected(pool):
    connection = await pool.take()
    try:
        yield connection
    finally:
        async with pool.lock:  # BAD
            pool.put(connection)
