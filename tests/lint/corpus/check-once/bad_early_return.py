"""The same the other way round: leave if ready, else wait once."""


class Box:
    async def take(self):
        if self.items:
            return self.items.pop()
        with self.changed.notified() as armed:
            await armed.wait()  # BAD
        return self.items.pop()
