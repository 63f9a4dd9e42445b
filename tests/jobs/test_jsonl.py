"""JSON Lines: what is given out, what is set aside, what is refused."""

import asyncio
import gzip
import json
import os
import random
import threading
from pathlib import Path

import pytest

from millpond.errors import InputError, UsageError
from millpond.jobs._jsonl import BATCH_LINES, JsonLines, SetAside

Rows = list[dict[str, object]]


def write(folder: Path, data: str | bytes, name: str = "rows.jsonl") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def read(path: Path, *required: str) -> tuple[Rows, list[SetAside]]:
    """Read a file whole."""
    lines = JsonLines(path, required=required)
    return await lines.read_all(), lines.set_aside


def count_open() -> int:
    """Return how many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def reading_threads() -> list[threading.Thread]:
    """Return the threads that read now."""
    return [t for t in threading.enumerate() if t.name == "millpond-offload-fill"]


async def refusal(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(InputError) as caught:
        await read(path)
    assert caught.value.where == str(path)
    assert caught.value.hint
    return str(caught.value)


async def test_objects_come_in_their_order(tmp_path: Path) -> None:
    """Across batches, with the number of the line beside each."""
    count = 2 * BATCH_LINES + 7
    path = write(tmp_path, "".join(f'{{"n": {n}}}\n' for n in range(count)))
    lines = JsonLines(path)
    seen = [(lines.line, row["n"]) async for row in lines]
    assert seen == [(n + 1, n) for n in range(count)]
    assert lines.set_aside == []


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl"])
async def test_gzip_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    """The name says nothing."""
    path = write(tmp_path, gzip.compress(b'{"a": 1}\n') + gzip.compress(b'{"a": 2}'), name)
    assert (await read(path))[0] == [{"a": 1}, {"a": 2}]


async def test_a_plain_file_may_be_called_gz(tmp_path: Path) -> None:
    """The name says nothing, in this direction too."""
    assert (await read(write(tmp_path, '{"a": 1}', "rows.gz")))[0] == [{"a": 1}]


async def test_crlf_byte_order_mark_and_blank_lines_are_tolerated(tmp_path: Path) -> None:
    """They are not set aside either, and line numbers count them."""
    path = write(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \r\n{"a": 2}\r\n')
    lines = JsonLines(path)
    assert [(lines.line, row["a"]) async for row in lines] == [(1, 1), (4, 2)]
    assert lines.set_aside == []


async def test_bad_lines_are_set_aside_with_number_and_reason(tmp_path: Path) -> None:
    """One bad line costs one line."""
    bad = [
        b"{oops}",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"true",
        b"12",
        b'{"task_id": "x"}',
        b'{"task_id": "\xff", "n": 1}',
        b'{"task_id": "x", "n": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ]
    good = b'{"task_id": "a", "n": 1, "more": []}'
    path = write(tmp_path, b"\n".join([good, *bad, good]))
    rows, set_aside = await read(path, "task_id", "n")
    assert rows == [json.loads(good)] * 2
    assert [entry.line for entry in set_aside] == list(range(2, 2 + len(bad)))
    reasons = [entry.reason for entry in set_aside]
    assert reasons[0].startswith("not JSON: Expecting property name")
    assert "at column 2, in '{oops}'" in reasons[0]
    assert reasons[1:6] == [
        f"expected a JSON object, got {kind}"
        for kind in ("an array", "a string", "null", "true", "a number")
    ]
    assert reasons[6] == "lacks 'n'; its fields: 'task_id'"
    assert reasons[7] == "not UTF-8: byte 0xff at position 14"
    assert reasons[8].startswith("not usable JSON: ")
    assert reasons[9].startswith("not usable JSON: ")
    assert str(set_aside[6]) == f"{path}:8: {reasons[6]}"


async def test_a_long_bad_line_is_quoted_in_part(tmp_path: Path) -> None:
    """A message stays one that a person reads."""
    path = write(tmp_path, '{"a": 1}\n' + "x" * 10_000)
    _, set_aside = await read(path)
    assert len(set_aside[0].reason) < 120
    assert set_aside[0].reason.endswith("...'")


async def test_the_caller_may_refuse_what_it_was_given(tmp_path: Path) -> None:
    """A refused object is set aside in its place, and no longer counts as good."""
    lines = JsonLines(write(tmp_path, '{"a": 1}\n[]\n{"a": 2}\n'))
    with pytest.raises(UsageError):
        lines.refuse("nothing was given out yet")
    for _ in range(2):
        await anext(lines)
        lines.refuse("too small")
        with pytest.raises(UsageError):
            lines.refuse("twice")
    with pytest.raises(InputError, match=r"no usable line among 3; line 1: too small"):
        await anext(lines)
    assert [entry.line for entry in lines.set_aside] == [1, 2, 3]


@pytest.mark.parametrize("data", [b"", b"\n \r\n\n", gzip.compress(b""), b"\xef\xbb\xbf"])
async def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    """Blank lines alone are nothing, zipped or not."""
    assert "got an empty file" in await refusal(write(tmp_path, data))


async def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """And the message names it."""
    assert "nowhere.jsonl: no such file" in await refusal(tmp_path / "nowhere.jsonl")


async def test_a_directory_is_refused(tmp_path: Path) -> None:
    """And the message says what it is."""
    assert "expected a file, got a directory" in await refusal(tmp_path)


async def test_any_other_failure_to_open_is_refused(tmp_path: Path) -> None:
    """With the system's own words."""
    message = await refusal(write(tmp_path, "{}") / "below")
    assert "cannot be read: Not a directory" in message


