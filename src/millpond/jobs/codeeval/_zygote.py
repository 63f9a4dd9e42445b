r"""The warm process: it forks a sandbox for one program, judges nothing, and cleans up.

Started by path (``python -I _zygote.py FD SETTINGS``), never imported by what it
runs, and made of the standard library alone. A fork of this process has its imports
done, so a fresh interpreter costs a few milliseconds instead of a cold start.

Invariants:
    Z1  Only the zygote waits for its children, and it signals a process or a group
        only while the leader has not been waited for: a pid is never re-used under us.
    Z2  A sandbox is reported *closed* when its leader is reaped, no other child of
        the zygote is left over (where that can be told), and its directory is gone.
    Z3  Nothing that a sandbox does delays another: no blocking read, write, or wait.
    Z4  When the control channel ends, everything is killed, reaped and removed, and
        the zygote ends.

Control channel: descriptor FD, a stream socket shared with the main process. Each
frame is a length (4 bytes, big-endian) and that many bytes of JSON.

    main -> zygote   {"do": "fork",  "id": 7}
                     {"do": "run",   "id": 7, "program": "..."}
                     {"do": "close", "id": 7}               whatever its state
    zygote -> main   {"event": "ready",  "protections": {"network": true, ...}}
                     {"event": "forked", "id": 7}           it waits for its program
                     {"event": "failed", "id": 7, "error": "..."}
                     {"event": "ended",  "id": 7, ...}      the facts, see `Zygote._ended`
                     {"event": "closed", "id": 7, "error": ""}
                     {"event": "fatal",  "error": "..."}    then the zygote ends

After "fork" comes "forked" or "failed"; after "forked" comes "ended"; "closed" comes
last, always, once. What is said of an id that is gone is ignored.

Sandbox channel: a stream socket between the zygote and one child, same frames with
other bytes in them.

    zygote -> child  frame: the program (UTF-8); then 32 bytes, the token, not framed
    child -> zygote  frame: "ready" or "failed\n" + why
                     frame: "begun": it has got the program
                     frame: token \n kind \n line \n text

The child reads the program and leaves the token *unread* in the socket until the
program has ended. So the proof that a verdict is genuine is nowhere in the memory of
the interpreter in which the program runs, and what the program prints plays no part.
"""

import ctypes
import functools
import gc
import io
import itertools
import json
import mmap
import os
import resource
import selectors
import signal
import socket
import stat
import sys
import time
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

HEADER_BYTES: Final = 4
TOKEN_BYTES: Final = 32
CHUNK_BYTES: Final = 1 << 16
LARGEST_COMMAND: Final = (1 << 32) - 1
LARGEST_REPORT: Final = 1 << 16
"""A child is not trusted: a longer frame from it ends it."""
SHUTDOWN_SECONDS: Final = 5.0
OWN_DESCRIPTORS: Final = 4096

# <sys/prctl.h>, <sched.h>, <linux/capability.h>
PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
CAPABILITY_VERSION_3: Final = 0x20080522

# A user of its own for each sandbox: the pid is unique as long as the leader is not
# reaped, so the sum is too. The first range is used by nobody; the second is for
# containers that map no more than 65,536 users, and may repeat.
HIGH_USER: Final = 0x70000000
LOW_USER, LOW_USERS = 61_184, 4_000

PROGRAM: Final = "<program>"
TEXT_CHARACTERS: Final = 500
SOURCE_CHARACTERS: Final = 120
RESERVE_BYTES: Final = 4 << 20
REPORT_WORDS: Final = 4

_libc: Final = ctypes.CDLL(None, use_errno=True)


# --- what the operating system offers, and whether it does ------------------------


def _prctl(option: int, value: int) -> bool:
    if not hasattr(_libc, "prctl"):
        return False
    arguments = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
    return bool(_libc.prctl(option, *arguments) == 0)


def _unshare(flags: int) -> bool:
    return hasattr(_libc, "unshare") and bool(_libc.unshare(flags) == 0)


def _drop_capabilities() -> bool:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    return bool(_libc.capset(header, nothing) == 0)


def leave_network() -> bool:
    """Move this process, and so all its children, to a network without interfaces.

    An ordinary user may do that only in a user namespace, in which he stays himself;
    the capabilities that come with it are given up at once.
    """
    if _unshare(CLONE_NEWNET):
        return True
    user, group = os.geteuid(), os.getegid()
    if user == 0 or not _unshare(CLONE_NEWUSER | CLONE_NEWNET):
        return False
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    return _drop_capabilities()


