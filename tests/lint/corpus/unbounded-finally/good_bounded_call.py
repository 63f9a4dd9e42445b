"""Bounded by its own argument."""

import asyncio


async def serve(tasks, server):
    try:
        await server.serve()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5)
        await server.shutdown(grace=2)
        await asyncio.sleep(0)
