"""Waiting for a thread."""

import threading


class Worker:
    def __init__(self):
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.ready.set)

    async def end(self):
        self.ready.wait()  # BAD
        self.thread.join()  # BAD
