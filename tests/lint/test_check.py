"""Files, exceptions from the rules, and what cannot be read."""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import millpond
from millpond.errors import InputError
from millpond.lint import RULES, check_file, check_source, python_files

SOURCE = Path(millpond.__file__).parent
STANDARD = Path(asyncio.__file__).parent
BLOCKING = """\
import time
async def pause():
    time.sleep(1){}
"""


def rules(source: str, *only: str) -> list[str]:
    """Return the rules that found something, in the order of the lines."""
    return [found.rule for found in check_source(source, rules=only or None)]


# -- What is found


def test_a_finding_says_where_what_why_and_what_to_do() -> None:
    """All five, each of the sentences one sentence."""
    (found,) = check_source(BLOCKING.format(""), path="job.py")
    assert (found.path, found.line, found.column) == ("job.py", 3, 5)
    assert (found.rule, found.what) == ("blocking-call", "`time.sleep` blocks the event loop")
    assert found.facts() == {
        "path": "job.py",
        "line": 3,
        "column": 5,
        "rule": found.rule,
        "what": found.what,
        "why": found.why,
        "mend": found.mend,
    }


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_why_and_mend_are_a_sentence_each(rule: object) -> None:
    """Begun with a capital, ended with a full stop."""
    for text in (getattr(rule, "why"), getattr(rule, "mend")):  # noqa: B009 - ids are untyped
        assert text[0].isupper()
        assert text.endswith(".")
        assert ". " not in text


def test_findings_come_in_the_order_of_the_lines() -> None:
    """Whatever rule they are of."""
    source = "import asyncio, time\nasync def f():\n    time.sleep(1)\n    asyncio.Semaphore(1)\n"
    source += "    open('x')\n"
    assert [found.line for found in check_source(source)] == [3, 4, 5]


def test_only_the_rules_that_were_asked_for_are_run() -> None:
    """An unknown one is the caller's mistake."""
    source = "import asyncio, time\nasync def f():\n    time.sleep(1)\n    asyncio.Semaphore(1)\n"
    assert rules(source, "banned-primitive") == ["banned-primitive"]
    assert rules(source, "poll-stop") == []
    with pytest.raises(KeyError):
        check_source(source, rules=["no-such-rule"])


def test_a_poll_names_what_others_can_change() -> None:
    """Not the member of an enumeration that it is compared with."""
    source = "import asyncio\nasync def f(box):\n    while box.status == Status.starting:\n"
    (found,) = check_source(source + "        await asyncio.sleep(1)\n")
    assert found.what.startswith("`box.status` is looked at")


# -- Exceptions


def test_an_allow_with_a_reason_silences_its_rule_in_its_line() -> None:
    """Beside other comments, and several rules at once."""
    assert rules(BLOCKING.format("  # millpond: allow blocking-call - measured")) == []
    assert (
        rules(BLOCKING.format("  # noqa: X - y  # millpond: allow blocking-call - measured")) == []
    )
    both = "import asyncio, time\nasync def f():\n    time.sleep(asyncio.Semaphore(1))"
    allow = "  # millpond: allow blocking-call, banned-primitive - a test of both"
    assert rules(both) == ["blocking-call", "banned-primitive"]
    assert rules(both + allow) == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# millpond: allow blocking-call", ["blocking-call", "bad-allow"]),
        ("# millpond: allow blocking-call -", ["blocking-call", "bad-allow"]),
        ("# millpond: allow blocking-call because", ["blocking-call", "bad-allow"]),
        ("# millpond: allow", ["blocking-call", "bad-allow"]),
        ("# millpond: allow no-such-rule - reason", ["blocking-call", "bad-allow"]),
        ("# millpond: allow poll-stop - reason", ["blocking-call", "unused-allow"]),
        ("# millpond: allow blocking-call, poll-stop - reason", ["unused-allow"]),
        ("# millpond: notes", ["blocking-call"]),
    ],
)
def test_an_allow_that_is_no_good_is_a_finding(comment: str, expected: list[str]) -> None:
    """Without a reason, of nothing, or of what is not there."""
    assert rules(BLOCKING.format(f"  {comment}")) == expected


def test_an_allow_is_unused_only_where_its_rule_was_run() -> None:
    """A run of one rule says nothing about the exceptions from the others."""
    allowed = BLOCKING.format("  # millpond: allow blocking-call - measured")
    assert rules(allowed, "poll-stop") == []
    assert rules(allowed.replace("time.sleep(1)", "pass"), "blocking-call") == ["unused-allow"]


def test_a_text_that_looks_like_an_allow_is_none() -> None:
    """Only comments count."""
    assert rules("text = '# millpond: allow blocking-call'\n") == []


def test_an_allow_may_stand_at_any_line_of_a_long_statement_but_not_in_a_block() -> None:
    """Of a block, the head is what is reported."""
    call = "import time\nasync def f():\n    time.sleep(\n        1,\n    ){}\n"
    assert rules(call.format("  # millpond: allow blocking-call - measured")) == []
    block = "async def f(my_lock):\n    with my_lock:{}\n        await g(){}\n"
    allow = "  # millpond: allow lock-across-await - alone"
    assert rules(block.format(allow, "")) == []
    assert rules(block.format("", allow)) == ["lock-across-await", "unused-allow"]


