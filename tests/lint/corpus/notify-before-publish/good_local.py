"""A variable of the function is seen by nobody else."""


class Box:
    def tell(self, items):
        self.changed.notify_waiters()
        seen = []
        for item in items:
            seen.append(item)
        return seen
