"""Bounded by the scopes of anyio."""

import anyio


async def ask(client):
    try:
        return await client.get()
    finally:
        with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 5):
            await client.aclose()
        with anyio.move_on_after(5, shield=True):
            await client.aclose()
