"""Which calls leave a program: what they touch, and what to use instead."""

import builtins
import concurrent.futures
import contextlib
import ipaddress
import multiprocessing.process
import os
import queue
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, final

Condition = Callable[..., bool]


@final
@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call may not be made, and what to use instead."""

    why: str
    instead: str


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A function of a module, or a method of a class, that may not be called."""

    owner: Any
    name: str
    shown: str
    reason: Reason
    when: Condition | None = None
    """Asked with the arguments of the call whether it is one of those; None: all are."""

    @property
    def target(self) -> tuple[int, str]:
        """What it is about: the same for two entries about the same function."""
        return id(self.owner), self.name


CLOCK: Final = Reason(
    "the real clock differs from run to run",
    "`asyncio.get_running_loop().time()`, which is virtual",
)
SLEEP: Final = Reason(
    "it would stop the whole scenario for real time",
    "`await asyncio.sleep(...)`, which takes virtual time",
)
NETWORK: Final = Reason(
    "the real network is never twice the same",
    "`await world.io(...)` for what comes back, or a fake transport",
)
THREAD: Final = Reason(
    "a real thread runs when the system likes, not when the world chooses",
    "`asyncio.to_thread(...)`, `world.thread(...)` or `world.event(...)`",
)
PROCESS: Final = Reason(
    "a real process is never twice the same",
    "`await world.io(...)` for how it ends",
)
CHANCE: Final = Reason(
    "chance differs from run to run",
    "`world.pick(...)` to try each value, or a seeded `random.Random(0)`",
)
NAME: Final = Reason(
    "the name of a temporary file differs from run to run",
    "a folder that is made before the scenario, and a fixed name in it",
)
SIGNAL: Final = Reason(
    "signals come from the real world, and their handlers outlive the scenario",
    "`world.event(...)` that calls the handler",
)
FOR_EVER: Final = Reason(
    "it would wait for ever, as no other thread runs in a scenario",
    "`asyncio.Queue`, or `await world.io(...)` for what comes",
)
LOOP: Final = Reason(
    "the loop of a scenario has no sockets, files, processes or signals",
    "`await world.io(...)` for what comes back, or `world.event(...)` for what comes by itself",
)

_MEANWHILE: Final = "it blocks the event loop: no other task runs meanwhile"
_IN_A_THREAD: Final = "`await asyncio.to_thread(...)`"

BLOCKING_SLEEP: Final = Reason(_MEANWHILE, "`await asyncio.sleep(...)`")
BLOCKING_PROCESS: Final = Reason(
    _MEANWHILE, f"`await asyncio.create_subprocess_exec(...)`, or {_IN_A_THREAD}"
)
BLOCKING_NETWORK: Final = Reason(
    _MEANWHILE, f"asyncio's streams, an asynchronous client, or {_IN_A_THREAD}"
)
BLOCKING_LOOKUP: Final = Reason(_MEANWHILE, "`await loop.getaddrinfo(...)`")
BLOCKING_QUEUE: Final = Reason(_MEANWHILE, f"`asyncio.Queue`, or {_IN_A_THREAD}")
BLOCKING_FUTURE: Final = Reason(_MEANWHILE, "`await asyncio.wrap_future(...)`")
BLOCKING_CALL: Final = Reason(_MEANWHILE, _IN_A_THREAD)

LOOP_METHODS: Final = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_reader",
    "remove_signal_handler",
    "remove_writer",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)
"""Methods of an event loop that need the real world."""

_CLOCKS: Final = (
    "clock_gettime",
    "clock_gettime_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "time",
    "time_ns",
)
_RECEIVING: Final = (
    "accept",
    "recv",
    "recv_into",
    "recvfrom",
    "recvfrom_into",
    "recvmsg",
    "recvmsg_into",
)
_SENDING: Final = ("connect", "connect_ex", "send", "sendall", "sendfile", "sendmsg", "sendto")
_LOOKUPS: Final = (
    "getaddrinfo",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname_ex",
    "getnameinfo",
)


def _of(
    owner: Any,
    names: Iterable[str],
    reason: Reason,
    when: Condition | None = None,
) -> Iterator[Call]:
    """Give those of *names* that this Python has on this system."""
    for name in names:
        if hasattr(owner, name):
            if isinstance(owner, ModuleType):
                shown = f"{owner.__name__}.{name}".removeprefix("builtins.")
            else:
                shown = f"{owner.__module__}.{owner.__qualname__}"
                shown += f".{name}" * (name != "__init__")
            yield Call(owner, name, shown, reason, when)


def _global_chance() -> Iterator[str]:
    """Give the functions of `random` that share its global generator."""
    shared = random.random.__self__  # type: ignore[attr-defined] # typeshed has it as a function
    for name, value in vars(random).items():
        if getattr(value, "__self__", None) is shared:
            yield name


