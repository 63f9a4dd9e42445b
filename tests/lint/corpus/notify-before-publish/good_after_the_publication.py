"""Housekeeping after a change that was told."""


class Box:
    def close(self):
        self.closed = True
        self.changed.notify_waiters()
        self.children.clear()
        self.owner = "nobody"
