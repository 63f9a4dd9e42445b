"""A peer that does not answer holds the task for ever."""


async def ask(client):
    try:
        return await client.get()
    finally:
        await client.aclose()  # BAD
