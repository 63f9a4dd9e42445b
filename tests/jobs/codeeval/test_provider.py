"""The embedded provider: invariants E1-E4, seen from the other end of a socket."""

import asyncio
import json
import resource
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from urllib.parse import urlsplit

import pytest
from blockbuster import blockbuster_ctx

from millpond.errors import UsageError
from millpond.jobs.codeeval._answers import AnswerBook
from millpond.jobs.codeeval._problems import Problem, extract_completion, load_problems
from millpond.jobs.codeeval._provider import (
    MAX_BODY_BYTES,
    EmbeddedProvider,
    Fault,
    ProviderStatistics,
    _Temper,  # what is drawn has no other view, except over thousands of requests
)


@dataclass
class Reply:
    """What came over one connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        """The error in an error's body."""
        found: dict[str, object] = json.loads(self.body)["error"]
        return found

    @property
    def text(self) -> str:
        """The text of a completion."""
        text: str = json.loads(self.body)["choices"][0]["message"]["content"]
        return text


def address(provider: EmbeddedProvider) -> tuple[str, int]:
    """Return the provider's host and port."""
    parts = urlsplit(provider.base_url)
    assert parts.hostname == "127.0.0.1"
    assert parts.port
    return parts.hostname, parts.port


def render(
    provider: EmbeddedProvider,
    body: object,
    *,
    target: str = "POST /v1/chat/completions",
    key: str | None = None,
    connection: str = "close",
) -> bytes:
    """Return the bytes of a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"{target} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(content)}\r\n"
        f"Authorization: Bearer {provider.key if key is None else key}\r\n"
        f"Connection: {connection}\r\n\r\n"
    )
    return head.encode() + content


def question(provider: EmbeddedProvider, problem: Problem, sample: int = 0) -> dict[str, object]:
    """Return the body that asks for a sample."""
    message = {"role": "user", "content": problem.question}
    return {"model": provider.model, "messages": [message], "seed": sample}


async def receive(reader: asyncio.StreamReader) -> Reply:
    """Read one answer; raises IncompleteReadError when it ends too early."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(head[0].split()[1]), headers, body)


async def send(provider: EmbeddedProvider, request: bytes) -> Reply:
    """Send bytes over a connection of their own and return the answer."""
    reader, writer = await asyncio.open_connection(*address(provider))
    try:
        writer.write(request)
        return await receive(reader)
    finally:
        writer.close()


async def attempt(provider: EmbeddedProvider, problem: Problem, sample: int = 0) -> Reply | Fault:
    """Ask once; return the answer, or the fault as a client sees it."""
    try:
        reply = await send(provider, render(provider, question(provider, problem, sample)))
    except ConnectionResetError:
        return Fault.RESET
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            raise  # an end without a reset, and without any body: no fault of ours
        return Fault.HALF_BODY
    if reply.status == 429:
        assert reply.headers["retry-after"] in ("0", "1")
        return Fault.RATE_LIMITED
    if reply.status == 500:
        return Fault.SERVER_ERROR
    assert reply.status == 200
    return reply


async def until(provider: EmbeddedProvider, **expected: object) -> ProviderStatistics:
    """Wait until the statistics say so; the test's deadline bounds it."""
    while True:
        now = provider.statistics()
        if all(getattr(now, name) == value for name, value in expected.items()):
            return now
        await asyncio.sleep(0)


def books_balance(now: ProviderStatistics) -> bool:
    """E3: every request is answered, failed, left or in flight."""
    ended = now.answers + sum(now.faults.values()) + now.disconnects
    return now.requests == ended + now.in_flight


def quick(problems: Iterable[Problem], *, n: int = 1, fault_rate: float = 0.0) -> EmbeddedProvider:
    """Return a provider that answers at once."""
    return EmbeddedProvider(AnswerBook(problems, n=n), mean_seconds=0.0, fault_rate=fault_rate)


async def slow() -> tuple[EmbeddedProvider, tuple[Problem, ...]]:
    """Return a provider that takes its time, and its problems."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    return EmbeddedProvider(book, mean_seconds=1000.0, fault_rate=0.0), problems


async def test_it_says_what_the_book_says() -> None:
    """Every completion arrives, bare or in a code block, and both forms occur."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems, n=2)
    forms: set[bool] = set()
    async with EmbeddedProvider(book, mean_seconds=0.0, fault_rate=0.0) as provider:
        for problem in problems:
            for sample in range(2):
                reply = await attempt(provider, problem, sample)
                assert isinstance(reply, Reply)
                wrapped = "```" in reply.text
                forms.add(wrapped)
                completion = book.answer(problem.task_id, sample).completion
                code = extract_completion(reply.text, problem)
                whole = problem.prompt + completion
                assert code.strip() == (whole if wrapped else completion).strip()
        now = provider.statistics()
    assert forms == {True, False}
    assert now.requests == now.answers == 48
    assert now.delivered == {(p.task_id, s): 1 for p in problems for s in range(2)}


