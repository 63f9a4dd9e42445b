"""Sandboxes: invariants S1-S4 and Z1-Z4, with real processes."""

import asyncio
import contextlib
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

import millpond
from millpond.errors import Closed, DeadlineError, MillpondError, Transient, UsageError
from millpond.jobs.codeeval import _sandbox, _zygote
from millpond.jobs.codeeval._limits import Limits
from millpond.jobs.codeeval._sandbox import SandboxError, Zygote
from millpond.jobs.codeeval._verdict import Facts, Verdict, VerdictKind, judge

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc"
)
SLEEPER = "import time\ntime.sleep(60)"


@pytest.fixture
def place() -> Iterator[Path]:
    """Where a test's zygotes keep their directories; it is empty again at the end.

    Its name is in the command line of a zygote and of whatever was forked from it, so
    it finds what was left behind too. (Not `tmp_path`: other users cannot enter that.)
    """
    directory = Path(tempfile.mkdtemp(prefix="sandboxes-"))
    directory.chmod(0o755)
    try:
        yield directory
        assert list(directory.iterdir()) == []
        assert processes(directory) == []
    finally:
        shutil.rmtree(directory)


def make_zygote(place: Path, *, wall_seconds: float = 5.0, **others: int) -> Zygote:
    """Make one that starts quickly."""
    limits = Limits(wall_seconds=wall_seconds, **others)
    return Zygote(directory=place, preload=(), limits=limits)


def processes(marker: object) -> list[int]:
    """Return the pids of those that have *marker* in their command line."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and str(marker).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def names(directory: Path) -> list[str]:
    """Return what is in it."""
    return [path.name for path in directory.iterdir()]


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has."""
    return len(names(Path(f"/proc/{pid}/fd")))


def is_empty(place: Path) -> bool:
    """Whether the one zygote in *place* has no sandbox's directory left."""
    (own,) = place.iterdir()
    return names(own) == []


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


def wait_for_deaths(pids: list[int], seconds: float = 5.0) -> None:
    """Block until all of them are dead."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                assert select.select([descriptor], [], [], seconds)[0], f"{pid} lives"
            finally:
                os.close(descriptor)


def block_the_loop() -> None:
    """Give the zygote the time to answer, and the loop none to notice."""
    time.sleep(0.06)


async def ticks(count: int) -> None:
    """Let the loop go round *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_alive(zygote: Zygote, count: int) -> None:
    """Wait until that many sandboxes are alive; the test's deadline bounds it."""
    while zygote.statistics().alive != count:  # noqa: ASYNC110 - another process's state
        await asyncio.sleep(0.005)


async def grade(zygote: Zygote, program: str) -> Verdict:
    """Fork, run, close."""
    sandbox = await zygote.fork()
    try:
        return await sandbox.run(textwrap.dedent(program))
    finally:
        await sandbox.close()


# --- verdicts ---------------------------------------------------------------------

ENDS = {
    "the end": ("x = 1\nassert x", "passed", r"^$"),
    "no statement": ("", "passed", r"^$"),
    "a false assertion": (
        "def f():\n    return 3\nassert f() == 4, 'not\\n  four'",
        "wrong",
        r"^AssertionError: not four \(line 3: assert f\(\) == 4, .*\)$",
    ),
    "an assertion without a text": ("assert 0", "wrong", r"^AssertionError \(line 1: assert 0\)$"),
    "a syntax error": (
        "x = 1\ndef f(:\n",
        "syntax_error",
        r"^SyntaxError: .*\(line 2: def f\(:\)$",
    ),
    "a wrong indent": ("if 1:\nx = 1", "syntax_error", r"^IndentationError: expected .*line 2"),
    "a NUL": ("x = '\0'", "syntax_error", r"null bytes"),
    "a lone surrogate": ("x = '\udc80'", "syntax_error", r"^UnicodeEncodeError"),
    "a syntax error in an inner text": ("exec('def')", "exception", r"^SyntaxError.*line 1"),
    "an exception": ("\nd = {}\nd['a']", "exception", r"^KeyError: 'a' \(line 3: d\['a'\]\)$"),
    "a base exception": ("raise KeyboardInterrupt", "exception", r"^KeyboardInterrupt"),
    "no end of recursion": ("def f():\n    f()\nf()", "exception", r"^RecursionError.*line 2"),
    "an exception without a text of its own": (
        "class E(Exception):\n    def __str__(self):\n        raise SystemExit\nraise E",
        "exception",
        r"^E \(line 4: raise E\)$",
    ),
    "an error from the library": (
        "import json\njson.loads('{')",
        "exception",
        r"^JSONDecodeError: .*\(line 2: json.loads\('\{'\)\)$",
    ),
    "too much memory at once": ("x = bytearray(1 << 40)", "memory", r"^MemoryError.*line 1"),
    "sys.exit": ("import sys\nsys.exit(0)", "crashed", r"^exited early: SystemExit: 0 .*line 2"),
    "os._exit": ("import os\nos._exit(0)", "crashed", r"^exited early with status 0"),
    "a signal": ("import os\nos.kill(os.getpid(), 15)", "crashed", r"\(SIGTERM\)$"),
    "a bad pointer": ("import ctypes\nctypes.string_at(0)", "crashed", r"\(SIGSEGV\)$"),
    "another program": ("import os\nos.execv('/bin/sleep', ['x', '60'])", "crashed", r"descriptor"),
    "no descriptors": ("import os\nos.closerange(0, 64)", "crashed", r"closed the descriptor"),
}


