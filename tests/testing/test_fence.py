"""Fence: what code under test must not call raises, says where, and everything comes back."""

import asyncio
import builtins
import concurrent.futures
import contextlib
import copy
import datetime as dt
import logging
import multiprocessing
import os
import pickle
import queue
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.errors import UsageError
from millpond.testing import World, _calls, _fence, explore
from millpond.testing._fence import (
    BlockingCallError,
    Fence,
    FencedCallError,
    OutsideCallError,
    OutsideMethods,
)

HERE = f"{__file__.removeprefix(f'{Path.cwd()}{os.sep}')}:"
TRUE = [sys.executable, "-c", ""]


def line() -> int:
    """Return the caller's line."""
    return sys._getframe(1).f_lineno


def everything() -> dict[tuple[int, str], object]:
    """Return what stands under each name that a fence may replace."""
    return {
        (id(owner), name): value
        for owner in {id(c.owner): c.owner for c in (*_calls.OUTSIDE, *_calls.BLOCKING)}.values()
        for name, value in vars(owner).items()
        if name not in ("__abstractmethods__", "__doc__")
    }


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """When the last fence is down, every name stands for what it stood for before."""
    before = everything()
    yield
    after = everything()
    assert after.keys() == before.keys()
    assert [key for key, value in before.items() if after[key] is not value] == []
    assert not _fence._standing


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets that were made outside of any fence."""
    one, two = socket.socketpair()
    with one, two:
        yield one, two


OUTSIDE: dict[str, Callable[[], object]] = {
    "time.time": lambda: time.time(),  # noqa: PLW0108 - looked up when called, as users do
    "time.time_ns": lambda: time.time_ns(),  # noqa: PLW0108 - the same
    "time.monotonic": lambda: time.monotonic(),  # noqa: PLW0108 - the same
    "time.monotonic_ns": lambda: time.monotonic_ns(),  # noqa: PLW0108 - the same
    "time.perf_counter": lambda: time.perf_counter(),  # noqa: PLW0108 - the same
    "time.perf_counter_ns": lambda: time.perf_counter_ns(),  # noqa: PLW0108 - the same
    "time.process_time": lambda: time.process_time(),  # noqa: PLW0108 - the same
    "time.localtime": lambda: time.localtime(),  # noqa: PLW0108 - the same
    "time.strftime": lambda: time.strftime("%Y"),
    "time.sleep": lambda: time.sleep(0),
    "random.random": lambda: random.random(),  # noqa: PLW0108, S311 - the same
    "random.shuffle": lambda: random.shuffle([1, 2]),
    "random.seed": lambda: random.seed(1),
    "random.Random.seed": lambda: random.Random(),  # noqa: PLW0108, S311 - the same
    "random._urandom": lambda: random.SystemRandom().random(),
    "os.urandom": lambda: os.urandom(1),
    "uuid.uuid1": lambda: uuid.uuid1(),  # noqa: PLW0108 - the same
    "socket.socket": lambda: socket.socket(),  # noqa: PLW0108 - the same
    "socket.socketpair": lambda: socket.socketpair(),  # noqa: PLW0108 - the same
    "socket.getaddrinfo": lambda: socket.create_connection(("127.0.0.1", 9)),
    "threading.Thread.start": lambda: threading.Thread(target=int).start(),
    "subprocess.Popen": lambda: subprocess.run(TRUE, check=True),
    "multiprocessing.process.BaseProcess.start": lambda: multiprocessing.Process(
        target=int
    ).start(),
    "os.fork": lambda: os.fork(),  # noqa: PLW0108 - the same
    "os.system": lambda: os.system("true"),  # noqa: S605, S607 - it is not called
    "signal.signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
    "signal.setitimer": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    "queue.Queue.get": lambda: queue.Queue[int]().get(timeout=5),
    "input": lambda: builtins.input(),  # noqa: PLW0108 - the same
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_scenario_cannot_reach_the_real_world(name: str) -> None:
    """The error names the call and the place; the fence keeps it, though it was swallowed."""
    with Fence() as fence:
        with pytest.raises(OutsideCallError, match="; use ") as caught:
            OUTSIDE[name]()
        assert fence.breach is caught.value
    assert caught.value.call == name
    assert caught.value.place.startswith(HERE)
    assert str(caught.value).startswith(f"`{name}` was called at {HERE}")


def test_the_functions_that_share_the_global_generator_are_found() -> None:
    """All of them, whatever this Python has."""
    names = {call.name for call in _calls.OUTSIDE if call.owner is random}
    assert names >= {"random", "randint", "choice", "sample", "gauss", "getrandbits", "setstate"}


def test_the_message_says_what_why_where_and_what_instead() -> None:
    """Whole, once; the place is the user's own, the library's function is named beside it."""
    with Fence(), pytest.raises(OutsideCallError) as caught:
        uuid.uuid4()
    here = line() - 1
    assert str(caught.value) == (
        f"`os.urandom` was called at {HERE}{here} (by `uuid.uuid4`): chance differs from run to"
        f" run; use `world.pick(...)` to try each value, or a seeded `random.Random(0)`"
    )


@pytest.mark.parametrize(
    ("call", "through"),
    [
        (lambda: secrets.token_hex(), "secrets.token_hex"),  # noqa: PLW0108 - as above
        (lambda: urllib.request.urlopen("http://localhost:9/"), "urllib.request.urlopen"),
        (lambda: tempfile.mkdtemp(), "tempfile.mkdtemp"),  # noqa: PLW0108 - as above
        (lambda: tempfile.NamedTemporaryFile(), "tempfile.NamedTemporaryFile"),  # noqa: PLW0108, SIM115 - the same
    ],
)
def test_the_function_that_the_user_called_is_named(
    call: Callable[[], object], through: str
) -> None:
    """However deep in the library the forbidden one lies."""
    with Fence(), pytest.raises(OutsideCallError, match=rf"\(by `{through}`\)") as caught:
        call()
    assert caught.value.place.startswith(HERE)


@pytest.mark.parametrize(
    "name", ["bind", "connect", "connect_ex", "listen", "recv", "recv_into", "send", "sendall"]
)
def test_a_socket_from_before_cannot_be_used(
    pair: tuple[socket.socket, socket.socket], name: str
) -> None:
    """Not even where it would not block; closing it is allowed."""
    pair[0].settimeout(0)
    with Fence(), pytest.raises(OutsideCallError, match=rf"`socket\.socket\.{name}`"):
        getattr(pair[0], name)(b"x")
    with Fence():
        pair[1].close()


def test_what_cannot_differ_from_run_to_run_is_allowed(tmp_path: Path) -> None:
    """Files, seeded generators, conversions of a given time, queues that need not wait."""
    with Fence() as fence:
        (tmp_path / "x").write_text("x", encoding="utf-8")
        assert (tmp_path / "x").read_text(encoding="utf-8") == "x"
        dice = random.Random(7)  # noqa: S311 - no secrets
        dice.seed(8)
        assert dice.random() == random.Random(8).random()  # noqa: S311 - the same
        assert time.gmtime(0).tm_year == 1970
        assert time.strftime("%Y", time.gmtime(0)) == "1970"
        assert dt.datetime.fromtimestamp(0, dt.UTC).year == 1970
        waiting = queue.Queue[int](1)
        waiting.put(1)
        assert waiting.get() == 1
        with pytest.raises(queue.Empty):
            waiting.get_nowait()
        assert signal.getsignal(signal.SIGINT) is not None
    assert fence.breach is None


def test_logging_and_warnings_may_look_at_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    """And what tools of a test run do is theirs; the program's own call is not."""
    with Fence() as fence, caplog.at_level("INFO"):
        logging.getLogger("x").info("said")
        with pytest.warns(UserWarning, match="warned"):
            warnings.warn("warned", stacklevel=1)
        exec("import time; time.time()", {"__name__": "hypothesis.internal"})  # noqa: S102 - a caller of that name
        assert fence.breach is None
        with pytest.raises(OutsideCallError):
            exec("import time; time.sleep(0)", {"__name__": "logging"})  # noqa: S102 - the same
    assert caplog.messages == ["said"]


