"""The loop sleeps, and everybody with it."""

import time
from time import sleep as nap


async def pause():
    time.sleep(1)  # BAD
    nap(1)  # BAD
