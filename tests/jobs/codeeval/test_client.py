"""The chat client: what it sends, and what becomes of whatever comes back."""

import asyncio
import functools
import gc
import json
import logging
import pickle
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from blockbuster import blockbuster_ctx

from millpond.errors import InputError, Transient, UsageError
from millpond.flow import Retry
from millpond.jobs.codeeval._answers import AnswerBook
from millpond.jobs.codeeval._client import (
    ChatClient,
    Completion,
    PermanentError,
    UnusableAnswer,
)
from millpond.jobs.codeeval._problems import extract_completion, load_problems
from millpond.jobs.codeeval._provider import EmbeddedProvider

KEY = "sk-very-secret"


class Scripted:
    """A loopback server that keeps what it was asked and says what it was told to."""

    def __init__(self) -> None:
        self.answer = b""
        self.requests: list[tuple[str, dict[str, str], dict[str, object]]] = []
        self.base_url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append((head[0], headers, json.loads(body or b"{}")))
            writer.write(self.answer)
            await writer.drain()
        finally:
            writer.close()

    def say(
        self, status: str, body: object, *, kind: str = "application/json", more: str = ""
    ) -> None:
        """Set the answer; a *body* that is no bytes becomes JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        self.answer = f"{head}{more}Connection: close\r\n\r\n".encode() + content

    def client(self, **settings: object) -> ChatClient:
        """Return a client for this server."""
        return ChatClient(self.base_url, model="m", key=KEY, **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    """Run a scripted server."""
    script = Scripted()
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield script
    finally:
        server.close()


def completion(text: object = "    return 1", **more: object) -> dict[str, object]:
    """Return the body of a good answer."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice], "model": "m-2024", "usage": {"total_tokens": 7}, **more}


async def failure(
    call: Callable[[ChatClient], Awaitable[object]], kind: type[Exception], script: Scripted
) -> Exception:
    """Return the error with which a call ends; it never shows the key."""
    async with script.client() as client:
        with pytest.raises(kind) as caught:
            await call(client)
    assert KEY not in repr(caught.value) + str(caught.value)
    return caught.value


async def until(predicate: Callable[[], bool]) -> None:
    """Wait for what the other end sees; the test's deadline bounds it."""
    while True:
        if predicate():
            return
        await asyncio.sleep(0)


async def ask(client: ChatClient) -> Completion:
    """Ask something."""
    return await client.complete("?")


async def test_it_asks_the_embedded_provider() -> None:
    """Both ends of the protocol are ours, and the answers arrive as the book has them."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    async with (
        EmbeddedProvider(book, mean_seconds=0.0, fault_rate=0.0) as provider,
        ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
    ):
        await client.check()
        for problem in problems:
            answer = await client.complete(problem.question)
            code = extract_completion(answer.text, problem)
            assert code.strip().endswith(book.answer(problem.task_id, 0).completion.strip())
            assert answer.model == provider.model
            assert answer.usage["total_tokens"] > 0
        assert provider.statistics().answers == 24


async def test_three_attempts_are_enough() -> None:
    """With the library's own `Retry` around it, and a fault wherever there may be one."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    retry = Retry(3, first_wait=0)
    async with (
        EmbeddedProvider(book, mean_seconds=0.0, speed=2.0, fault_rate=1.0) as provider,
        ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
    ):
        for problem in problems:
            await retry.call(functools.partial(client.complete, problem.question))
        now = provider.statistics()
    assert now.answers == 24
    assert now.requests == 72


async def test_every_seeded_fault_keeps_its_shape() -> None:
    """The status and headers of a refusal, the library's transport error otherwise."""
    problems = (await load_problems()).problems
    async with (
        EmbeddedProvider(AnswerBook(problems), mean_seconds=0.0, fault_rate=1.0) as provider,
        ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
    ):
        seen: set[str] = set()
        for problem in problems:
            for _ in range(2):
                with pytest.raises((httpx2.HTTPStatusError, httpx2.TransportError)) as caught:
                    await client.complete(problem.question)
                error = caught.value
                if isinstance(error, httpx2.HTTPStatusError):
                    assert error.response.status_code in (429, 500)
                    limited = error.response.status_code == 429
                    assert ("Retry-After" in error.response.headers) == limited
                    seen.add(str(error.response.status_code))
                else:
                    assert str(error)
                    seen.add(type(error).__name__)
            await client.complete(problem.question)
        assert seen == {"429", "500", "ReadError", "RemoteProtocolError"}


