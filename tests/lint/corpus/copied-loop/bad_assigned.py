"""The notification in a variable."""


class Line:
    async def wait_turn(self, number):
        while True:  # BAD
            armed = self.moved.notified()
            armed.enable()
            if self.next == number:
                break
            await armed.wait()