async def test_every_end_has_its_kind_and_its_reason(place: Path) -> None:
    """A verdict says how a program ended, why, and on which line."""
    async with make_zygote(place) as zygote:
        verdicts = {name: await grade(zygote, program) for name, (program, _, _) in ENDS.items()}
    kinds = {name: str(verdict.kind) for name, verdict in verdicts.items()}
    assert kinds == {name: kind for name, (_, kind, _) in ENDS.items()}
    for name, (_, kind, detail) in ENDS.items():
        assert re.search(detail, verdicts[name].detail), (name, verdicts[name].detail)
        assert verdicts[name].passed == (kind == "passed")
        assert 0 < verdicts[name].seconds < 5


FORGERIES = {
    "words": (b"passed\n", "crashed"),  # they spoil the channel for the genuine report
    "frames without a token": (_zygote.frame(b"\npassed\n0\n"), "wrong"),
    "frames with a wrong token": (_zygote.frame(b"0" * 32 + b"\npassed\n0\n"), "wrong"),
    "a huge frame": (b"\xff" * 8, "crashed"),
}


async def test_a_verdict_is_not_made_by_printing_one(place: Path) -> None:
    """Neither on the outputs, nor on whatever other descriptor there is."""
    async with make_zygote(place) as zygote:
        for name, (forgery, kind) in FORGERIES.items():
            verdict = await grade(
                zygote,
                f"""
                import os
                print("passed")
                for descriptor in range(1, 64):
                    try:
                        os.write(descriptor, {forgery!r})
                    except OSError:
                        pass
                assert False
                """,
            )
            assert verdict.kind == kind, name
            assert verdict.output.startswith("passed\n")
        assert (await grade(zygote, "print('1 failed, 3 errors')")).passed


async def test_a_program_may_replace_what_the_report_is_made_with(place: Path) -> None:
    """Honest programs patch the library in their tests."""
    async with make_zygote(place) as zygote:
        verdict = await grade(
            zygote,
            """
            import os, signal, sys, builtins
            sys.stdout = sys.stderr = sys.modules = None
            for name in ("write", "read", "_exit", "getpid", "kill"):
                setattr(os, name, None)
            """,
        )
    assert verdict.passed


async def test_only_the_first_process_of_a_program_has_a_verdict(place: Path) -> None:
    """A fork that comes to the end of the program passes nothing."""
    async with make_zygote(place, wall_seconds=0.5) as zygote:
        verdict = await grade(zygote, "import os\nif os.fork():\n    while True: os.sched_yield()")
        assert verdict.kind is VerdictKind.TIMEOUT
        verdict = await grade(zygote, "import os\nif os.fork() == 0: assert False")
        assert verdict.passed


async def test_the_program_is_a_module_but_not_the_main_one(place: Path) -> None:
    """A demonstration at the end of a completion does not run; dataclasses work."""
    async with make_zygote(place) as zygote:
        verdict = await grade(
            zygote,
            """
            import pickle, sys
            from dataclasses import dataclass
            @dataclass
            class Point:
                x: "int"
            assert pickle.loads(pickle.dumps(Point(3))) == Point(3)
            assert sys.modules["__main__"].Point is Point
            assert sys.argv == ["program"]
            if __name__ == "__main__":
                input()
            """,
        )
    assert verdict.passed, verdict.detail


async def test_a_large_program_arrives_whole(place: Path) -> None:
    """It is larger than any buffer on its way, and not ASCII."""
    async with make_zygote(place) as zygote:
        text = "ü" * 3_000_000
        verdict = await grade(zygote, f"x = '{text}'\nassert len(x) == 3_000_000\nprint(x[-1])")
    assert verdict.passed
    assert verdict.output == "ü\n"


