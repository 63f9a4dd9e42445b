"""A future is no notification: it carries its result."""


class Client:
    async def ask(self):
        if not self.answer.done():
            await self.answer
        return self.answer.result()
