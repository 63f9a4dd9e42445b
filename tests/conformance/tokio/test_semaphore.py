"""tokio's tests of `Semaphore`, by name, on a `Limiter`: `sync_semaphore.rs`, unit and loom.

Permits that Rust adds or forgets are a new capacity here, and a permit that is released by
number is an object that is given back.
"""

import asyncio
import sys

import pytest

from millpond.errors import Closed, UsageError, WouldBlock
from millpond.flow import Limiter, Permit
from tests.conformance.tokio.support import (
    Scenario,
    cancelled_at_every_turn,
    drop,
    in_every_order,
    pending,
    ready,
    spawn,
)
from tests.toolkit import quiet, turns


def free(limiter: Limiter) -> int:
    """How many permits nobody has, nor is on the way to get."""
    return limiter.statistics().free


def is_closed(limiter: Limiter) -> bool:
    """Whether it takes no more callers."""
    return limiter.statistics().closed


async def use(limiter: Limiter, count: int = 1) -> None:
    """Take permits for a turn of the loop."""
    with await limiter.acquire(count):
        await turns(1)


def refused(limiter: Limiter, count: int = 1) -> bool:
    """Whether permits are refused to somebody who does not wait."""
    with pytest.raises(WouldBlock):
        limiter.acquire_nowait(count)
    return True


async def test_no_permits() -> None:
    """With none free it can be asked; one made for none at all is refused."""
    limiter = Limiter(1)
    with limiter.acquire_nowait():
        assert free(limiter) == 0
        assert refused(limiter)
    for make in (Limiter, limiter.resize):
        with pytest.raises(ValueError, match="capacity"):
            make(0)


async def test_try_acquire() -> None:
    """Taken, it is refused to the next; given back, it is there again."""
    limiter = Limiter(1)
    with limiter.acquire_nowait():
        assert refused(limiter)
    limiter.acquire_nowait().release()


async def test_acquire() -> None:
    """A caller in line gets what is given back."""
    limiter = Limiter(1)
    permit = limiter.acquire_nowait()
    waiting = await spawn(use(limiter))
    await pending(waiting)
    permit.release()
    await ready(waiting)
    assert free(limiter) == 1


async def test_add_permits() -> None:
    """A caller in line gets what is added."""
    limiter = Limiter(1)
    with limiter.acquire_nowait():
        waiting = await spawn(use(limiter))
        await pending(waiting)
        limiter.resize(2)
        await ready(waiting)
    assert free(limiter) == 2


def grown(*, close: bool) -> None:
    """Add to limiters of several sizes."""
    for size in range(1, 4):
        for add in range(4):
            limiter = Limiter(size)
            if close:
                limiter.close()
            limiter.resize(size + add)
            assert free(limiter) == limiter.capacity == size + add
            assert is_closed(limiter) is close


def test_add_permits_open() -> None:
    """What is added is free."""
    grown(close=False)


def test_add_permits_closed() -> None:
    """A close stays one, whatever is added."""
    grown(close=True)


async def test_stress_test() -> None:
    """After a thousand callers all permits are back, exactly."""
    limiter = Limiter(5)
    most = 0

    async def call() -> None:
        nonlocal most
        with await limiter.acquire():
            most = max(most, limiter.statistics().held)
            await turns(1)

    async with asyncio.TaskGroup() as group:
        for _ in range(1000):
            group.create_task(call())
    assert most == 5
    permits = [limiter.acquire_nowait() for _ in range(5)]
    assert refused(limiter)
    for permit in permits:
        permit.release()


async def test_add_max_amount_permits() -> None:
    """A number as large as a machine's is no special case."""
    limiter = Limiter(1)
    limiter.resize(sys.maxsize)
    assert free(limiter) == sys.maxsize
    with limiter.acquire_nowait(sys.maxsize - 1):
        assert free(limiter) == 1


async def test_no_panic_at_maxpermits() -> None:
    """Nor is one more than that."""
    limiter = Limiter(sys.maxsize)
    limiter.resize(sys.maxsize + 1)
    with limiter.acquire_nowait(sys.maxsize + 1):
        assert refused(limiter)


# -- the unit tests


async def test_poll_acquire_one_available() -> None:
    """Free, it is taken without a wait."""
    limiter = Limiter(100)
    with await ready(await spawn(limiter.acquire())):
        assert free(limiter) == 99
    assert free(limiter) == 100


async def test_poll_acquire_many_available() -> None:
    """Several at once go down together."""
    limiter = Limiter(100)
    with await ready(await spawn(limiter.acquire(5))):
        assert free(limiter) == 95
        with await ready(await spawn(limiter.acquire(5))):
            assert free(limiter) == 90


