"""A stop is a state like any other."""


class Stop:
    def stop(self):
        self.stopped.notify_waiters()  # BAD
        self.is_set = True