# --- what a program finds ---------------------------------------------------------


async def test_a_sandbox_is_empty(place: Path) -> None:
    """Environment, directory, standard input, and descriptors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_KEY", "hunter2")
        async with make_zygote(place) as zygote:
            verdict = await grade(
                zygote,
                """
                import os, subprocess, sys
                assert dict(os.environ) == {}, os.environ
                if sys.platform == "linux":
                    if os.access("/proc/self/environ", os.R_OK):
                        assert open("/proc/self/environ", "rb").read() == b""
                    own = [os.path.realpath(f"/proc/self/fd/{n}") for n in range(64)
                           if os.path.exists(f"/proc/self/fd/{n}")]
                    # Input, both outputs; and the library, where its path is closed to us.
                    library = [os.path.realpath(p) for p in sys.path]
                    rest = [path for path in own if path not in library]
                    assert rest[0] == "/dev/null", own
                    assert rest[1] == rest[2] and rest[1].split("/")[-1].startswith("pipe:"), own
                    assert [p.split("/")[-1].split(":")[0] for p in rest[3:]] == ["socket"], own
                assert subprocess.run(["env"], capture_output=True, text=True).stdout == ""
                assert sys.stdin.read() == ""
                assert os.listdir(".") == [] and os.listdir(os.getcwd()) == []
                with open(os.path.join(os.getcwd(), "file"), "w") as file:
                    file.write("mine")
                """,
            )
    assert verdict.passed, verdict.detail


async def test_modules_are_found_that_were_not_preloaded(place: Path) -> None:
    """Also where the interpreter lives below a directory that is closed to others."""
    async with make_zygote(place) as zygote:
        verdict = await grade(
            zygote,
            """
            import concurrent.futures.process, datetime, sqlite3, xml.dom.minidom
            assert datetime.datetime.strptime("2024", "%Y").year == 2024
            assert "x".encode("cp037") == b"\\xa7"
            """,
        )
    assert verdict.passed, verdict.detail


async def test_sandboxes_draw_different_random_numbers(place: Path) -> None:
    """They are forks of one process, with one state of the generator."""
    async with Zygote(directory=place, preload=("random",)) as zygote:
        draws = {
            (await grade(zygote, "import random\nprint(random.random())")).output for _ in "ab"
        }
    assert len(draws) == 2


async def test_nothing_of_the_zygote_is_within_reach(place: Path) -> None:
    """Neither up the stack nor among all objects: no neighbour's program, no token."""
    async with make_zygote(place) as zygote:
        neighbour = await zygote.fork()
        running = asyncio.create_task(neighbour.run(f"secret = 'hunter2'\n{SLEEPER}"))
        await ticks(3)
        verdict = await grade(
            zygote,
            """
            import gc, sys
            gc.unfreeze()
            kinds = {type(thing).__name__ for thing in gc.get_objects()}
            assert not kinds & {"Zygote", "Box", "Channel", "EpollSelector"}, kinds
            frame, seen = sys._getframe(), ""
            while frame := frame.f_back:
                seen += repr(frame.f_locals)
            assert "hunter" + "2" not in seen
            """,
        )
        running.cancel()
        await asyncio.wait([running])
    assert verdict.passed, verdict.detail