async def test_try_acquire_one_available() -> None:
    """The same without a wait."""
    limiter = Limiter(100)
    with limiter.acquire_nowait():
        assert free(limiter) == 99
        with limiter.acquire_nowait():
            assert free(limiter) == 98


async def test_try_acquire_many_available() -> None:
    """Several at once without a wait."""
    limiter = Limiter(100)
    with limiter.acquire_nowait(5):
        assert free(limiter) == 95
        with limiter.acquire_nowait(5):
            assert free(limiter) == 90


async def test_poll_acquire_one_unavailable() -> None:
    """What is given back goes to who waits, and is never seen free in between."""
    limiter = Limiter(1)
    first = await limiter.acquire()
    waiting = await spawn(limiter.acquire())
    await pending(waiting)
    first.release()
    assert free(limiter) == 0
    assert limiter.statistics().granted == 1
    second = await ready(waiting)
    assert free(limiter) == 0
    second.release()
    assert free(limiter) == 1


async def test_poll_acquire_many_unavailable() -> None:
    """Many wait until all are there; who wants fewer does not pass them."""
    limiter = Limiter(5)
    first = await ready(await spawn(limiter.acquire()))
    many = await spawn(limiter.acquire(5))
    fewer = await spawn(limiter.acquire(3))
    await pending(many, fewer)
    assert free(limiter) == 4
    first.release()
    with await ready(many):
        await pending(fewer)
        assert free(limiter) == 0
    (await ready(fewer)).release()


async def test_try_acquire_one_unavailable() -> None:
    """Refused while it is out, taken when it is back."""
    limiter = Limiter(1)
    for _ in range(2):
        with limiter.acquire_nowait():
            assert free(limiter) == 0
            assert refused(limiter)
        assert free(limiter) == 1


async def test_try_acquire_many_unavailable() -> None:
    """All or nothing."""
    limiter = Limiter(5)
    with limiter.acquire_nowait():
        assert refused(limiter, 5)
        assert free(limiter) == 4
    assert free(limiter) == 5
    with limiter.acquire_nowait(5):
        assert free(limiter) == 0


async def test_poll_acquire_one_zero_permits() -> None:
    """With nothing free from the start, the first that comes is for who waits."""
    limiter = Limiter(1)
    permit = limiter.acquire_nowait()
    waiting = await spawn(limiter.acquire())
    await pending(waiting)
    permit.release()
    (await ready(waiting)).release()


def test_max_permits_doesnt_panic() -> None:
    """A very large one can be made."""
    assert free(Limiter(sys.maxsize)) == sys.maxsize


async def test_close_semaphore_prevents_acquire() -> None:
    """Closed, it hands out nothing, however much is free."""
    limiter = Limiter(5)
    limiter.close()
    for _ in range(2):
        with pytest.raises(Closed):
            await ready(await spawn(limiter.acquire()))
        with pytest.raises(Closed):
            limiter.acquire_nowait()
        assert free(limiter) == 5


async def test_close_semaphore_notifies_permit1() -> None:
    """Who waits is told of the close."""
    limiter = Limiter(1)
    with limiter.acquire_nowait():
        waiting = await spawn(limiter.acquire())
        await pending(waiting)
        limiter.close()
        with pytest.raises(Closed):
            await ready(waiting)


async def test_close_semaphore_notifies_permit2() -> None:
    """All who wait are; what is out comes home, and is handed to nobody."""
    limiter = Limiter(2)
    permits = [await limiter.acquire() for _ in range(2)]
    waiting = [await spawn(limiter.acquire()) for _ in range(2)]
    await pending(*waiting)
    limiter.close()
    for task in waiting:
        with pytest.raises(Closed):
            await ready(task)
    for back, permit in enumerate(permits):
        assert free(limiter) == back
        permit.release()
        with pytest.raises(Closed):
            await ready(await spawn(limiter.acquire()))
    assert free(limiter) == 2


async def test_cancel_acquire_releases_permits() -> None:
    """A caller for many that gives up holds back nobody."""
    limiter = Limiter(10)
    with limiter.acquire_nowait(4):
        many = await spawn(limiter.acquire(8))
        await pending(many)
        assert refused(limiter, 6)
        await drop(many)
        assert free(limiter) == 6
        limiter.acquire_nowait(6).release()


async def test_release_permits_at_drop() -> None:
    """A caller that is cancelled may give back another permit from its clean-up."""
    limiter = Limiter(1)

    async def call(held: Permit | None) -> None:
        try:
            await use(limiter)
        finally:
            if held is not None:
                held.release()

    first = await spawn(call(limiter.acquire_nowait()))
    second = await spawn(call(None))
    await pending(first, second)
    await drop(first)
    await ready(second)
    assert free(limiter) == 1


