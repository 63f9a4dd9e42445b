"""Arming closes the window before the wait; a wake-up for nothing still ends it."""


class Box:
    async def wait_ready(self):
        armed = self.changed.notified()
        armed.enable()
        if not self.ready:
            await armed  # BAD