async def test_no_network_where_that_is_promised(place: Path) -> None:
    """A listener of the parent, on loopback, cannot be reached."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with make_zygote(place) as zygote:
            verdict = await grade(
                zygote,
                f"import socket\nsocket.create_connection({listener.getsockname()!r}, 1).close()",
            )
            assert verdict.passed != zygote.protections.network
            assert ("network" in zygote.protections.missing) != zygote.protections.network
    if sys.platform == "linux" and os.geteuid() == 0:
        assert verdict.kind is VerdictKind.EXCEPTION


async def test_each_sandbox_is_a_user_of_its_own_where_that_is_promised(place: Path) -> None:
    """Started by root, none is root, and none is its neighbour."""
    program = "import os\nprint(os.getresuid(), os.getresgid(), os.getgroups())\nos.setuid(0)"
    async with make_zygote(place) as zygote:
        assert zygote.protections.user == (os.geteuid() == 0)
        boxes = [await zygote.fork() for _ in range(2)]
        verdicts = [await box.run(program) for box in boxes]
    if zygote.protections.user:
        assert {verdict.kind for verdict in verdicts} == {VerdictKind.EXCEPTION}
        assert verdicts[0].detail.startswith("PermissionError")
        assert len({verdict.output for verdict in verdicts}) == 2
        assert all("(0, " not in verdict.output for verdict in verdicts)


async def test_what_a_system_lacks_is_reported_and_the_rest_works(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a system that has none of Linux's own calls."""
    source = Path(_zygote.__file__).read_text("utf-8")  # noqa: ASYNC240 - before it starts
    for there, missing in (
        ("_libc: Final = ctypes.CDLL(None, use_errno=True)", "_libc: Any = object()"),
        ('hasattr(os, "waitid")', "False"),
    ):
        assert source.count(there) == 1
        source = source.replace(there, missing)
    other = tmp_path / "zygote.py"
    other.write_text(source, "utf-8")
    monkeypatch.setattr(_zygote, "__file__", str(other))
    async with make_zygote(place, wall_seconds=0.3) as zygote:
        assert zygote.protections.missing[:1] == ("network",)
        assert {"network", "privileges", "parent_death", "strays"} <= {*zygote.protections.missing}
        for program, kind in (
            ("", "passed"),
            ("import os\nopen('file', 'w').close()\nos._exit(0)", "crashed"),
            ("import os, time\nif os.fork() == 0: time.sleep(60)", "passed"),
            ("import os, time\nos.fork()\ntime.sleep(60)", "timeout"),
        ):
            verdict = await grade(zygote, program)
            assert verdict.kind == kind, (program, verdict.detail)
        assert is_empty(place)
        assert zygote.statistics().alive == 0


# --- limits -----------------------------------------------------------------------


async def test_wall_clock_ends_a_program_that_waits(place: Path) -> None:
    """Its verdict comes at the limit, with what it had printed by then."""
    async with make_zygote(place, wall_seconds=0.3) as zygote:
        verdict = await grade(zygote, f"print('on it')\n{SLEEPER}")
    assert (verdict.kind, verdict.detail) == ("timeout", "still running after 0.3 s")
    assert 0.3 <= verdict.seconds < 2
    assert verdict.output == "on it\n"


@pytest.mark.parametrize(
    "guard",
    [
        "",
        pytest.param(
            "import signal\nsignal.signal(signal.SIGXCPU, print)\n", marks=pytest.mark.slow
        ),
    ],
)
async def test_processor_time_ends_a_program_that_computes(place: Path, guard: str) -> None:
    """Long before the wall clock does, also when it ignores the warning."""
    async with make_zygote(place, cpu_seconds=1, wall_seconds=9) as zygote:
        verdict = await grade(zygote, f"{guard}while True: pass")
    assert (verdict.kind, verdict.detail) == ("timeout", "used 1 s of processor time")
    assert verdict.cpu_seconds > 0.5


async def test_memory_ends_a_program_that_hoards(place: Path) -> None:
    """Small pieces, until not even a small one is left: it still can say so."""
    async with make_zygote(place, memory_bytes=100 << 20) as zygote:
        if not zygote.protections.memory:
            pytest.skip("this system does not keep a limit on the address space")
        verdict = await grade(zygote, "x = None\nwhile True: x = (x, bytes(400))")
    assert verdict.kind is VerdictKind.MEMORY
    assert verdict.detail.startswith("MemoryError")


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("open('f', 'wb').write(bytes(2 << 20))", "OSError: [Errno 27]"),
        ("x = [open('/dev/null') for _ in range(30)]", "OSError: [Errno 24]"),
    ],
)
async def test_files_are_limited(place: Path, program: str, error: str) -> None:
    """In size, and in how many are open."""
    async with make_zygote(place, file_bytes=1 << 20, open_files=20) as zygote:
        verdict = await grade(zygote, program)
    assert verdict.kind is VerdictKind.EXCEPTION
    assert verdict.detail.startswith(error)


async def test_processes_are_limited_where_that_is_promised(place: Path) -> None:
    """A fork bomb stops at the limit, and is gone with its sandbox."""
    async with make_zygote(place, processes=10) as zygote:
        if not zygote.protections.user:
            pytest.skip("without a user of its own there is no limit on processes")
        program = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)"
        verdict = await grade(zygote, program)
        assert verdict.kind is VerdictKind.EXCEPTION
        assert verdict.detail.startswith("BlockingIOError")
        assert len(processes(place)) == 1


