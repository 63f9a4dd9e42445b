"""The scope is kept, and asked."""

import anyio


async def start(app):
    ready = anyio.Event()
    app.boot(ready)
    with anyio.move_on_after(3) as scope:
        await ready.wait()
    if scope.cancelled_caught:
        raise RuntimeError("not ready")
    app.serve()
