"""Each turn of a `for` is another item: nothing looks again."""


class Sender:
    async def send_all(self, batches):
        for batch in batches:
            if self.busy:
                await self.idle.notified()  # BAD
            self.wire.write(batch)