async def test_a_flood_of_output_is_read_and_dropped(place: Path) -> None:
    """50 MB of binary on both outputs: capped, and the program is not held up."""
    async with make_zygote(place, output_bytes=1000) as zygote:
        verdict = await grade(
            zygote,
            r"""
            import os
            for i in range(400):
                os.write(1 + i % 2, b"\xff\0" * 65536)
            """,
        )
        assert verdict.passed
        assert verdict.truncated
        assert verdict.output == "\ufffd\0" * 500
        verdict = await grade(zygote, "print('x' * 999)")
        assert (len(verdict.output), verdict.truncated) == (1000, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"wall_seconds": 0}, "`wall_seconds` must be > 0 and finite, got 0"),
        ({"memory_bytes": 1.5}, "`memory_bytes` must be a whole number >= 1, got 1.5"),
        ({"cpu_seconds": 0}, "`cpu_seconds` must be a whole number >= 1, got 0"),
    ],
)
def test_limits_are_checked(fields: dict[str, Any], message: str) -> None:
    """A limit that cannot be kept is refused where it is written."""
    with pytest.raises(ValueError, match=message):
        Limits(**fields)


# --- what a program leaves behind -------------------------------------------------

GRANDCHILDREN = {
    "in the group": "pass",
    "in a session of its own": "os.setsid()",
    "in a group of its own, twice removed": "os.setpgid(0, 0)\n    if os.fork(): os._exit(0)",
}


@needs_proc
@pytest.mark.parametrize("kind", GRANDCHILDREN)
@pytest.mark.parametrize("end", ["passes", "runs on"])
async def test_grandchildren_die_and_delay_nothing(place: Path, kind: str, end: str) -> None:
    """R59: they hold the output and the verdict's channel open, and never end."""
    async with make_zygote(place, wall_seconds=5.0 if end == "passes" else 0.3) as zygote:
        program = (
            f"import os, time\nif os.fork() == 0:\n    {GRANDCHILDREN[kind]}\n"
            f"    print('born', flush=True)\n    time.sleep(60)\nos.sched_yield()\n"
        )
        sandbox = await zygote.fork()
        began = time.monotonic()
        verdict = await sandbox.run(program + ("" if end == "passes" else "time.sleep(60)"))
        assert time.monotonic() - began < 2
        assert verdict.kind == ("passed" if end == "passes" else "timeout")
        await sandbox.close()
        assert processes(place) == [zygote.pid]


@needs_proc
async def test_a_program_started_in_the_background_dies(place: Path) -> None:
    """R59: `sh -c 'sleep 30 &'`, which outlives its parent."""
    async with make_zygote(place) as zygote:
        name = f"left-by-{place.name}"
        verdict = await grade(
            zygote,
            f"""
            import subprocess
            subprocess.Popen([{name!r}, "60"], executable="/bin/sleep", start_new_session=True)
            subprocess.run(["sh", "-c", "sleep 60 & echo $!"])
            """,
        )
        assert verdict.passed, verdict.detail
        assert processes(name) == []
        assert not is_alive(int(verdict.output))


async def test_any_directory_can_be_removed(place: Path) -> None:
    """Deeper than any path may be, without permissions, with links out of it."""
    outside = place / "outside"
    outside.mkdir(mode=0o777)
    (outside / "kept").touch()
    async with make_zygote(place) as zygote:
        verdict = await grade(
            zygote,
            f"""
            import os
            os.symlink({str(outside)!r}, "link")
            os.mkfifo("fifo")
            for i in range(30):
                open(f"file {{i}}\\n", "w").close()
            for i in range(1500):
                os.mkdir("deep")
                os.chdir("deep")
            os.symlink({str(outside)!r}, "link")
            os.chmod(".", 0)
            """,
        )
        assert verdict.passed, verdict.detail
        assert names(outside) == ["kept"]
        (outside / "kept").unlink()
        outside.rmdir()
        assert is_empty(place)


@needs_proc
async def test_nothing_is_left_after_fifty_sandboxes(place: Path) -> None:
    """Twenty at once: neither process, nor directory, nor descriptor of ours."""
    programs = [ENDS[name][0] for name in ENDS] * 3
    before = descriptors(os.getpid())
    async with make_zygote(place) as zygote:
        within, theirs = descriptors(os.getpid()), descriptors(zygote.pid)
        queue = iter(programs[:50])

        async def worker() -> None:
            for program in queue:
                await grade(zygote, program)

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(worker())
        assert zygote.statistics() == _sandbox.ZygoteStatistics(forked=50, alive=0, peak=20)
        assert processes(place) == [zygote.pid]
        assert is_empty(place)
        assert (descriptors(os.getpid()), descriptors(zygote.pid)) == (within, theirs)
    assert descriptors(os.getpid()) == before