def become_nobody(directory: Path | None = None) -> bool:
    """Change to an unprivileged user of this process's own, for good.

    Args:
        directory: Given to that user. None: nothing is.
    """
    if os.geteuid() != 0:
        return False
    pid = os.getpid()
    for user in (HIGH_USER + pid, LOW_USER + pid % LOW_USERS):
        with suppress(OSError):
            if directory is not None:
                os.chown(directory, user, user)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            return os.getuid() == os.geteuid() == user
    return False


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a resource limit, as far as the present hard limit allows."""
    bound = resource.getrlimit(kind)[1]
    wanted = (soft, soft if hard is None else hard)
    if bound != resource.RLIM_INFINITY:
        wanted = (min(wanted[0], bound), min(wanted[1], bound))
    resource.setrlimit(kind, wanted)


def memory_limit_binds() -> bool:
    """Whether a limit on the address space is kept here. It stays set."""
    _limit(resource.RLIMIT_AS, 1 << 30)
    try:
        mmap.mmap(-1, 1 << 31).close()
    except OSError:
        return True
    return False


def works_in_a_child(attempt: Callable[[], bool]) -> bool:
    """Try in a throw-away child what cannot be undone, and say whether it worked."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if attempt() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _can_nobody_read(directory: str) -> bool:
    return become_nobody() and os.access(directory, os.R_OK | os.X_OK)


def hold_library() -> list[int]:
    """Keep the library importable for a user who cannot walk to it: it may lie in a home.

    Such directories are opened now and reached through the descriptor later.

    Returns:
        Those descriptors; every child keeps them.
    """
    held: list[int] = []
    for index, entry in enumerate(sys.path):
        if not Path(entry).is_dir() or works_in_a_child(functools.partial(_can_nobody_read, entry)):
            continue
        held.append(os.open(entry, os.O_RDONLY | os.O_DIRECTORY))
        sys.path[index] = f"/proc/self/fd/{held[-1]}"
        for module in list(sys.modules.values()):  # packages remember where they are
            places: list[str] | None = getattr(module, "__path__", None)
            for number, place in enumerate(places or ()):
                if places is not None and f"{place}/".startswith(f"{entry}/"):
                    places[number] = sys.path[index] + place.removeprefix(entry)
    sys.path_importer_cache.clear()
    return held


def other_children() -> list[int] | None:
    """Return the pids of this process's children, or None where nothing tells them."""
    pid = os.getpid()
    try:
        text = Path(f"/proc/self/task/{pid}/children").read_text("ascii")
    except OSError:
        return None
    return [int(word) for word in text.split()]


def remove_tree(top: Path) -> None:
    """Remove a directory, however deep it is and whatever modes it is left with.

    Neither recursion nor a path that grows with the depth: what is found below the
    first level is moved up to it. Links are removed, never followed.
    """
    fresh = map(f"{os.urandom(8).hex()}-{{}}".format, itertools.count())
    top.chmod(0o700)
    while entries := list(top.iterdir()):
        for entry in entries:
            if not stat.S_ISDIR(entry.lstat().st_mode):
                entry.unlink()
                continue
            entry.chmod(0o700)
            for inner in list(entry.iterdir()):
                if stat.S_ISDIR(inner.lstat().st_mode):
                    inner.chmod(0o700)  # moving a directory writes its ".."
                    inner.rename(top / next(fresh))
                else:
                    inner.unlink()
            entry.rmdir()
    top.rmdir()


# --- frames -----------------------------------------------------------------------


def frame(payload: bytes) -> bytes:
    """Return *payload* with its length before it."""
    return len(payload).to_bytes(HEADER_BYTES, "big") + payload


def take_frames(inbox: bytearray) -> list[bytes]:
    """Take the payloads of the complete frames out of *inbox*."""
    payloads: list[bytes] = []
    while len(inbox) >= HEADER_BYTES:
        end = HEADER_BYTES + int.from_bytes(inbox[:HEADER_BYTES], "big")
        if len(inbox) < end:
            break
        payloads.append(bytes(inbox[HEADER_BYTES:end]))
        del inbox[:end]
    return payloads