async def test_what_is_sent() -> None:
    """The protocol's fields, the sample as seed, the key as bearer; no more than asked."""
    async with scripted() as script:
        script.say("200 OK", completion())
        async with script.client() as client:
            answer = await client.complete("Why?", sample=3)
            await client.complete("Why?", temperature=0.0, max_tokens=9)
        (line, headers, body), (_, _, second) = script.requests
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert headers["authorization"] == f"Bearer {KEY}"
    message = {"role": "user", "content": "Why?"}
    assert body == {"model": "m", "messages": [message], "seed": 3}
    more = {"temperature": 0.0, "max_tokens": 9}
    assert second == {"model": "m", "messages": [message], "seed": 0, **more}
    assert answer == Completion(
        text="    return 1", model="m-2024", finish_reason="stop", usage={"total_tokens": 7}
    )


async def test_without_a_key_none_is_sent() -> None:
    """Local servers want none."""
    async with scripted() as script:
        script.say("200 OK", completion())
        async with ChatClient(script.base_url, model="m") as client:
            await client.complete("?")
        assert "authorization" not in script.requests[0][1]


async def test_optional_parts_of_an_answer_may_be_missing() -> None:
    """Or be of an unexpected type: only the text matters."""
    async with scripted() as script:
        script.say("200 OK", {"choices": [{"message": {"content": ""}}], "usage": None, "model": 3})
        async with script.client() as client:
            answer = await client.complete("?")
    assert answer == Completion(text="", model="m", finish_reason="", usage={})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"choices": [{"mess', "application/json"),
        (b'{"choices": [{"mess', "text/plain"),
        (b"", "application/json"),
        (b"", "text/html"),
        (b"oops", "application/json; charset=utf-8"),
    ],
)
async def test_a_broken_answer_is_transient(body: bytes, kind: str) -> None:
    """What was meant to be JSON may be whole the next time."""
    async with scripted() as script:
        script.say("200 OK", body, kind=kind)
        error = await failure(ask, Transient, script)
    assert "the answer is broken JSON" in str(error)


async def test_a_broken_encoding_is_transient() -> None:
    """As any other answer that arrived broken; `check` says it as well."""
    async with scripted() as script:
        script.say("200 OK", b"no gzip", more="Content-Encoding: gzip\r\n")
        assert "broken encoding" in str(await failure(ask, Transient, script))
        assert "cannot reach" in str(await failure(ChatClient.check, PermanentError, script))
    gc.collect()  # the HTTP library leaves its generators to the collector here,
    await asyncio.sleep(0)  # which has the loop close them


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        (b"<!doctype html>\n<title>Hi</title>", "text/html", "text/html '<!doctype html> <title>"),
        (b"x" * 5000, "text/plain", "text/plain 'xxx"),
        ({"choices": []}, "application/json", "choices[0].message.content"),
        ({"choices": None}, "application/json", "choices[0].message.content"),
        ({"choices": [{"message": {"content": None}}]}, "application/json", "content"),
        ({"error": "no"}, "application/json", '{"error": "no"}'),
        ([1], "application/json", "'[1]'"),
    ],
)
async def test_a_whole_answer_without_text_is_said_clearly(
    body: object, kind: str, shown: str
) -> None:
    """What was expected, and what came: its kind and its first characters."""
    async with scripted() as script:
        script.say("200 OK", body, kind=kind)
        error = await failure(ask, UnusableAnswer, script)
    assert str(error).startswith("expected ")
    assert shown in str(error)
    assert len(str(error)) < 250


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_refused_key_is_permanent(status: str) -> None:
    """Said with the endpoint's own words and the variable to set."""
    async with scripted() as script:
        script.say(status, {"error": {"message": "key  expired"}})
        error = await failure(ask, PermanentError, script)
        assert isinstance(error, InputError)
        assert f"refuses the key ({status[:3]}): key expired" in str(error)
        assert "OPENAI_API_KEY" in error.hint
        async with ChatClient(script.base_url, model="m", key_variable="MY_KEY") as client:
            with pytest.raises(PermanentError, match=r"wants a key .* variable MY_KEY"):
                await client.complete("?")