async def test_many_at_once(place: Path) -> None:
    """Fifty sandboxes alive, each with its own verdict."""
    async with make_zygote(place) as zygote:
        boxes = await asyncio.gather(*(zygote.fork() for _ in range(50)))
        assert zygote.statistics().alive == 50
        verdicts = await asyncio.gather(*(box.run(f"print({n})") for n, box in enumerate(boxes)))
        assert [verdict.output for verdict in verdicts] == [f"{n}\n" for n in range(50)]


async def test_leaving_ends_what_still_runs(place: Path) -> None:
    """S3: running, ready, and being forked; whoever waits is told."""
    async with make_zygote(place) as zygote:
        ready, running = await zygote.fork(), await zygote.fork()
        run = asyncio.create_task(running.run(SLEEPER))
        await ticks(3)
        fork = asyncio.create_task(zygote.fork())
        await ticks(1)
    for task in (run, fork):
        with pytest.raises(Closed, match="the zygote is closed"):
            await task
    with pytest.raises(Closed):
        await ready.run("")
    with pytest.raises(Closed):
        await zygote.fork()
    await asyncio.gather(ready.close(), running.close())
    assert repr(zygote) == "<Zygote closed>"


@needs_proc
def test_killing_the_main_process_leaves_nothing(place: Path) -> None:
    """Z4: the zygote sees the end of its channel, kills, removes, and ends."""
    script = f"""
        import asyncio
        from pathlib import Path
        from millpond.jobs.codeeval._sandbox import Zygote

        async def main():
            async with Zygote(directory={str(place)!r}, preload=()) as zygote:
                ready, *busy = [await zygote.fork() for _ in range(4)]
                code = ["import os, time; open('file', 'w').close()", "if os.fork() == 0:",
                        "    if os.fork() == 0: os.setsid()",
                        "print('up', flush=True)", "time.sleep(60)"]
                runs = [asyncio.create_task(box.run("\\n".join(code))) for box in busy]
                while len(list(Path({str(place)!r}).glob("*/*/file"))) < 3:
                    await asyncio.sleep(0.01)
                print("running", flush=True)
                await asyncio.wait(runs)
        asyncio.run(main())
    """
    source = str(Path(millpond.__path__[0]).parent)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    ) as main:
        assert main.stdout is not None
        assert main.stdout.readline() == "running\n"
        left = [pid for pid in processes(place) if pid != main.pid]
        assert len(left) >= 1 + 1 + 3
        main.kill()
    wait_for_deaths(left)


# --- the zygote's own death -------------------------------------------------------


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_death_of_the_zygote_is_told_to_all(place: Path, number: int) -> None:
    """S4: running, being forked, to come: an error, no hang; and closing still works."""
    async with make_zygote(place) as zygote:
        ready, running = await zygote.fork(), await zygote.fork()
        run = asyncio.create_task(running.run(SLEEPER))
        await ticks(3)
        left = processes(place)
        assert len(left) == 3
        fork = asyncio.create_task(zygote.fork())
        await ticks(1)
        os.kill(zygote.pid, number)
        await asyncio.wait([run, fork])
        # Told to end, it closes what runs before it goes; killed, it says nothing.
        expected = SandboxError if number == signal.SIGKILL else (SandboxError, Closed)
        assert isinstance(run.exception(), expected)
        # A fork may have been quicker than the signal.
        assert isinstance(fork.exception(), (SandboxError, Transient, type(None)))
        await asyncio.gather(ready.close(), running.close(), running.close())
        with contextlib.suppress(SandboxError, Closed):
            await ready.run("")
        while "alive" in repr(zygote):  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.005)
        assert repr(zygote) == "<Zygote dead>"
        how = r"was killed \(SIGKILL\)" if number == signal.SIGKILL else "ended with status 0"
        with pytest.raises(SandboxError, match=rf"the warm process {how}; start a new `Zygote`"):
            await zygote.fork()
        wait_for_deaths(left)


