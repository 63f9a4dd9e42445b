"""One of several."""


async def move(store, log, mutex):
    with log.span(), mutex:  # BAD
        rows = [row async for row in store.rows()]
        log.note(rows)