def test_a_module_may_do_anything_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens once in a process, not once in a schedule; what it defines is fenced."""
    name = "imported_behind_a_fence"
    (tmp_path / f"{name}.py").write_text(
        "import time\n"
        "began = time.time()\n"
        "class Holder:\n"
        "    clock = time.monotonic\n"
        "def look(): return time.time()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] # pytest's own
    try:
        with Fence() as fence:
            module: Any = __import__(name)
            assert module.began > 0
            assert fence.breach is None
            with pytest.raises(OutsideCallError):
                module.look()
    finally:
        sys.modules.pop(name, None)
    # It kept our stand-in under a name of its own: that does what the function does.
    assert module.Holder().clock() <= time.monotonic()
    assert module.look() > 0


def test_only_the_thread_that_entered_is_fenced() -> None:
    """Others go on as they were."""
    heard: queue.SimpleQueue[float | BaseException] = queue.SimpleQueue()
    go = threading.Event()

    def body() -> None:
        go.wait(5)
        try:
            heard.put(time.time())
        except BaseException as error:  # noqa: BLE001 - the test looks
            heard.put(error)

    thread = threading.Thread(target=body)
    thread.start()
    with Fence() as fence:
        go.set()
        assert isinstance(heard.get(timeout=5), float)
        assert fence.breach is None
    thread.join(5)


def test_threads_may_have_fences_of_their_own() -> None:
    """Which may come down in any order; the first one down opens nothing for the other."""
    up, down = threading.Event(), threading.Event()
    seen: list[str] = []

    def body() -> None:
        with Fence():
            up.set()
            down.wait(5)
            try:
                time.time()
            except OutsideCallError:
                seen.append("refused")

    thread = threading.Thread(target=body)
    with contextlib.ExitStack() as stack:
        thread.start()
        assert up.wait(5)
        stack.enter_context(Fence())
        with pytest.raises(OutsideCallError):
            time.time()
    assert time.time() > 0
    down.set()
    thread.join(5)
    assert seen == ["refused"]


def test_fences_stand_in_each_other() -> None:
    """The inner one hears first; the outer one stands until it is left."""
    with Fence() as outer:
        with Fence() as inner, pytest.raises(OutsideCallError):
            time.time()
        assert inner.breach is not None
        assert outer.breach is None
        with pytest.raises(OutsideCallError):
            time.time()
    assert time.time() > 0


def test_everything_comes_back_after_an_error() -> None:
    """The fixture compares all names."""

    def work() -> None:
        with Fence():
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert time.time() > 0


def test_a_replacement_from_within_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is the test's own; undone later, it gives back something that works."""
    with Fence():
        monkeypatch.setattr("time.time", lambda: 7.0)
        assert time.time() == 7.0
    assert time.time() == 7.0
    monkeypatch.undo()
    assert time.time() > 7.0
    with Fence(), pytest.raises(OutsideCallError):
        time.time()
    assert time.time() > 7.0
    time.time = time.time.__wrapped__  # type: ignore[attr-defined] # ours, so that nothing is left


