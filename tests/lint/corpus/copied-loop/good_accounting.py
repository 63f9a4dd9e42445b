"""A contract that `wait_until` does not have: who was in the way, and for how long."""


class Line:
    async def wait_turn(self, number):
        while self.next != number:
            with self.moved.notified() as armed:
                armed.enable()
                if self.next == number:
                    break
                self.account(number, self.next)
                await armed.wait()
