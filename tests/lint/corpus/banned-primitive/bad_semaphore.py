"""Both of them, also where no call is seen."""

import asyncio as aio
from collections import defaultdict
from dataclasses import dataclass, field

limits = defaultdict(aio.BoundedSemaphore)  # BAD


@dataclass
class Client:
    limit: aio.Semaphore = field(default_factory=aio.Semaphore)  # BAD


class Own(aio.Semaphore):  # BAD
    pass