def test_a_replacement_from_before_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence goes over it and comes off again."""
    with Fence():
        pass
    monkeypatch.setattr("time.time", lambda: 7.0)
    with Fence(), pytest.raises(OutsideCallError):
        time.time()
    assert time.time() == 7.0


def test_a_pause_allows_everything() -> None:
    """For what the kit itself has to do."""
    with Fence() as fence:
        with fence.paused(), fence.paused():
            assert time.time() > 0
        with pytest.raises(OutsideCallError):
            time.time()


def test_the_first_breach_is_kept_until_it_is_taken() -> None:
    """A search looks after each schedule."""
    with Fence() as fence:
        for call in (time.time, time.monotonic):
            with contextlib.suppress(OutsideCallError):
                call()
        assert fence.breach is not None
        assert fence.breach.call == "time.time"
        fence.breach = None
        with pytest.raises(OutsideCallError) as caught:
            time.monotonic()
        assert fence.breach is caught.value


def test_a_fence_is_entered_once_at_a_time() -> None:
    """And can be used again."""
    fence = Fence()
    with fence, pytest.raises(UsageError, match="make a second one"), fence:
        pass
    with fence, pytest.raises(OutsideCallError):
        time.time()


@pytest.mark.parametrize("kind", [OutsideCallError, BlockingCallError])
def test_the_errors_carry_their_facts(kind: type[FencedCallError]) -> None:
    """They survive a copy and a pickle; they are mistakes of the calling code."""
    error = kind("text", call="f", place="a.py:1")
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - ours
        assert (type(same), str(same), same.call, same.place) == (kind, "text", "f", "a.py:1")
    assert isinstance(error, UsageError)
    assert str(kind("text alone")) == "text alone"


# -- the loop of a scenario ----------------------------------------------------------------------


class Loop(OutsideMethods, asyncio.BaseEventLoop):
    """A loop without the real world."""

    def __del__(self) -> None:
        """Nothing was opened."""


@pytest.mark.parametrize("name", _calls.LOOP_METHODS)
def test_the_loop_of_a_scenario_has_no_real_world(name: str) -> None:
    """Each method raises when it is called, not when it is awaited."""
    loop = Loop()
    with Fence() as fence, pytest.raises(OutsideCallError, match=rf"`loop\.{name}` was") as caught:
        getattr(loop, name)(1, 2, x=3)
    assert fence.breach is caught.value
    assert caught.value.place.startswith(HERE)


def test_the_loop_refuses_without_a_fence_and_within_the_other_kind() -> None:
    """The guard against blocking calls has nothing to do with it."""
    with pytest.raises(OutsideCallError):
        Loop().add_reader(0, int)
    with Fence.blocking() as fence, pytest.raises(OutsideCallError):
        Loop().add_reader(0, int)
    assert fence.breach is None


def test_every_method_of_a_real_loop_is_decided_on() -> None:
    """What a loop can do beyond those is its own business: tasks, timers, executors."""
    own = {
        *("call_at", "call_exception_handler", "call_later", "call_soon", "call_soon_threadsafe"),
        *("close", "create_future", "create_task", "default_exception_handler"),
        *("get_debug", "get_exception_handler", "get_task_factory", "is_closed", "is_running"),
        *("run_forever", "run_in_executor", "run_until_complete", "set_debug"),
        *("set_default_executor", "set_exception_handler", "set_task_factory"),
        *("shutdown_asyncgens", "shutdown_default_executor", "slow_callback_duration", "stop"),
        "time",
    }  # fmt: skip
    methods = {name for name in dir(asyncio.SelectorEventLoop) if not name.startswith("_")}
    assert methods - own == set(_calls.LOOP_METHODS)


# -- blocking calls ------------------------------------------------------------------------------


@contextlib.contextmanager
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that ends when it is told to."""
    program = [sys.executable, "-c", "input()"]
    process = subprocess.Popen(program, stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def full() -> "queue.Queue[int]":
    """Return a queue that takes no more."""
    waiting = queue.Queue[int](1)
    waiting.put(1)
    return waiting


def connect() -> None:
    """Connect to nobody."""
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", 9))


BLOCKING: dict[str, Callable[[], object]] = {
    "time.sleep": lambda: time.sleep(0.001),
    "subprocess.run": lambda: subprocess.run(TRUE, check=True),
    "subprocess.call": lambda: subprocess.call(TRUE),
    "subprocess.check_call": lambda: subprocess.check_call(TRUE),
    "subprocess.check_output": lambda: subprocess.check_output(TRUE),
    "os.system": lambda: os.system("true"),  # noqa: S605, S607 - it is not called
    "socket.getaddrinfo": lambda: urllib.request.urlopen("http://localhost:9/"),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
    "socket.socket.connect": connect,
    "queue.Queue.get": lambda: queue.Queue[int]().get(),
    "queue.Queue.put": lambda: full().put(2, timeout=3),
    "concurrent.futures._base.Future.result": lambda: concurrent.futures.Future[int]().result(),
    "input": lambda: builtins.input(),  # noqa: PLW0108 - as above
}


@pytest.mark.parametrize("name", BLOCKING)
async def test_a_coroutine_cannot_block_its_loop(name: str) -> None:
    """The error names the call and the place, and what to use instead."""
    with Fence.blocking() as fence:
        with pytest.raises(BlockingCallError, match="it blocks the event loop") as caught:
            BLOCKING[name]()
        assert fence.breach is caught.value
    assert caught.value.call == name
    assert caught.value.place.startswith(HERE)
    assert "; use `" in str(caught.value) or "; use asyncio" in str(caught.value)


async def test_a_refused_process_was_not_started() -> None:
    """Refused before, not between its start and its end: nothing is left behind."""
    with Fence.blocking(), pytest.raises(BlockingCallError):
        subprocess.run(TRUE, check=True)  # noqa: ASYNC221 - that is the point
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_waiting_for_a_process_that_runs_is_refused() -> None:
    """Asking is not, and neither is waiting for one that has ended."""
    with child() as process:
        with Fence.blocking():
            assert process.poll() is None
            with pytest.raises(BlockingCallError, match=r"subprocess\.Popen\.wait"):
                process.wait()
            with pytest.raises(BlockingCallError, match=r"subprocess\.Popen\.wait"):
                process.wait(5)
            with pytest.raises(BlockingCallError, match=r"subprocess\.Popen\.communicate"):
                process.communicate()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0)
        process.communicate(b"\n")
        with Fence.blocking() as fence:
            assert process.wait() == 0
        assert fence.breach is None