async def test_the_third_attempt_is_answered() -> None:
    """E2: even when every attempt that may fail does, and each fault occurs."""
    problems = (await load_problems()).problems
    async with quick(problems, fault_rate=1.0) as provider:
        for problem in problems:
            for _ in range(2):
                assert isinstance(await attempt(provider, problem), Fault)
            for _ in range(2):
                assert isinstance(await attempt(provider, problem), Reply)
        now = provider.statistics()
    assert set(now.faults) == set(Fault)
    assert sum(now.faults.values()) == 48
    assert now.answers == 48
    assert now.disconnects == 0
    assert books_balance(now)


async def test_the_default_seed_meets_every_fault() -> None:
    """With the problems that come along, at one sample each."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    async with EmbeddedProvider(book, mean_seconds=0.0) as provider:
        for problem in problems:
            attempts = 1
            while isinstance(await attempt(provider, problem), Fault):
                attempts += 1
            assert attempts <= 3
        now = provider.statistics()
    assert set(now.faults) == set(Fault)
    assert now.answers == 24


async def test_faults_depend_on_the_seed_and_not_on_the_order() -> None:
    """E1: asked backwards, or all at once, each attempt ends as before."""
    problems = (await load_problems()).problems

    async def faults(order: Iterable[Problem], seed: int) -> dict[str, list[object]]:
        book = AnswerBook(problems)
        seen: dict[str, list[object]] = {}
        async with EmbeddedProvider(book, seed=seed, mean_seconds=0.0, fault_rate=0.5) as provider:
            for problem in order:
                ends = [await attempt(provider, problem) for _ in range(3)]
                seen[problem.task_id] = [e if isinstance(e, Fault) else None for e in ends]
        return seen

    forwards = await faults(problems, 7)
    assert await faults(problems[::-1], 7) == forwards
    assert await faults(problems, 8) != forwards


def test_latency_is_log_normal_with_the_mean_that_was_asked_for() -> None:
    """Its median is lower than its mean, and nothing takes no time at all."""
    temper = _Temper(seed=1, mean_seconds=0.25, patience=1.0, fault_rate=0.2)
    delays = sorted(temper.draw((f"t/{n}", 0), 1)[0] for n in range(4000))
    assert 0.24 < fmean(delays) < 0.26
    assert 0.19 < delays[2000] < 0.23
    assert delays[0] > 0.0
    failed = [temper.draw((f"t/{n}", 0), 2)[1] for n in range(4000)]
    assert 0.18 < sum(fault is not None for fault in failed) / 4000 < 0.22


def test_speed_shortens_the_wait_that_a_limit_asks_for() -> None:
    """At ordinary speed some are asked to wait for a second; hurried, nobody is."""

    def waits(patience: float) -> set[int]:
        temper = _Temper(seed=1, mean_seconds=0.1, patience=patience, fault_rate=1.0)
        return {temper.draw((f"t/{n}", 0), 1)[2] for n in range(50)}

    assert waits(1.0) == {0, 1}
    assert waits(0.1) == {0}


async def test_models_are_listed() -> None:
    """For clients that look before they ask."""
    async with quick([]) as provider:
        reply = await send(provider, render(provider, b"", target="GET /v1/models"))
    listing = json.loads(reply.body)
    assert reply.status == 200
    assert [model["id"] for model in listing["data"]] == [provider.model]


@pytest.mark.parametrize(
    ("change", "status", "code", "message"),
    [
        ({"key": "wrong"}, 401, "invalid_api_key", "incorrect API key provided"),
        ({"key": ""}, 401, "invalid_api_key", "incorrect API key provided"),
        ({"target": "POST /v1/completions"}, 404, None, "unknown URL: POST /v1/completions"),
        ({"target": "GET /v1/chat/completions"}, 405, None, "is for POST only"),
        ({"body": b"{"}, 400, None, "the body is not JSON"),
        ({"body": b"\xff"}, 400, None, "the body is not JSON"),
        ({"body": b"[]"}, 400, None, "expected a JSON object"),
        ({"model": 7}, 400, None, "'model' must be a string"),
        ({"model": "other"}, 404, "model_not_found", "the model 'other' does not exist"),
        ({"messages": []}, 400, None, "holds no prompt of a known problem"),
        ({"messages": 3}, 400, None, "holds no prompt of a known problem"),
        ({"messages": [1, {"role": "user", "content": [2]}]}, 400, None, "holds no prompt"),
        ({"seed": 1}, 400, None, "'seed' is the number of a sample, from 0 to 0; got 1"),
        ({"seed": "0"}, 400, None, "got '0'"),
        ({"stream": True}, 400, None, "not streamed"),
    ],
)
async def test_what_is_not_in_order_is_refused(
    change: dict[str, object], status: int, code: str | None, message: str
) -> None:
    """In the protocol's own form, and not counted as a request."""
    problems = (await load_problems()).problems
    async with quick(problems) as provider:
        body = question(provider, problems[0])
        body |= {name: change[name] for name in change if name not in ("key", "target", "body")}
        key, target = change.get("key"), change.get("target", "POST /v1/chat/completions")
        assert key is None or isinstance(key, str)
        assert isinstance(target, str)
        request = render(provider, change.get("body", body), target=target, key=key)
        reply = await send(provider, request)
        now = provider.statistics()
    assert reply.status == status
    assert reply.headers["content-type"] == "application/json"
    assert reply.error["code"] == code
    assert message in str(reply.error["message"])
    assert now.refused == {status: 1}
    assert now.requests == 0


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"What is the time?\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000, 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"10000\r\n" * 1
            + (b"x" * 0x10000 + b"\r\n10000\r\n") * (MAX_BODY_BYTES // 0x10000 + 1),
            413,
        ),
    ],
)
async def test_what_is_no_http_ends_its_connection(request_bytes: bytes, status: int) -> None:
    """With an answer, and without harm to the next client."""
    problems = (await load_problems()).problems
    async with quick(problems) as provider:
        reader, writer = await asyncio.open_connection(*address(provider))
        writer.write(request_bytes)
        assert (await receive(reader)).status == status
        with suppress(ConnectionResetError):  # it may close on what it has not read
            assert await reader.read() == b""
        writer.close()
        assert isinstance(await attempt(provider, problems[0]), Reply)
        assert provider.statistics().refused == {status: 1}


