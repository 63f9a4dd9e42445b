"""One `finally` inside another; a method that calls itself."""


class Client:
    async def ask(self):
        try:
            return await self.get()
        finally:
            try:
                self.note()
            finally:
                await self.close()  # BAD
            await self.again(3)  # BAD

    async def again(self, times):
        if times:
            await self.again(times - 1)
