"""The number of wake-ups ends the loop."""


class Barrier:
    async def wait_all(self, parties):
        came = 0
        while came < parties:
            await self.arrived.notified()
            came += 1  # BAD