@needs_proc
async def test_a_zygote_that_does_not_answer_is_given_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: fork, run, close and the end are bounded even if it is stopped."""
    for name in ("FORK_SECONDS", "VERDICT_SECONDS", "CLOSE_SECONDS", "EXIT_SECONDS"):
        monkeypatch.setattr(_sandbox, name, 0.1)
    zygote = make_zygote(place, wall_seconds=0.1)
    await zygote.__aenter__()
    box = await zygote.fork()
    left = processes(place)
    os.kill(zygote.pid, signal.SIGSTOP)
    with pytest.raises(SandboxError, match=r"has not answered for 0\.1 s"):
        await zygote.fork()
    with pytest.raises(SandboxError, match=r"has not answered for 0\.2 s"):
        await box.run("")
    with pytest.raises(DeadlineError, match=r"closing a sandbox exceeded its 0\.1 s"):
        await box.close()
    with pytest.raises(SandboxError, match=r"did not end within 0\.1 s; it was killed"):
        await zygote.__aexit__(None, None, None)
    wait_for_deaths(left)


async def test_a_module_that_is_missing_is_named(place: Path) -> None:
    """The zygote does not start without what it was told to preload."""
    zygote = Zygote(directory=place, preload=("no_such_module",))
    with pytest.raises(SandboxError, match=r"status 1: ModuleNotFoundError: .*such_mod") as told:
        await zygote.__aenter__()
    assert "prepare" in told.value.__notes__[0]


async def test_a_place_that_is_missing_is_named(place: Path) -> None:
    """The same for the directory."""
    zygote = Zygote(directory=place / "nowhere")
    with pytest.raises(SandboxError, match=r"FileNotFoundError: .*nowhere"):
        await zygote.__aenter__()


async def test_an_interpreter_that_is_missing_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the program."""
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(SandboxError, match="cannot start the warm process /no/python"):
        await make_zygote(place).__aenter__()


async def test_a_fork_that_fails_may_be_tried_again(place: Path) -> None:
    """No room is a transient condition, and says so."""
    async with make_zygote(place) as zygote:
        own = place / names(place)[0]
        own.rename(place / "moved")
        with pytest.raises(Transient, match=r"cannot fork a sandbox: .*No such file"):
            await zygote.fork()
        (place / "moved").rename(own)
        assert (await grade(zygote, "")).passed
        assert zygote.statistics().alive == 0


# --- cancelling and closing -------------------------------------------------------

# Whether the zygote has answered, and how often the loop goes round before the cancel.
MOMENTS = [*((False, count) for count in range(3)), *((True, count) for count in range(6))]


async def test_a_cancelled_fork_leaves_no_sandbox(place: Path) -> None:
    """S2: whether it was not asked for yet, being made, made, or on its way here."""
    async with make_zygote(place) as zygote:
        cancelled: list[bool] = []
        for answered, count in MOMENTS:
            task = asyncio.create_task(zygote.fork())
            if answered:
                await ticks(1)
                block_the_loop()
            await ticks(count)
            task.cancel()
            await asyncio.wait([task])
            cancelled.append(task.cancelled())
            if not task.cancelled():
                await task.result().close()
            await until_alive(zygote, 0)
            assert processes(place) in ([], [zygote.pid]), (answered, count)
        assert True in cancelled[3:]  # a sandbox had been made, and
        assert cancelled[-1] is False  # here is one that came through


async def test_a_cancelled_run_leaves_no_process(place: Path) -> None:
    """S2: whether it was not handed over yet, running, ended, or on its way here."""
    async with make_zygote(place) as zygote:
        cancelled: list[bool] = []
        for answered, count in MOMENTS:
            sandbox = await zygote.fork()
            task = asyncio.create_task(sandbox.run("" if answered else SLEEPER))
            if answered:
                await ticks(1)
                block_the_loop()
            await ticks(count)
            task.cancel()
            await asyncio.wait([task])
            cancelled.append(task.cancelled())
            if not task.cancelled():
                assert task.result().passed
            if (answered, count) != MOMENTS[0]:  # there it had not begun
                await until_alive(zygote, 0)  # though nobody has closed it
            await sandbox.close()
            assert processes(place) in ([], [zygote.pid]), (answered, count)
        assert cancelled[:3] == [True] * 3
        assert True in cancelled[3:]
        assert cancelled[-1] is False


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01, 0.03, 0.06, 0.1])
async def test_a_cancelled_start_leaves_nothing(place: Path, seconds: float) -> None:
    """The process may be about to start, starting, or importing."""
    zygote = make_zygote(place)
    task = asyncio.create_task(zygote.__aenter__())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        await zygote.__aexit__(None, None, None)


