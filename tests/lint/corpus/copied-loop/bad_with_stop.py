"""The form with a stop."""

from millpond.errors import Stopped


async def wait(changed, stop, state):
    while True:  # BAD
        if stop.is_stopped():
            return False
        if state.ready:
            return True
        with changed.notified() as armed:
            notified = armed.enable()
            if stop.is_stopped():
                return False
            if state.ready:
                return True
            if notified:
                continue
            try:
                await armed.wait(stop=stop)
            except Stopped:
                return False
