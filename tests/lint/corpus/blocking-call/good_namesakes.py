"""Other things of that name."""


def open(valve):
    return valve


class Requests:
    def get(self, key):
        return key


async def use(requests: Requests, parts, text):
    open("valve")
    requests.get("a")
    ", ".join(parts)
    return text.execute()
