"""It loses notifications on 3.11 and 3.12."""

import asyncio


class Queue:
    def __init__(self):
        self.changed = asyncio.Condition()  # BAD
