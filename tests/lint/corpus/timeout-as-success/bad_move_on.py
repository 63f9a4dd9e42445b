"""A scope that ends in silence, and is not asked."""

import anyio


async def start(app):
    ready = anyio.Event()
    app.boot(ready)
    with anyio.move_on_after(3):  # BAD
        await ready.wait()
    app.serve()
