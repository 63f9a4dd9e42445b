"""The whole protocol, once more."""


class Box:
    async def wait_ready(self):
        while True:  # BAD
            if self.ready:
                return
            with self.changed.notified() as armed:
                armed.enable()
                if self.ready:
                    return
                await armed