async def test_an_unknown_model_is_permanent_and_a_likely_one_is_named() -> None:
    """From the list that `check` saw, if there was one."""
    async with scripted() as script:
        script.say("404 Not Found", {"error": {"message": "no such model"}})
        error = await failure(ask, PermanentError, script)
        assert "no model 'm' (404): no such model; check --model and --base-url" in str(error)
        async with ChatClient(script.base_url, model="gtp-9") as client:
            for served, hint in (
                (["other", "gpt-9"], r"did you mean 'gpt-9'\?"),
                (["a", "b"], "models served there: a, b$"),
                (list("abcdef"), r"a, b, c, d, e, \.\.\.$"),
            ):
                script.say("200 OK", {"data": [{"id": name} for name in served] + [3]})
                await client.check()
                script.say("404 Not Found", b"nope", kind="text/plain")
                with pytest.raises(PermanentError, match=hint):
                    await client.complete("?")


async def test_redirects_are_not_followed() -> None:
    """The key would follow them."""
    async with scripted() as script:
        script.say("302 Found", b"", more="Location: https://elsewhere.test/v1\r\n")
        for call in (ask, ChatClient.check):
            error = await failure(call, PermanentError, script)
            assert "redirects (302) to https://elsewhere.test/v1" in str(error)
        assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        ("429 Too Many Requests", {"error": {"message": "slow down"}}, "slow down"),
        ("503 Service Unavailable", b"<html>", "application/json '<html>'"),
        ("400 Bad Request", {"detail": "context too long"}, "context too long"),
        ("500 Internal Server Error", {"error": "broken"}, "broken"),
        ("502 Bad Gateway", b"", "an empty body (application/json)"),
        ("422 Unprocessable", {"detail": [1]}, '{"detail": [1]}'),
    ],
)
async def test_other_refusals_keep_the_shape_that_retries_know(
    status: str, body: object, said: str
) -> None:
    """Status and headers of the response, and the endpoint's own words."""
    async with scripted() as script:
        script.say(status, body, more="Retry-After: 7\r\n")
        error = await failure(ask, httpx2.HTTPStatusError, script)
    assert isinstance(error, httpx2.HTTPStatusError)
    assert str(error).startswith(status[:3])
    assert said in str(error)
    assert error.response.status_code == int(status[:3])
    assert error.response.headers["Retry-After"] == "7"
    assert len(script.requests) == 1  # no retries of its own


async def test_an_endpoint_that_nobody_serves_is_said_once() -> None:
    """Before the first question, with the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with ChatClient(f"http://127.0.0.1:{port}/v1", model="m") as client:
        with pytest.raises(PermanentError, match="cannot reach") as caught:
            await client.check()
        assert f"http://127.0.0.1:{port}/v1/models: " in str(caught.value)
        assert "check --base-url" in caught.value.hint
        with pytest.raises(httpx2.ConnectError):  # in the middle it may be a restart
            await client.complete("?")


async def test_an_endpoint_that_hangs_is_said_once() -> None:
    """After the client's own patience, not for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with ChatClient(f"http://127.0.0.1:{port}", model="m", timeout=0.05) as client:
            with pytest.raises(PermanentError, match="no answer in time"):
                await client.check()
            with pytest.raises(httpx2.TimeoutException, match=r"nothing came for 0\.05 s"):
                await client.complete("?")


async def test_an_endpoint_that_says_nothing_is_said_once() -> None:
    """A server that hangs up is none that can be used."""
    async with scripted() as script:
        error = await failure(ChatClient.check, PermanentError, script)
    assert "cannot reach" in str(error)


async def test_check_finds_a_wrong_key() -> None:
    """At the real thing: the embedded provider refuses it."""
    async with (
        EmbeddedProvider(AnswerBook([])) as provider,
        ChatClient(provider.base_url, model=provider.model, key=KEY) as client,
    ):
        with pytest.raises(PermanentError, match=r"refuses the key \(401\): incorrect API key"):
            await client.check()


@pytest.mark.parametrize("body", [b"<!doctype html>", b"", b"null"])
async def test_check_finds_what_is_no_endpoint(body: bytes) -> None:
    """A web page at the address is said as such."""
    async with scripted() as script:
        script.say("200 OK", body, kind="text/html")
        error = await failure(ChatClient.check, PermanentError, script)
    assert "expected a list of models" in str(error)
    assert "usually ends in /v1" in str(error)