async def test_head_has_no_body() -> None:
    """The one method whose answer ends with its headers."""
    async with quick([]) as provider:
        reader, writer = await asyncio.open_connection(*address(provider))
        writer.write(render(provider, b"", target="HEAD /v1/models"))
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("mean_seconds", [0.0, 0.002])
async def test_a_connection_serves_many_requests(mean_seconds: float) -> None:
    """One after the other, or sent all at once: answered in order."""
    problems = (await load_problems()).problems[:5]
    book = AnswerBook(problems)
    async with EmbeddedProvider(book, mean_seconds=mean_seconds, fault_rate=0.0) as provider:
        reader, writer = await asyncio.open_connection(*address(provider))
        requests = [
            render(provider, question(provider, problem), connection="keep-alive")
            for problem in problems
        ]
        writer.write(requests[0])
        replies = [await receive(reader)]
        writer.write(b"".join(requests[1:]))
        replies += [await receive(reader) for _ in requests[1:]]
        writer.close()
        now = provider.statistics()
    for problem, reply in zip(problems, replies, strict=True):
        assert problem.canonical_solution.strip().splitlines()[0] in reply.text
    assert now.connections == 1
    assert now.answers == 5


async def test_a_request_may_come_byte_by_byte() -> None:
    """And may ask whether its body is wanted."""
    problems = (await load_problems()).problems
    async with quick(problems) as provider:
        reader, writer = await asyncio.open_connection(*address(provider))
        request = render(provider, question(provider, problems[0]))
        head, _, body = request.partition(b"\r\n\r\n")
        writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        for byte in body:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await receive(reader)).status == 200
        writer.close()


