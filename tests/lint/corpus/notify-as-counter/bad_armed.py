"""Armed or not."""


async def wait_for_workers(done, workers):
    left = len(workers)
    while left > 0:
        with done.notified() as armed:
            await armed.wait()
            left -= 1  # BAD