# -- conditions ----------------------------------------------------------------------------------


def _is_now(*args: object, **_: object) -> bool:
    """Whether a conversion of time was given none, and asks the clock."""
    return not args or args[0] is None


def _is_strftime_of_now(format: str, *args: object, **_: object) -> bool:  # noqa: A002, ARG001 - its name
    return not args


def _is_unseeded(_: random.Random, a: object = None, *__: object, **___: object) -> bool:
    return a is None


def _is_positive(seconds: float, *_: object) -> bool:
    return seconds > 0


def _is_running(process: "subprocess.Popen[Any]", *_: object, **options: object) -> bool:
    return options.get("timeout") != 0 and process.poll() is None


def _is_blocking(connection: socket.socket, *_: object, **__: object) -> bool:
    return connection.gettimeout() != 0


def _needs_lookup(host: object = None, *_: object, **options: object) -> bool:
    host = options.get("host", host)
    if not host:
        return False
    if isinstance(host, tuple):  # of `getnameinfo`
        return True
    if isinstance(host, bytes | bytearray):
        host = bytes(host).decode("ascii", "replace")
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(str(host))
        return False
    return True


def _waits_to_get(
    waiting: "queue.Queue[Any]",
    block: bool = True,  # noqa: FBT001, FBT002 - as in `Queue.get`
    timeout: float | None = None,
) -> bool:
    return block and timeout != 0 and waiting.empty()


def _waits_to_put(
    waiting: "queue.Queue[Any]",
    item: object,  # noqa: ARG001 - as in `Queue.put`
    block: bool = True,  # noqa: FBT001, FBT002 - the same
    timeout: float | None = None,
) -> bool:
    return block and timeout != 0 and waiting.full()


def _waits_for_result(
    future: "concurrent.futures.Future[Any]", timeout: float | None = None
) -> bool:
    return timeout != 0 and not future.done()


# -- tables --------------------------------------------------------------------------------------


OUTSIDE: Final = (
    *_of(time, _CLOCKS, CLOCK),
    *_of(time, ("asctime", "ctime", "gmtime", "localtime"), CLOCK, _is_now),
    *_of(time, ("strftime",), CLOCK, _is_strftime_of_now),
    *_of(time, ("sleep",), SLEEP),
    *_of(random, _global_chance(), CHANCE),
    *_of(random.Random, ("seed",), CHANCE, _is_unseeded),
    *_of(random, ("_urandom",), CHANCE),  # what `SystemRandom` and `secrets` draw from
    *_of(os, ("getrandom", "urandom"), CHANCE),
    *_of(uuid, ("uuid1",), CHANCE),
    *_of(tempfile, ("_get_candidate_names",), NAME),
    *_of(socket.socket, ("__init__", "bind", "listen", *_RECEIVING, *_SENDING), NETWORK),
    *_of(socket, ("fromfd", "socketpair", *_LOOKUPS), NETWORK),
    *_of(threading.Thread, ("start",), THREAD),
    *_of(subprocess.Popen, ("__init__",), PROCESS),
    *_of(multiprocessing.process.BaseProcess, ("start",), PROCESS),
    *_of(os, ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"), PROCESS),
    *_of(signal, ("alarm", "raise_signal", "set_wakeup_fd", "setitimer", "signal"), SIGNAL),
    *_of(queue.Queue, ("get",), FOR_EVER, _waits_to_get),
    *_of(queue.Queue, ("put",), FOR_EVER, _waits_to_put),
    *_of(builtins, ("input",), FOR_EVER),
)
"""What a scenario may not call."""

BLOCKING: Final = (
    *_of(time, ("sleep",), BLOCKING_SLEEP, _is_positive),
    *_of(subprocess, ("call", "check_call", "check_output", "run"), BLOCKING_PROCESS),
    *_of(subprocess.Popen, ("communicate", "wait"), BLOCKING_PROCESS, _is_running),
    *_of(os, ("system",), BLOCKING_PROCESS),
    *_of(socket.socket, (*_RECEIVING, *_SENDING), BLOCKING_NETWORK, _is_blocking),
    *_of(socket, _LOOKUPS, BLOCKING_LOOKUP, _needs_lookup),
    *_of(queue.Queue, ("get",), BLOCKING_QUEUE, _waits_to_get),
    *_of(queue.Queue, ("put",), BLOCKING_QUEUE, _waits_to_put),
    *_of(concurrent.futures.Future, ("exception", "result"), BLOCKING_FUTURE, _waits_for_result),
    *_of(builtins, ("input",), BLOCKING_CALL),
)
"""What may not be called while a loop is running in the thread."""
