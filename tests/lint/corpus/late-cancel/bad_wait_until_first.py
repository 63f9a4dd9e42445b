"""The same notification, waited for without the stop and then with it."""

from millpond.sync import wait_until, wait_until_or_stopped


async def follow(changed, stop, state):
    await wait_until(changed, lambda: state.begun)  # BAD
    while state.begun:
        await wait_until_or_stopped(changed, stop, lambda: state.news)
        state.handle()
