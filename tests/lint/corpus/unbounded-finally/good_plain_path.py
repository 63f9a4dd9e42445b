"""Not in a `finally`: no cancel is on its way."""


async def ask(client):
    try:
        answer = await client.get()
    except OSError:
        await client.report()
        raise
    await client.aclose()
    return answer
