"""What is forgotten or noted after is no state that anybody waits for."""

import time


class Box:
    def finish(self):
        self.changed.notify_waiters()
        self.task = None

    def nudge(self):
        self.changed.notify_one()
        self.nudged_at = time.monotonic()
