"""Nobody waits in this file, but nothing was changed before."""


class Box:
    def put(self, item):
        self.arrived.notify_one()  # BAD
        self.items.append(item)
