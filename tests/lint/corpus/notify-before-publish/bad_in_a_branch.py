"""One way through leads from the wake-up to the change."""


class Box:
    def finish(self, loud):
        if loud:
            self.changed.notify_waiters()  # BAD
        self.finished = True
