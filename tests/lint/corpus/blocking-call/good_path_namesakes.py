"""Methods with a path's names that are something else."""

import asyncio


class Message:
    async def write_text(self, text):
        self.text = text

    async def send(self, path, wire, queue, group):
        queue.append(self.write_text("a"))
        wire.read_bytes(3)
        text = await path.read_text()
        more = asyncio.gather(asyncio.shield(path.read_text()), group.create_task(path.read_bytes()))
        return text, await more