class Channel:
    """Frames over a descriptor that never blocks (Z3)."""

    def __init__(self, descriptor: int, largest: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.largest = largest
        self.ended = False
        self._inbox = bytearray()
        self._outbox = bytearray()

    @property
    def interest(self) -> int:
        """What to watch the descriptor for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)

    def receive(self) -> list[bytes]:
        """Return the frames that are complete by now. Sets `ended` at the end."""
        try:
            chunk = os.read(self.descriptor, CHUNK_BYTES)
            self.ended = not chunk
        except BlockingIOError:
            return []
        except OSError:
            self.ended = True
            return []
        self._inbox += chunk
        if int.from_bytes(self._inbox[:HEADER_BYTES], "big") > self.largest:
            self.ended = True
            return []
        return take_frames(self._inbox)

    def send(self, data: bytes) -> None:
        """Write *data* now, or as soon as the other side has room for it."""
        self._outbox += data
        self.flush()

    def flush(self) -> None:
        """Write what waits to be written, as far as there is room."""
        try:
            while self._outbox:
                del self._outbox[: os.write(self.descriptor, self._outbox)]
        except BlockingIOError:
            return
        except OSError:
            self._outbox.clear()  # nobody reads any more; `receive` finds the end


# --- the zygote -------------------------------------------------------------------


class Forked(BaseException):  # not an Exception: nothing on its way may catch it
    """Raised in a new child, to carry *body* past the zygote's whole stack.

    When it arrives at `main` the zygote's frames are gone, and with them the
    neighbours' programs, tokens, and descriptors: foreign code that walks up its
    own stack finds nothing of theirs.
    """

    def __init__(self, body: Callable[[], object]) -> None:
        super().__init__()
        self.body = body


class Box:
    """What the zygote knows of one sandbox. The leader is not yet reaped (Z1)."""

    def __init__(self, number: int, pid: int, directory: Path) -> None:
        self.number = number
        self.pid = pid
        self.directory = directory
        self.channel: Channel
        self.output: int
        self.ready = False
        self.begun = False
        self.setup_error = ""
        self.token = ""
        self.started: float | None = None
        self.deadline: float | None = None
        self.ended: float | None = None
        self.killed = ""
        self.report: tuple[str, ...] | None = None
        self.said = bytearray()
        self.truncated = False


def _note_nothing(_number: int, _frame: types.FrameType | None) -> None:
    """Handle a signal by doing nothing, which differs from ignoring it."""


def prepare(settings: dict[str, Any]) -> tuple[dict[str, bool], list[int]]:
    """Make this process what its children shall inherit.

    Args:
        settings: ``directory`` (made here; its parent exists) and ``preload`` (names
            of modules to import).

    Returns:
        The protections, each tried in a child, and the descriptors to keep.
    """
    os.environ.clear()
    directory = Path(settings["directory"])
    directory.mkdir()
    directory.chmod(0o711)  # whatever the umask: the sandboxes walk through it
    _limit(resource.RLIMIT_CORE, 0)
    # Room for many sandboxes; and a child knows up to where it has to close.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    _limit(resource.RLIMIT_NOFILE, OWN_DESCRIPTORS, most)
    protections = {
        # Before any import that may start a thread: a process that has several cannot
        # enter a user namespace.
        "network": works_in_a_child(leave_network) and leave_network(),
        "user": works_in_a_child(become_nobody),
        "privileges": works_in_a_child(lambda: _prctl(PR_SET_NO_NEW_PRIVS, 1)),
        "memory": works_in_a_child(memory_limit_binds),
        "parent_death": works_in_a_child(lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)),
        "strays": _prctl(PR_SET_CHILD_SUBREAPER, 1) and other_children() is not None,
    }
    held = hold_library() if protections["user"] else []
    for name in settings["preload"]:
        __import__(name)
    gc.collect()
    # What is here stays: no collection in a child touches its pages. What comes later,
    # the zygote's own state, can still be collected there (see `main`).
    gc.freeze()
    return protections, held


class Zygote:
    """Serves one control channel, single-threaded, until it ends.

    Args:
        control: The control channel.
        settings: ``directory`` (there is one already) and ``limits``.
        protections: Those that `prepare` found to work.
        held: Descriptors that every child keeps.
    """

    def __init__(
        self,
        control: Channel,
        settings: dict[str, Any],
        protections: dict[str, bool],
        held: list[int],
    ) -> None:
        self.directory = Path(settings["directory"])
        self.limits: dict[str, Any] = settings["limits"]
        self.control = control
        self.protections = protections
        self.held = held
        self.boxes: dict[int, Box] = {}  # by number; the leader is not reaped
        self.leaders: dict[int, Box] = {}  # the same, by pid
        self.swept: list[Box] = []  # reaped; strays and directory may be left
        self.removers: dict[int, Box] = {}  # children that remove a directory, by pid
        self.child_died = False
        self.ends_at: float | None = None
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Run until the control channel ends (Z4)."""
        wakes, wake = os.pipe()
        for descriptor in (wakes, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _note_nothing)  # the wake-up descriptor tells `_step`
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        read = selectors.EVENT_READ
        self.selector.register(wakes, read, functools.partial(self._on_signal, wakes))
        self.selector.register(self.control.descriptor, read, self._on_control)
        self._tell(event="ready", protections=self.protections)
        try:
            while self.ends_at is None or self.boxes or self.swept or self.removers:
                self._step()
        except Exception:
            for box in self.boxes.values():
                self._kill(box)
            raise
        remove_tree(self.directory)

    # The loop. Descriptors are closed in `_ended` only, after a batch of events, so an
    # event never finds its descriptor closed, or used for something else.

    def _step(self) -> None:
        for key, _ in self.selector.select(self._patience()):
            key.data()
        now = time.monotonic()
        for box in self.boxes.values():
            # After the events: a report that came in the tick of the deadline counts.
            if box.deadline is not None and now >= box.deadline:
                self._end(box, "wall")
        if self.ends_at is not None and now >= self.ends_at:
            msg = f"not all sandboxes were gone {SHUTDOWN_SECONDS:g} s after the end"
            raise TimeoutError(msg)
        if self.child_died:
            self.child_died = False
            self._reap()
            self._sweep()
        self._watch(self.control)

    def _patience(self) -> float | None:
        moments = [box.deadline for box in self.boxes.values() if box.deadline is not None]
        if self.ends_at is not None:
            moments.append(self.ends_at)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _watch(self, channel: Channel) -> None:
        key = self.selector.get_map().get(channel.descriptor)
        if key is not None and key.events != channel.interest:
            self.selector.modify(channel.descriptor, channel.interest, key.data)

    def _on_signal(self, descriptor: int) -> None:
        numbers = os.read(descriptor, CHUNK_BYTES)
        self.child_died = self.child_died or signal.SIGCHLD in numbers
        if signal.SIGTERM in numbers:
            self._shut_down()

    def _on_control(self) -> None:
        self.control.flush()
        for command in self.control.receive():
            match json.loads(command):
                case {"do": "fork", "id": int(number)}:
                    self._fork(number)
                case {"do": "run", "id": int(number), "program": str(program)}:
                    self._run(number, program)
                case {"do": "close", "id": int(number)}:
                    if number in self.boxes:
                        self._end(self.boxes[number], "closed")
                case other:
                    msg = f"unknown command {other!r}"
                    raise ValueError(msg)
        if self.control.ended:
            self._shut_down()

    def _tell(self, **event: object) -> None:
        self.control.send(frame(json.dumps(event).encode()))

    def _shut_down(self) -> None:
        if self.ends_at is None:
            self.ends_at = time.monotonic() + SHUTDOWN_SECONDS
            self.selector.unregister(self.control.descriptor)
            for box in self.boxes.values():
                self._end(box, "closed")

    # One sandbox, from its fork to its report.

    def _fork(self, number: int) -> None:
        directory = self.directory / str(number)
        opened: list[int] = []
        try:
            directory.mkdir(mode=0o700)
            ends = socket.socketpair()
            opened += [end.detach() for end in ends]
            opened += os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            with suppress(OSError):
                directory.rmdir()
            self._tell(event="failed", id=number, error=str(error))
            self._tell(event="closed", id=number, error="")
            return
        ours, theirs, output, writes = opened
        if pid == 0:
            setting = Setting(
                theirs, writes, directory, self.limits, self.protections, self.held, os.getppid()
            )
            raise Forked(functools.partial(live, setting))
        os.close(theirs)
        os.close(writes)
        os.set_blocking(output, False)
        box = Box(number, pid, directory)
        box.channel, box.output = Channel(ours, LARGEST_REPORT), output
        self.boxes[number] = self.leaders[pid] = box
        self.selector.register(ours, selectors.EVENT_READ, functools.partial(self._on_channel, box))
        self.selector.register(
            output, selectors.EVENT_READ, functools.partial(self._on_output, box)
        )

    def _run(self, number: int, program: str) -> None:
        box = self.boxes.get(number)
        if box is None or box.killed:
            return
        box.token = os.urandom(TOKEN_BYTES // 2).hex()
        box.started = time.monotonic()
        box.deadline = box.started + self.limits["wall_seconds"]
        box.channel.send(frame(program.encode("utf-8", "surrogatepass")) + box.token.encode())
        self._watch(box.channel)

    def _on_channel(self, box: Box) -> None:
        box.channel.flush()
        for message in box.channel.receive():
            self._heard(box, message)
        if box.channel.ended:
            self.selector.unregister(box.channel.descriptor)
            # Dead, or nothing it does from now on can be told from silence.
            self._end(box, "silent")
        else:
            self._watch(box.channel)

    def _heard(self, box: Box, message: bytes) -> None:
        words = message.decode("utf-8", "replace").split("\n")
        if not box.ready:
            box.ready = message == b"ready"
            if box.ready:
                self._tell(event="forked", id=box.number)
            else:
                box.setup_error = " ".join(words[1:])
                self._end(box, "failed")
        elif message == b"begun":
            box.begun = True
        elif box.token and words[0] == box.token and len(words) == REPORT_WORDS:
            if box.report is None:
                box.report = tuple(words[1:])
            self._end(box, "reported")

    def _on_output(self, box: Box) -> None:
        if not self._drain(box):
            self.selector.unregister(box.output)

    def _drain(self, box: Box) -> bool:
        """Read once; keep what is under the cap, drop the rest. False: nothing more."""
        try:
            chunk = os.read(box.output, CHUNK_BYTES)
        except BlockingIOError:
            return True
        room = self.limits["output_bytes"] - len(box.said)
        box.said += chunk[:room]
        box.truncated = box.truncated or len(chunk) > room
        return bool(chunk)

    # Its end.

    def _end(self, box: Box, why: str) -> None:
        """Kill *box*, for the first reason only. Its death is seen by `_reap`."""
        if not box.killed:
            box.killed = why
            box.ended = time.monotonic()
            box.deadline = None
            self._kill(box)
            self.child_died = True  # or had died before: then no other signal tells us

    def _kill(self, box: Box) -> None:
        # The group first. The leader too: it may not have made its group yet. Both are
        # safe, because the leader has not been waited for (Z1).
        for send in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                send(box.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Wait for every child that is dead, and report the leaders among them."""
        if hasattr(os, "waitid"):
            which = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with suppress(ChildProcessError):
                # Look before waiting: what is left to do needs the pid to be ours.
                while dead := os.waitid(os.P_ALL, 0, which):
                    self._bury(dead.si_pid, 0)
        else:  # Only for those whose group was killed: nothing is left to do.
            for pid in [*(p for p, box in self.leaders.items() if box.killed), *self.removers]:
                self._bury(pid, os.WNOHANG)

    def _bury(self, pid: int, options: int) -> None:
        box = self.leaders.get(pid)
        if box is not None:
            self._kill(box)  # its group: the leader itself may have died of something else
            self._hear_last_words(box)
        waited, status, usage = os.wait4(pid, options)
        if waited != pid:
            return
        code = os.waitstatus_to_exitcode(status)
        if box is not None:
            del self.leaders[pid], self.boxes[box.number]
            self._ended(box, code, usage)
            self.swept.append(box)
        elif pid in self.removers:
            box = self.removers.pop(pid)
            left = "" if code == 0 else f"{box.directory} could not be removed"
            self._tell(event="closed", id=box.number, error=left)

    def _hear_last_words(self, box: Box) -> None:
        """Read what the leader left in channel and pipe: its death may overtake them."""
        for message in box.channel.receive():
            self._heard(box, message)
        for _ in range(16):  # bounded: others may still fill the pipe
            before = len(box.said)
            if not self._drain(box) or len(box.said) == before:
                break

    def _ended(self, box: Box, status: int, usage: resource.struct_rusage) -> None:
        """Report how it ended.

        The facts: ``begun`` (it had got its program), ``report`` (kind, line and
        text, or null), ``killed`` (why we killed it, or ""), ``status`` (as in
        `subprocess`: negative for a signal), ``seconds``, ``cpu_seconds``, ``output``,
        ``truncated``.
        """
        for descriptor in (box.channel.descriptor, box.output):
            with suppress(KeyError):
                self.selector.unregister(descriptor)
            os.close(descriptor)
        if not box.ready:
            why = box.setup_error or f"it ended with status {status} before it was ready"
            self._tell(event="failed", id=box.number, error=why)
            return
        now = time.monotonic() if box.ended is None else box.ended
        self._tell(
            event="ended",
            id=box.number,
            begun=box.begun,
            report=box.report,
            killed=box.killed,
            status=status,
            seconds=0.0 if box.started is None else now - box.started,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            output=box.said.decode("utf-8", "replace"),
            truncated=box.truncated,
        )

    def _sweep(self) -> None:
        """Kill what is left of the dead, then remove their directories (Z2).

        A leader adopts the orphans among its descendants, and the zygote those of a
        dead leader. So a child that is neither leader nor remover is a stray, and a
        stray's own children come here when it has died: the next look finds them.
        """
        strays = [
            pid
            for pid in other_children() or ()
            if pid not in self.leaders and pid not in self.removers
        ]
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if strays:
            return
        swept, self.swept = self.swept, []
        for box in swept:
            try:
                box.directory.rmdir()
            except OSError:
                self._remove_in_a_child(box)
            else:
                self._tell(event="closed", id=box.number, error="")

    def _remove_in_a_child(self, box: Box) -> None:
        """Remove a directory that is not empty where it delays nobody (Z3)."""
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(event="closed", id=box.number, error=f"{box.directory}: {error}")
            return
        if pid == 0:
            raise Forked(functools.partial(be_remover, box.directory))
        self.removers[pid] = box


# --- the children -----------------------------------------------------------------


def be_remover(directory: Path) -> None:
    """Remove a directory, and hold nothing of the zygote's meanwhile."""
    signal.set_wakeup_fd(-1)
    close_all_but({0, 1, 2})
    remove_tree(directory)


class Setting(NamedTuple):
    """What a new child needs to become a sandbox."""

    channel: int
    output: int
    directory: Path
    limits: dict[str, Any]
    protections: dict[str, bool]
    held: list[int]
    zygote: int


def live(setting: Setting) -> NoReturn:
    """Settle in, wait for the program, run it, report, and end."""
    channel = setting.channel
    try:
        settle_in(setting)
    except Exception as error:  # noqa: BLE001 - it travels to the main process
        os.write(channel, frame(f"failed\n{type(error).__name__}: {error}".encode()))
        os._exit(1)
    os.write(channel, frame(b"ready"))
    header = read_exactly(channel, HEADER_BYTES)
    program = read_exactly(channel, int.from_bytes(header, "big"))
    os.write(channel, frame(b"begun"))
    del setting, header
    run(program.decode("utf-8", "surrogatepass"), channel)


def settle_in(setting: Setting) -> None:
    """Make this process a sandbox: a session, a directory, a user, and limits."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(setting.output, 1)
    os.dup2(setting.output, 2)
    close_all_but({0, 1, 2, setting.channel, *setting.held})
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what it says before it is killed counts
    os.chdir(setting.directory)
    has = setting.protections
    if has["user"] and not become_nobody(setting.directory):
        msg = "cannot become an unprivileged user"
        raise PermissionError(msg)
    # After the change of user, which undoes the first of these.
    for name, option, value in (
        ("parent_death", PR_SET_PDEATHSIG, signal.SIGKILL),
        ("privileges", PR_SET_NO_NEW_PRIVS, 1),
        ("strays", PR_SET_CHILD_SUBREAPER, 1),
    ):
        if has[name] and not _prctl(option, value):
            msg = f"prctl({option}, {value}) failed, though it worked before"
            raise OSError(msg)
    if os.getppid() != setting.zygote:
        os._exit(1)  # it died before we could ask to die with it
    limits = setting.limits
    _limit(resource.RLIMIT_NOFILE, limits["open_files"])
    _limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    # SIGXCPU first; the hard limit is for those who ignore it.
    _limit(resource.RLIMIT_CPU, limits["cpu_seconds"], limits["cpu_seconds"] + 1)
    if has["user"]:  # else the count would be that of all the user's processes
        _limit(resource.RLIMIT_NPROC, limits["processes"])
    if has["memory"]:
        _limit(resource.RLIMIT_AS, limits["memory_bytes"])


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor but these. None is above the zygote's own limit."""
    first = 0
    for descriptor in [*sorted(kept), OWN_DESCRIPTORS]:
        if first < descriptor:  # an empty range that starts at 0 would close everything
            os.closerange(first, descriptor)
        first = descriptor + 1


def read_exactly(descriptor: int, size: int) -> bytes:
    """Read *size* bytes. Ends the process where there are fewer: nobody wants it."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(descriptor, size - len(data))
        if not chunk:
            os._exit(1)
        data += chunk
    return bytes(data)


def run(program: str, channel: int) -> NoReturn:
    """Run *program* to its end, and report that end through the channel."""
    # All that is needed afterwards is taken now: a program may replace what it can
    # reach, and an honest one does so in its tests.
    leader, pid, kill = os.getpid(), os.getpid, os.kill
    read, write, leave = os.read, os.write, os._exit
    streams = (sys.stdout, sys.stderr)
    module = types.ModuleType("program")
    # Not "__main__", so that a demonstration at the end of a completion does not run;
    # registered, because dataclasses and pickle look a class up by its module.
    sys.modules["program"] = sys.modules["__main__"] = module
    sys.argv[:] = ["program"]
    report = attempt(program, vars(module))
    if pid() != leader:
        leave(0)  # a fork made by the program came to the end: that is no verdict
    for stream in streams:
        with suppress(BaseException):
            stream.flush()
    with suppress(OSError):
        token = b""
        while len(token) < TOKEN_BYTES and (more := read(channel, TOKEN_BYTES - len(token))):
            token += more
        write(channel, frame(token + b"\n" + report))
        leave(0)
    kill(leader, signal.SIGKILL)  # the program closed the channel; see `judge`
    leave(1)


def attempt(program: str, namespace: dict[str, Any]) -> bytes:
    """Compile and run; return the part of the report that follows the token."""
    # To be able to speak when memory has run out. Never touched, so it costs nothing.
    reserve = bytes(RESERVE_BYTES)
    kind, line, text = "passed", None, ""
    try:
        code = compile(program, PROGRAM, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        kind, line, text = "syntax_error", error.lineno, f"{type(error).__name__}: {error.msg}"
    except ValueError as error:  # a NUL, a lone surrogate
        kind, text = "syntax_error", f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - too deep, or too large
        del reserve
        kind, line, text = describe(error)
    else:
        try:
            exec(code, namespace)  # noqa: S102 - this is what the sandbox is for
        except BaseException as error:  # noqa: BLE001 - every end is an answer
            del reserve
            kind, line, text = describe(error)
    if line is not None:
        source = " ".join(program.split("\n")[line - 1 : line]).strip()
        text += f" (line {line}: {source[:SOURCE_CHARACTERS]})"
    words = " ".join(text.split())  # one line, for people
    return f"{kind}\n{line or 0}\n{words}".encode("utf-8", "backslashreplace")


def describe(error: BaseException) -> tuple[str, int | None, str]:
    """Say what kind of end *error* is, on which line of the program, and its text."""
    kind = "exception"
    for cause, name in ((AssertionError, "wrong"), (MemoryError, "memory"), (SystemExit, "exit")):
        if isinstance(error, cause):
            kind = name
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == PROGRAM:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = type(error).__name__
    with suppress(BaseException):  # its __str__ is the program's
        said = str(error)[:TEXT_CHARACTERS]
        text += f": {said}" if said else ""
    return kind, line, text


def serve(descriptor: int, settings: dict[str, Any]) -> None:
    """Be the zygote, and say why when that fails."""
    control = Channel(descriptor, LARGEST_COMMAND)
    try:
        protections, held = prepare(settings)
        Zygote(control, settings, protections, held).serve()
    except Exception:
        event = {"event": "fatal", "error": traceback.format_exc()}
        control.send(frame(json.dumps(event).encode()))
        raise


def main() -> None:
    """Be the zygote; in each child, be what the zygote forked it for."""
    given, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    control = os.dup(given)  # the lowest free number: below the limit of `close_all_but`
    os.close(given)
    try:
        serve(control, settings)
    except Forked as forked:
        body = forked.body
    else:
        return
    # Only children come here. What is left of the zygote's state is collected now:
    # nobody shall find it, and nothing of it may close a descriptor later on.
    gc.collect()
    code = 1
    try:
        body()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