async def test_in_flight_and_peak_are_counted() -> None:
    """E3: at every moment, in flight and afterwards."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems, n=2)
    async with EmbeddedProvider(book, mean_seconds=0.02, fault_rate=0.4) as provider:
        balanced: list[bool] = []

        async def ask(problem: Problem, sample: int) -> None:
            while isinstance(await attempt(provider, problem, sample), Fault):
                balanced.append(books_balance(provider.statistics()))

        async with asyncio.TaskGroup() as group:
            for problem in problems[:10]:
                for sample in range(2):
                    group.create_task(ask(problem, sample))
        now = provider.statistics()
    assert all(balanced)
    assert balanced
    assert books_balance(now)
    assert now.in_flight == 0
    assert 1 <= now.peak_in_flight <= 20
    assert now.answers == len(now.delivered) == 20


async def test_the_peak_is_the_most_at_once() -> None:
    """Whatever came later."""
    provider, problems = await slow()
    async with provider:
        writers: list[asyncio.StreamWriter] = []
        for problem in problems[:4]:
            if len(writers) == 3:
                for writer in writers:
                    writer.close()
                await until(provider, in_flight=0)
            _, writer = await asyncio.open_connection(*address(provider))
            writer.write(render(provider, question(provider, problem)))
            writers.append(writer)
            await until(provider, requests=len(writers))
        now = provider.statistics()
        assert (now.in_flight, now.peak_in_flight) == (1, 3)
        writers[-1].close()


async def test_an_answer_that_is_ready_as_its_client_leaves_is_not_delivered() -> None:
    """The end of the connection and the end of the latency in one turn of the loop."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    async with EmbeddedProvider(book, mean_seconds=0.001, fault_rate=0.0) as provider:
        for round_ in range(1, 6):
            with socket.create_connection(address(provider)) as client:
                client.sendall(render(provider, question(provider, problems[round_])))
                await until(provider, requests=round_)
                if provider.statistics().in_flight == 0:
                    continue  # it was quicker than we are
            late = asyncio.get_running_loop().time() + 0.05
            while asyncio.get_running_loop().time() < late:
                pass  # keep the loop from noticing either
            await until(provider, in_flight=0)
        now = provider.statistics()
    assert now.disconnects > 0
    assert books_balance(now)
    assert now.disconnects + now.answers == 5


async def test_an_answer_is_delivered_with_its_last_byte() -> None:
    """Not as long as the client has not made room for it; leaving then is a disconnect."""
    size = 20_000_000
    problem = Problem("t/0", "def f():\n", "f", "    # " + "x" * size + "\n    return 1\n", "x")
    book = AnswerBook([problem], seed=1)
    assert book.label("t/0", 0).passes
    async with EmbeddedProvider(book, mean_seconds=0.0, fault_rate=0.0) as provider:
        request = render(provider, question(provider, problem))
        for how in ("leave", "stay"):
            reader, writer = await asyncio.open_connection(*address(provider))
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            assert provider.statistics().in_flight == 1
            assert provider.statistics().answers == 0
            if how == "leave":
                writer.transport.abort()
                await until(provider, disconnects=1)
            else:
                assert len(await reader.read()) > size
                assert (await until(provider, in_flight=0)).delivered == {("t/0", 0): 1}
                writer.close()
        assert books_balance(provider.statistics())


async def test_a_code_block_may_hold_a_code_block() -> None:
    """The fence around an answer is longer than any inside it."""
    prompt = 'def f():\n    """Return 1.\n\n```\n>>> f()\n1\n```\n    """\n'
    problem = Problem("t/0", prompt, "f", "    return 1\n", "x")
    book = AnswerBook([problem], n=10)
    wrapped = [s for s in range(10) if book.is_in_chat_form("t/0", s)]
    assert wrapped
    async with quick([problem], n=10) as provider:
        reply = await attempt(provider, problem, wrapped[0])
    assert isinstance(reply, Reply)
    completion = book.answer("t/0", wrapped[0]).completion
    assert extract_completion(reply.text, problem).strip() == (prompt + completion).strip()


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_client_that_leaves_is_noticed_at_once(how: str) -> None:
    """Within 100 ms, long before its answer would have been ready."""
    provider, problems = await slow()
    async with provider:
        loop = asyncio.get_running_loop()
        elapsed: list[float] = []
        for gone in (1, 2, 3):
            _, writer = await asyncio.open_connection(*address(provider))
            writer.write(render(provider, question(provider, problems[0])))
            assert books_balance(await until(provider, in_flight=1))
            began = loop.time()
            if how == "closes":
                writer.close()
            else:
                writer.transport.abort()
            now = await until(provider, disconnects=gone)
            elapsed.append(loop.time() - began)
            assert now.in_flight == 0
            assert now.delivered == {}
            assert books_balance(now)
        assert min(elapsed) < 0.1  # the best of them: the machine may be busy