# -- What cannot be read


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"def f(:\n", "is not Python"),
        (b"x = 1\n\tasync y\n", "is not Python"),
        (b"print 'old'\n", "is not Python"),
        (b"# coding: uft-8\n", "cannot be decoded"),
        (b"x = '\xff'\n", "cannot be decoded"),
        (b"x = 1\x00\n", "is not Python"),
    ],
)
def test_what_is_not_python_is_a_finding(tmp_path: Path, content: bytes, said: str) -> None:
    """Not an error: the other files are checked all the same."""
    (tmp_path / "bad.py").write_bytes(content)
    (found,) = check_file(tmp_path / "bad.py")
    assert found.rule == "unreadable"
    assert said in found.what or "cannot be parsed" in found.what
    assert found.line >= 1


def test_a_file_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    """As when an editor removes it meanwhile, or it cannot be opened."""
    (found,) = check_file(tmp_path / "gone.py")
    assert found.what == "the file cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbfimport asyncio\r\nlimit = asyncio.Semaphore(1)\r\n",
        "# coding: latin-1\nimport asyncio  # \u00fc\nlimit = asyncio.Semaphore(1)\n".encode(
            "latin-1"
        ),
        b"import asyncio\n" + b"x = (" + b"1 + " * 900 + b"1)\nasync def f(): pass\n",
    ],
    ids=["empty", "bom and crlf", "latin-1", "long expression"],
)
def test_unusual_files_are_read(tmp_path: Path, content: bytes) -> None:
    """A byte order mark, other encodings, deep trees."""
    (tmp_path / "a.py").write_bytes(content)
    found = check_file(tmp_path / "a.py")
    assert [it.rule for it in found] == ["banned-primitive"] * content.count(b"Semaphore")


def test_pieces_of_programs_do_not_crash_it() -> None:
    """Lines left out at random: whatever is still Python is checked to its end."""
    chance = random.Random(7)  # noqa: S311 - no secret
    files = [*SOURCE.glob("sync/*.py"), STANDARD / "locks.py", STANDARD / "queues.py"]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    seen: Counter[str] = Counter()
    for _ in range(60):
        start = chance.randrange(len(lines))
        piece = "\n".join(line for line in lines[start : start + 40] if chance.random() < 0.9)
        for wrapped in (
            piece,
            "async def f():\n" + "\n".join(f" {it}" for it in piece.split("\n")),
        ):
            seen.update(found.rule for found in check_source(wrapped) or [])
    assert set(seen) <= {*RULES, "unreadable"}


# -- Which files


def test_folders_are_walked_without_what_others_have_written(tmp_path: Path) -> None:
    """Hidden folders, environments and node_modules are skipped; files come once, sorted."""
    for name in (
        "b.py",
        "a.py",
        "pkg/c.py",
        ".hidden/d.py",
        "node_modules/e.py",
        "env/lib/f.py",
        "__pycache__/g.py",
        "text.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    found = python_files([tmp_path, tmp_path / "a.py"])
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a.py", "b.py", "pkg/c.py"]
    named = python_files([tmp_path / ".hidden", tmp_path / "text.txt"])
    assert [path.name for path in named] == ["d.py", "text.txt"]


def test_a_path_that_is_not_there_and_a_folder_without_python_are_refused(tmp_path: Path) -> None:
    """Nothing checked must not look like nothing found."""
    with pytest.raises(InputError, match="no such file or folder"):
        python_files([tmp_path / "gone"])
    with pytest.raises(InputError, match="no Python file to check"):
        python_files([tmp_path])


def test_a_link_that_turns_in_a_circle_ends(tmp_path: Path) -> None:
    """Links to folders are not followed."""
    (tmp_path / "a.py").touch()
    (tmp_path / "round").symlink_to(tmp_path)
    assert [path.name for path in python_files([tmp_path])] == ["a.py"]


# -- Real code


def test_our_own_source_is_clean_and_quickly_checked() -> None:
    """No finding, no exception without need; under 2 s of the processor."""
    began = time.process_time()
    findings = [found for path in python_files([SOURCE]) for found in check_file(path)]
    assert findings == []
    assert time.process_time() - began < 4  # twice the promise: coverage and old machines


def test_asyncio_itself_is_read_without_a_crash_and_nearly_without_a_word() -> None:
    """Good code is met with silence: what is found there is of two known kinds."""
    findings = [found for path in python_files([STANDARD]) for found in check_file(path)]
    assert {found.rule for found in findings} <= {"unbounded-finally", "blocking-call"}
    assert len(findings) < 10


MUTATIONS = [
    (
        "sync/_latch.py",
        "            self._ready = True\n            self._changed.notify_waiters()",
        "            self._changed.notify_waiters()\n            self._ready = True",
        "notify-before-publish",
    ),
    (
        "sync/_latch.py",
        "await wait_until_or_raise(self._changed, stop, self.is_ready)",
        "if not self._ready:\n            await self._changed.notified()",
        "check-once",
    ),
    (
        "sync/_latch.py",
        "await wait_until_or_raise(self._changed, stop, self.is_ready)",
        "while not self._ready:\n            await self._changed.notified()",
        "copied-loop",
    ),
    (
        "cli/_run.py",
        "await asyncio.wait({self._display}, timeout=DISPLAY_SECONDS)",
        "await asyncio.wait({self._display})",
        "unbounded-finally",
    ),
    (
        "_base/_parking.py",
        "await asyncio.wait(helpers, timeout=HELPER_GRACE_SECONDS)",
        "await asyncio.wait(helpers)",
        "unbounded-finally",
    ),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "rule"), MUTATIONS, ids=[f"{it[0]}-{it[3]}" for it in MUTATIONS]
)
def test_our_own_source_made_worse_is_found(name: str, old: str, new: str, rule: str) -> None:
    """The silence above is not blindness."""
    source = (SOURCE / name).read_text(encoding="utf-8")
    assert source.count(old) == 1
    assert rules(source.replace(old, new)) == [rule]
