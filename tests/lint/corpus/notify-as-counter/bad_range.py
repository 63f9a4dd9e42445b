"""Ten wake-ups are not ten items."""


async def wait_for_ten(arrived):
    for _ in range(10):
        await arrived.notified()  # BAD
