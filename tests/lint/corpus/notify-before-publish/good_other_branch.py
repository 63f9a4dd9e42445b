"""The way with the wake-up does not lead to the change."""


class Box:
    def put(self, item):
        if self.waiting:
            self.arrived.notify_one()
            return
        self.items.append(item)
