"""Every item is received once: that can be counted."""


async def take(channel, n):
    taken = 0
    items = []
    while taken < n:
        items.append(await channel.recv())
        taken += 1
    return items