@pytest.mark.parametrize(
    "status", ["404 Not Found", "405 No", "403 Forbidden", "429 Later", "500 Oops", "503 Busy"]
)
async def test_check_gives_the_benefit_of_the_doubt(status: str) -> None:
    """Not everybody lists models, and a busy server is not a wrong one."""
    async with scripted() as script:
        script.say(status, b"no")
        async with script.client() as client:
            await client.check()
        assert script.requests[0][0] == "GET /v1/models HTTP/1.1"


async def test_a_cancelled_question_closes_its_connection() -> None:
    """The provider sees it within 100 ms, and the next question is answered."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    async with (
        EmbeddedProvider(book, mean_seconds=1000.0, fault_rate=0.0) as provider,
        ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
    ):
        loop = asyncio.get_running_loop()
        elapsed: list[float] = []
        for _ in range(3):
            asking = [asyncio.create_task(client.complete(p.question)) for p in problems[:8]]
            await until(lambda: provider.statistics().in_flight == 8)
            began = loop.time()
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
            await until(lambda: provider.statistics().disconnects == 8 * (len(elapsed) + 1))
            elapsed.append(loop.time() - began)
            assert all(task.cancelled() for task in asking)
            await client.check()
            assert provider.statistics().in_flight == 0
        assert min(elapsed) < 0.1  # the best of them: the machine may be busy


async def test_connections_are_not_limited() -> None:
    """How many are in flight is the caller's to bound."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems, n=5)
    async with (
        EmbeddedProvider(book, mean_seconds=1000.0, fault_rate=0.0) as provider,
        ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
    ):
        asking = [
            asyncio.create_task(client.complete(problem.question, sample=sample))
            for problem in problems
            for sample in range(5)
        ]
        await until(lambda: provider.statistics().in_flight == 120)
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


async def test_a_proxy_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with scripted() as script:
        script.say("200 OK", completion())
        async with script.client() as client:
            assert (await client.complete("?")).text == "    return 1"


async def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Not by the client's text, nor in any log."""
    async with scripted() as script:
        script.say("200 OK", completion())
        with caplog.at_level(logging.DEBUG):
            async with script.client() as client:
                await client.complete("?")
                assert repr(client) == f"<ChatClient 'm' at {script.base_url}>"
        assert script.requests[0][1]["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text


def test_a_key_with_a_line_break_is_mended_or_refused() -> None:
    """At its end it is a slip of the shell; inside, the key cannot be right."""
    assert ChatClient("http://a/v1", model="m", key=f"{KEY}\n")
    for key in (f"{KEY}\nx", "sk-\u00e9", "sk-\x00"):
        with pytest.raises(PermanentError, match="OPENAI_API_KEY: the key holds") as caught:
            ChatClient("http://a/v1", model="m", key=key)
        assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000/v1", "starts with http:// or https://"),
        ("ftp://a/v1", "starts with http:// or https://"),
        ("", "starts with http:// or https://"),
        ("http://", "starts with http:// or https://"),
        ("http://a:port/v1", "not an address"),
        ("http://a/v1/chat/completions/", "give http://a/v1"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(url: str, message: str) -> None:
    """At once, with what came."""
    with pytest.raises(PermanentError, match=message) as caught:
        ChatClient(url, model="m")
    assert repr(url) in str(caught.value)


async def test_it_is_used_inside_its_block() -> None:
    """Before and after, and entered twice, it says so."""
    client = ChatClient("http://127.0.0.1:1/v1", model="m")
    with pytest.raises(UsageError, match="not open"):
        await client.complete("?")
    async with client:
        with pytest.raises(UsageError, match="entered once"):
            await client.__aenter__()
    with pytest.raises(UsageError, match="not open"):
        await client.check()


async def test_the_loop_is_never_blocked() -> None:
    """Certificates are read by a thread, and nothing else is read."""
    problems = (await load_problems()).problems
    book = AnswerBook(problems)
    with blockbuster_ctx():
        async with ChatClient("https://127.0.0.1:1/v1", model="m"):
            pass
        async with (
            EmbeddedProvider(book, mean_seconds=0.0, fault_rate=0.0) as provider,
            ChatClient(provider.base_url, model=provider.model, key=provider.key) as client,
        ):
            await client.check()
            await client.complete(problems[0].question)


def test_errors_pickle() -> None:
    """They travel from one process to another whole."""
    error = PermanentError("what", where="there", hint="do")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.hint) == (str(error), "do")
    assert str(pickle.loads(pickle.dumps(UnusableAnswer("no text")))) == "no text"  # noqa: S301
