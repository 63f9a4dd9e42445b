"""By the module that it is defined in."""

import asyncio.locks

gate = asyncio.locks.Semaphore(3)  # BAD
