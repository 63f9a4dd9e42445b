"""Whoever is handed one need not have made it."""

import asyncio


def describe(limit: asyncio.Semaphore | None) -> str:
    if isinstance(limit, asyncio.Semaphore):
        return "a semaphore"
    known: dict[str, asyncio.Semaphore] = {}
    return str(known)