async def test_a_socket_that_does_not_block_may_be_used(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """With a timeout, or with none, it blocks."""
    one, two = pair
    with Fence.blocking():
        for timeout in (None, 5.0):
            one.settimeout(timeout)
            with pytest.raises(BlockingCallError, match=r"socket\.socket\.recv`"):
                one.recv(1)
            with pytest.raises(BlockingCallError, match=r"socket\.socket\.recv_into"):
                one.makefile("rb").read(1)
        one.settimeout(0)
        two.settimeout(0)
        assert two.send(b"x") == 1
        assert one.recv(1) == b"x"


async def test_asyncio_itself_is_not_in_the_way() -> None:
    """Real connections, processes and threads of asyncio, and of ours, run as ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    with Fence.blocking() as fence:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("localhost", port, family=socket.AF_INET)
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            writer.close()
            await writer.wait_closed()
        process = await asyncio.create_subprocess_exec(*TRUE)
        assert await process.wait() == 0
        await asyncio.to_thread(time.sleep, 0)
    assert fence.breach is None


async def test_what_need_not_wait_is_allowed() -> None:
    """A look into a queue, a result that is there, a numeric address, the clock, chance."""
    with Fence.blocking() as fence:
        time.sleep(0)  # noqa: ASYNC251 - of no time
        assert full().get() == 1
        with pytest.raises(queue.Empty):
            queue.Queue[int]().get(block=False)
        with pytest.raises(queue.Empty):
            queue.Queue[int]().get(timeout=0)
        with pytest.raises(queue.Full):
            full().put_nowait(2)
        future = concurrent.futures.Future[int]()
        future.set_result(3)
        assert future.result() == 3
        assert socket.getaddrinfo("127.0.0.1", 80)
        assert socket.getaddrinfo(b"::1", 80)
        assert socket.getaddrinfo(None, 80)
        assert time.time() > 0
        assert random.random() < 1  # noqa: S311 - no secret
    assert fence.breach is None


async def test_a_wrong_call_fails_as_it_does_without_a_fence() -> None:
    """The function itself says best what is wrong."""
    with Fence.blocking(), pytest.raises(TypeError, match="argument"):
        time.sleep()  # type: ignore[call-arg] # noqa: ASYNC251 - that is the point


def test_where_no_loop_runs_blocking_is_allowed() -> None:
    """A fixture may sleep."""
    with Fence.blocking() as fence:
        time.sleep(0.001)
        with pytest.raises(BlockingCallError):
            asyncio.run(_sleep())
    assert fence.breach is not None


async def _sleep() -> None:
    time.sleep(0.001)  # noqa: ASYNC251 - that is the point


def test_a_callback_that_is_a_function_of_the_library_is_refused() -> None:
    """There is no line of the user's to name; the loop reports it."""
    reported: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        loop.call_soon(time.sleep, 0.001)
        await asyncio.sleep(0)

    with Fence.blocking() as fence:
        asyncio.run(main())
    assert reported[0]["exception"] is fence.breach


def test_no_line_of_the_caller_of_the_search_is_blamed() -> None:
    """Where the loop calls a function of the library by itself, its own line is named."""

    def scenario(world: World) -> None:
        async def main() -> None:
            asyncio.get_running_loop().call_soon(time.sleep, 1)

        world.spawn("main", main())

    with pytest.raises(
        OutsideCallError, match=r"`time\.sleep` was called at .*asyncio.events\.py:"
    ):
        explore(scenario)


def test_entering_and_leaving_costs_little() -> None:
    """Measured, not gated by the clock: what is replaced is counted."""
    count = 200
    began = time.perf_counter()
    for _ in range(count):
        with Fence():
            pass
    each = (time.perf_counter() - began) / count
    print(f"enter and leave: {each * 1e6:.0f} us for {len(_calls.OUTSIDE)} functions")  # noqa: T201 - a figure for people