async def test_a_cancelled_end_is_an_end_all_the_same(place: Path) -> None:
    """S3: the first cancel is raised when all is gone."""
    zygote = make_zygote(place)
    await zygote.__aenter__()
    await zygote.fork()
    task = asyncio.create_task(zygote.__aexit__(None, None, None))
    await ticks(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert processes(place) == []
    assert names(place) == []


async def test_closing_ends_a_run(place: Path) -> None:
    """By several at once, of which one is cancelled; and again."""
    async with make_zygote(place) as zygote:
        sandbox = await zygote.fork()
        run = asyncio.create_task(sandbox.run(SLEEPER))
        await ticks(3)
        assert repr(sandbox) == "<Sandbox 1 running>"
        closers = [asyncio.create_task(sandbox.close()) for _ in range(3)]
        await ticks(1)
        assert repr(sandbox) == "<Sandbox 1 closing>"
        closers[0].cancel()
        with pytest.raises(Closed, match="sandbox 1 is closed"):
            await run
        await asyncio.gather(*closers[1:])
        await sandbox.close()
        assert repr(sandbox) == "<Sandbox 1 closed>"
        with pytest.raises(UsageError):
            await sandbox.run("")
        unused = await zygote.fork()
        assert repr(unused) == "<Sandbox 2 ready>"
        await unused.close()
        with pytest.raises(Closed, match="sandbox 2 is closed"):
            await unused.run("")


@needs_proc
async def test_a_sandbox_that_dies_before_its_program_says_so(place: Path) -> None:
    """It is no verdict on a program that never began."""
    async with make_zygote(place) as zygote:
        sandbox = await zygote.fork()
        (pid,) = [pid for pid in processes(place) if pid != zygote.pid]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Transient, match="died before its program began"):
            await sandbox.run("")


async def test_misuse_is_refused(place: Path) -> None:
    """S1, and a zygote is entered once."""
    zygote = make_zygote(place)
    assert repr(zygote) == "<Zygote not started>"
    for ask in (lambda: zygote.protections, lambda: zygote.pid):
        with pytest.raises(UsageError, match="has to be entered first"):
            ask()
    with pytest.raises(UsageError, match="has to be entered first"):
        await zygote.fork()
    async with zygote:
        sandbox = await zygote.fork()
        assert (await sandbox.run("")).passed
        assert repr(zygote) in ("<Zygote 1 alive>", "<Zygote 0 alive>")
        with pytest.raises(UsageError, match="has run its program; fork another sandbox"):
            await sandbox.run("")
        with pytest.raises(UsageError, match="was entered before"):
            await zygote.__aenter__()


async def test_the_loop_is_never_blocked(place: Path) -> None:
    """Neither by a fork, nor by a run, nor by closing."""
    async with make_zygote(place) as zygote:
        with blockbuster_ctx():
            assert (await grade(zygote, "open('file', 'w').close()")).passed


# --- the small machines -----------------------------------------------------------

FACTS = Facts(
    begun=True,
    report=None,
    killed="",
    status=0,
    seconds=1.0,
    cpu_seconds=0.5,
    output="",
    truncated=False,
)


@pytest.mark.parametrize(
    ("changes", "kind", "detail"),
    [
        ({"report": ["passed", "0", ""], "status": -9}, "passed", ""),
        ({"report": ["passed", "0", ""], "killed": "wall", "status": -9}, "passed", ""),
        ({"report": ["nonsense", "x", "y"], "status": 3}, "crashed", "status 3"),
        ({"killed": "wall", "status": -9}, "timeout", "still running after 5 s"),
        ({"status": -int(signal.SIGXCPU)}, "timeout", "used 10 s of processor time"),
        ({"status": -9, "cpu_seconds": 9.9}, "timeout", "used 10 s of processor time"),
        ({"status": -9}, "crashed", "out of memory"),
        ({"status": -40}, "crashed", "signal 40"),
    ],
)
def test_a_verdict_follows_from_the_facts(
    changes: dict[str, object], kind: str, detail: str
) -> None:
    """A report comes first; one that is none does not count."""
    facts: Facts = {**FACTS, **changes}  # type: ignore[typeddict-item]
    verdict = judge(facts, Limits())
    assert verdict.kind == kind
    assert detail in verdict.detail


def test_frames_survive_any_cut() -> None:
    """However the stream is cut, the payloads come out whole and in order."""
    payloads = [b"", b"a", bytes(300)]
    stream = b"".join(_zygote.frame(payload) for payload in payloads)
    chance = random.Random(7)  # noqa: S311 - a seeded test
    for _ in range(50):
        inbox, got, rest = bytearray(), list[bytes](), stream
        while rest:
            cut = chance.randint(1, 20)
            inbox += rest[:cut]
            rest = rest[cut:]
            got += _zygote.take_frames(inbox)
        assert (got, bytes(inbox)) == (payloads, b"")


def test_sandbox_errors_are_the_machinery_s() -> None:
    """A caller tells them from verdicts and from mistakes of his own."""
    assert issubclass(SandboxError, MillpondError)
    assert issubclass(SandboxError, RuntimeError)
    assert not issubclass(SandboxError, UsageError)
