"""A second wake-up follows the change."""


class Box:
    def restart(self):
        self.changed.notify_waiters()
        self.ready = True
        self.changed.notify_waiters()
