"""Not the module of that name."""


class Kit:
    def Semaphore(self, n):
        return n


def make(asyncio=Kit()):
    return asyncio.Semaphore(3)