async def test_an_attempt_that_was_left_counts_as_an_attempt() -> None:
    """E2 is about attempts: a client that gave up twice is answered on its return."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    async with EmbeddedProvider(book, mean_seconds=0.05, fault_rate=1.0) as provider:
        for gone in (1, 2):
            _, writer = await asyncio.open_connection(*address(provider))
            writer.write(render(provider, question(provider, problems[0])))
            now = await until(provider, requests=gone)
            writer.close()
            while now.in_flight:  # a rate limit is told before anybody can leave
                now = await until(provider, in_flight=0)
        assert isinstance(await attempt(provider, problems[0]), Reply)


async def test_leaving_closes_everything_at_once() -> None:
    """E4: waiting clients see the end; nothing listens; no timer or socket is left."""
    provider, problems = await slow()
    async with asyncio.timeout(5):
        async with provider:
            readers: list[asyncio.StreamReader] = []
            writers: list[asyncio.StreamWriter] = []
            for problem in problems[:3]:
                reader, writer = await asyncio.open_connection(*address(provider))
                writer.write(render(provider, question(provider, problem)))
                readers.append(reader)
                writers.append(writer)
            # One that says nothing, and one that is still being accepted.
            idle_reader, idle = await asyncio.open_connection(*address(provider))
            await until(provider, in_flight=3, connections=4)
            late = socket.create_connection(address(provider))
            where = address(provider)
        for reader in (*readers, idle_reader):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
    for writer in (*writers, idle):
        writer.close()
    late.close()
    now = provider.statistics()
    assert now.in_flight == 0
    assert now.disconnects == 3
    assert books_balance(now)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*where)
    assert "closed, 0 in flight, 0 of 3 requests answered" in repr(provider)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_in_the_middle_of_being_accepted_is_closed_too(turns: int) -> None:
    """E4: however far the loop has come with it."""
    loop = asyncio.get_running_loop()
    async with quick([]) as provider:
        late = socket.create_connection(address(provider))
        for _ in range(turns):
            await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    late.settimeout(0)
    with suppress(ConnectionResetError):
        assert await loop.sock_recv(late, 1) == b""
    late.close()


async def test_running_out_of_descriptors_only_delays() -> None:
    """Clients wait in the backlog until there is one again."""
    problems = (await load_problems()).problems
    loop = asyncio.get_running_loop()
    troubles: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with quick(problems) as provider:
        request = render(provider, question(provider, problems[0]))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.socket() as client:
            client.settimeout(0)
            # The lowest free number is past the limit, so `accept` gets none.
            with socket.socket() as probe:
                free = probe.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                await loop.sock_connect(client, address(provider))
                for _ in range(20):
                    await asyncio.sleep(0)  # it looks, and cannot
                assert provider.statistics().connections == 0
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await loop.sock_sendall(client, request)
            assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 200 ")
    assert troubles == []


async def test_no_timer_is_left() -> None:
    """E4: neither for a client that left, nor for one that was sent away."""
    provider, problems = await slow()
    async with provider:
        for count in (1, 2):
            _, writer = await asyncio.open_connection(*address(provider))
            writer.write(render(provider, question(provider, problems[0])))
            await until(provider, requests=count)
            if count == 1:
                writer.close()
                await until(provider, disconnects=1)
    writer.close()
    soon = asyncio.get_running_loop().time() + 60
    timers: list[asyncio.TimerHandle] = getattr(asyncio.get_running_loop(), "_scheduled")  # noqa: B009 - asyncio shows its timers nowhere else
    assert [timer for timer in timers if timer.when() > soon and not timer.cancelled()] == []


async def test_the_loop_is_never_blocked() -> None:
    """No file, no name lookup, no blocking socket call, whatever is served."""
    problems = (await load_problems()).problems
    with blockbuster_ctx():
        async with quick(problems, fault_rate=0.5) as provider:
            for problem in problems:
                await attempt(provider, problem)
            await send(provider, render(provider, b"", target="GET /v1/models"))


async def test_it_is_entered_once() -> None:
    """And has no address before."""
    provider = quick([])
    with pytest.raises(UsageError, match="has no address yet"):
        _ = provider.base_url
    async with provider:
        with pytest.raises(UsageError, match="entered once"):
            await provider.__aenter__()


@pytest.mark.parametrize(
    "settings",
    [
        {"mean_seconds": -1.0},
        {"mean_seconds": float("nan")},
        {"speed": 0.0},
        {"speed": float("inf")},
        {"fault_rate": 1.5},
        {"fault_rate": -0.1},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    """By name, with what came."""
    (name, value), *_ = settings.items()
    with pytest.raises(ValueError, match=f"`{name}` must be .*, got {value!r}"):
        EmbeddedProvider(AnswerBook([]), **settings)  # type: ignore[arg-type]


def test_a_random_key_is_made_when_none_is_given() -> None:
    """Another for each provider: it is on a port that others can reach too."""
    keys = {quick([]).key for _ in range(3)}
    assert len(keys) == 3
    assert EmbeddedProvider(AnswerBook([]), key="mine").key == "mine"