async def test_a_file_without_a_good_line_is_refused(tmp_path: Path) -> None:
    """With the reason for the first line, which stands for the rest."""
    message = await refusal(write(tmp_path, "a,b\n1,2\n"))
    assert "no usable line among 2; line 1: not JSON: Expecting value" in message


@pytest.mark.parametrize("damage", ["cut short", "scrambled", "followed by something else"])
async def test_a_broken_gzip_is_refused(tmp_path: Path, damage: str) -> None:
    """After the lines that could be read, once for every later call."""
    dice = random.Random(1)  # noqa: S311 - what does not compress well
    text = "".join(f'{{"n": {n}, "salt": "{dice.getrandbits(160)}"}}\n' for n in range(5000))
    whole = gzip.compress(text.encode())
    data = {
        "cut short": whole[:-1000],
        "scrambled": whole[:-1000] + bytes(500) + whole[-500:],
        "followed by something else": whole + b"{}\n",
    }[damage]
    lines = JsonLines(write(tmp_path, data))
    # Beyond that, a damaged stream may yield nonsense before its checksum tells.
    assert [(await anext(lines))["n"] for _ in range(1000)] == list(range(1000))
    with pytest.raises(InputError, match=r"broken gzip after line \d+: ") as caught:
        await lines.read_all()
    with pytest.raises(InputError) as again:
        await anext(lines)
    assert again.value is caught.value


async def test_the_end_is_the_end(tmp_path: Path) -> None:
    """A pass is over once; a new one needs a new object."""
    lines = JsonLines(write(tmp_path, "{}"))
    assert await lines.read_all() == [{}]
    with pytest.raises(UsageError):
        lines.refuse("too late: the next one was asked for")
    assert await lines.read_all() == []


async def test_a_cancelled_call_loses_no_line(tmp_path: Path) -> None:
    """What its thread reads is there for the next call, once and in order."""
    fifo = tmp_path / "rows"
    os.mkfifo(fifo)
    lines = JsonLines(fifo)
    for left in (1, 2):  # each leaves a thread that waits for somebody to write
        reading = asyncio.create_task(anext(lines))
        while True:
            await asyncio.sleep(0)
            if len(reading_threads()) == left:
                break
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    writer = threading.Thread(target=fifo.write_text, args=('{"n": 1}\n{"n": 2}\n',))
    writer.start()
    assert [row["n"] async for row in lines] == [1, 2]
    for thread in (writer, *reading_threads()):
        thread.join()


async def test_the_loop_goes_on_while_a_file_is_read(tmp_path: Path) -> None:
    """A file that does not come to the point blocks its reader only."""
    fifo = tmp_path / "rows"
    os.mkfifo(fifo)
    reading = asyncio.create_task(JsonLines(fifo).read_all())
    turns = 0
    while turns < 100:
        await asyncio.sleep(0)
        turns += 1
    assert not reading.done()
    writer = threading.Thread(target=fifo.write_text, args=('{"n": 1}\n',))
    writer.start()
    assert await reading == [{"n": 1}]
    writer.join()


async def test_a_file_that_is_left_early_is_closed(tmp_path: Path) -> None:
    """As soon as the iterator is dropped; otherwise this test ends with a warning."""
    path = write(tmp_path, '{"n": 1}\n' * (2 * BATCH_LINES))
    before = count_open()
    lines = JsonLines(path)
    await anext(lines)
    assert count_open() == before + 1
    for thread in reading_threads():
        thread.join()  # it answered, but may hold the file a moment longer
    del lines
    assert count_open() == before


async def test_a_file_is_not_held_whole(tmp_path: Path) -> None:
    """Reading ahead is bounded by lines and by bytes."""
    path = write(tmp_path, ('{"text": "' + "x" * 100_000 + '"}\n') * 100)
    lines = JsonLines(path)
    await anext(lines)
    ahead = lines._reader.ready  # there is no public view of it
    assert len(ahead) < 15