async def test_update_permits_many_times() -> None:
    """Given back, added and taken away, the numbers agree."""
    limiter = Limiter(7)
    held = limiter.acquire_nowait(2)
    many = await spawn(limiter.acquire(7))
    await pending(many)
    held.release()
    permit = await ready(many)
    limiter.resize(10)
    assert free(limiter) == 3
    limiter.resize(7)
    assert free(limiter) == 0
    limiter.resize(5)  # more are out than there shall be
    assert free(limiter) == -2
    permit.release()
    assert free(limiter) == 5


# -- every order


async def test_basic_usage() -> None:
    """Three want two permits: never more than two at once, and all come through."""

    def make() -> Scenario:
        limiter = Limiter(2)
        active = 0

        async def act() -> None:
            nonlocal active
            with await limiter.acquire():
                active += 1
                assert active <= 2
                await turns(1)
                active -= 1

        def check() -> None:
            assert free(limiter) == 2

        return Scenario([act(), act(), act()], check)

    await in_every_order(make)


async def test_release() -> None:
    """Two want one permit, in every order."""

    def make() -> Scenario:
        limiter = Limiter(1)

        def check() -> None:
            assert limiter.statistics().queued == 0
            assert free(limiter) == 1

        return Scenario([use(limiter), use(limiter)], check)

    await in_every_order(make)


async def test_basic_closing() -> None:
    """Closed at any time, everybody comes to an end, and the permit comes home."""

    def make() -> Scenario:
        limiter = Limiter(1)

        async def act() -> None:
            try:
                for _ in range(2):
                    await use(limiter)
            except Closed:
                assert is_closed(limiter)

        async def leave() -> None:
            limiter.close()

        def check() -> None:
            assert free(limiter) == 1

        return Scenario([act(), act(), leave()], check)

    await in_every_order(make)


async def test_concurrent_close() -> None:
    """Each closes it when it is served: the others are sent away."""

    def make() -> Scenario:
        limiter = Limiter(1)
        served = 0

        async def act() -> None:
            nonlocal served
            try:
                await use(limiter)
            except Closed:
                return
            served += 1
            limiter.close()

        def check() -> None:
            assert 1 <= served <= 3
            assert is_closed(limiter)
            assert free(limiter) == 1

        return Scenario([act(), act(), act()], check)

    await in_every_order(make)


async def test_concurrent_cancel() -> None:
    """A caller cancelled at any moment, alone or with another: no permit is lost."""

    def make() -> Scenario:
        limiter = Limiter(1)
        held = limiter.acquire_nowait()

        async def give_back() -> None:
            await turns(2)
            held.release()

        def check() -> None:
            assert limiter.statistics().queued == 0
            assert free(limiter) == 1

        return Scenario([use(limiter), use(limiter), give_back()], check)

    await cancelled_at_every_turn(make)

    limiter = Limiter(10)
    with limiter.acquire_nowait(10):
        waiting = [await spawn(limiter.acquire()) for _ in range(6)]
    await drop(*waiting)  # all of them were granted what was given back
    await quiet()
    assert free(limiter) == 10


async def test_batch() -> None:
    """Requests of several sizes: the sum never passes the capacity."""

    def make() -> Scenario:
        limiter = Limiter(10)
        active = 0

        async def act() -> None:
            nonlocal active
            for count in (4, 10, 8):
                with await limiter.acquire(count):
                    active += count
                    assert active <= 10
                    await turns(1)
                    active -= count

        def check() -> None:
            assert free(limiter) == 10

        return Scenario([act(), act()], check)

    await in_every_order(make)


async def test_release_during_acquire() -> None:
    """Given back while somebody asks for more than is free, in every order."""

    def make() -> Scenario:
        limiter = Limiter(10)
        held = limiter.acquire_nowait(8)

        async def give_back() -> None:
            held.release()

        def check() -> None:
            assert free(limiter) == 10

        return Scenario([use(limiter, 4), give_back()], check)

    await in_every_order(make)


async def test_concurrent_permit_updates() -> None:
    """Taken, added and taken away at once: the numbers agree in every order."""

    def make() -> Scenario:
        limiter = Limiter(5)

        async def add() -> None:
            limiter.resize(limiter.capacity + 3)

        async def forget() -> None:
            limiter.resize(limiter.capacity - 2)

        async def take() -> None:
            with limiter.acquire_nowait():
                await turns(2)

        def check() -> None:
            assert free(limiter) == limiter.capacity == 6
            with pytest.raises(UsageError):
                limiter.acquire_nowait(7)

        return Scenario([add(), take(), forget()], check)

    await in_every_order(make)
