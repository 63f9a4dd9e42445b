"""After the wait the state is looked at, and the answer says what it is."""


class Box:
    async def peek(self):
        if not self.ready:
            await self.changed.notified()
        return self.ready
