"""The function is handed to a thread, not called."""

import asyncio
import time
from pathlib import Path


async def load(path: Path):
    await asyncio.to_thread(time.sleep, 1)
    await asyncio.to_thread(lambda: open(path).read())
    return await asyncio.to_thread(path.read_text)
