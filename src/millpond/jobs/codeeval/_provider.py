"""The embedded provider: a model's HTTP endpoint on loopback, with known answers.

It speaks ``POST /v1/chat/completions`` and ``GET /v1/models`` as OpenAI-compatible
servers do, really over HTTP, so that headers, cancels, refusals and broken bodies
are real. Latencies and faults are seeded; the answers come from an `AnswerBook`.

Invariants:
    E1  What an answer is, how long it takes, and whether an attempt fails depend on
        the seed, the task, the sample number and the attempt number alone.
    E2  The third attempt at an answer is answered, and so is every later one.
    E3  ``requests = answers + faults + disconnects + in_flight`` at any moment.
    E4  Once the provider is left, no socket, timer or task of it is alive.

There is no task per request or connection: a connection is a protocol whose
callbacks never block, and an answer that takes its time is a timer.
"""

import asyncio
import enum
import hashlib
import hmac
import json
import math
import random
import re
import secrets
import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self, cast, final

import h11

from millpond.errors import UsageError
from millpond.jobs.codeeval._answers import DEFAULT_SEED, AnswerBook

MODEL = "millpond-embedded"
MEAN_SECONDS = 0.25
FAULT_RATE = 0.2
FAULTY_ATTEMPTS = 2
LATENCY_SIGMA = 0.6
"""Spread of the log-normal latency: one answer in 20 takes more than 2.2 times the mean."""
MAX_BODY_BYTES = 1 << 20
BACKLOG = 1024
PAUSE_SECONDS = 0.1
CLOSE_SECONDS = 2.0


@final
class Fault(enum.StrEnum):
    """How an attempt fails, for a reason that passes."""

    RATE_LIMITED = "rate_limited"
    """429, with Retry-After."""
    SERVER_ERROR = "server_error"
    """500."""
    RESET = "reset"
    """The connection is reset without an answer."""
    HALF_BODY = "half_body"
    """The connection ends in the middle of the answer."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatistics:
    """What the provider saw, at one moment."""

    connections: int
    """Connections accepted."""
    requests: int
    """Requests for a completion that were in order, each attempt counted."""
    answers: int
    """Completions delivered in full."""
    faults: Mapping[str, int]
    """Seeded faults, by `Fault`."""
    refused: Mapping[int, int]
    """Requests that were not in order, by HTTP status."""
    disconnects: int
    """Requests whose client left before its answer was delivered."""
    in_flight: int
    """Requests being answered now."""
    peak_in_flight: int
    """The most there ever were at once."""
    delivered: Mapping[tuple[str, int], int]
    """How often each answer was delivered in full, by task and sample number."""


@final
class EmbeddedProvider:
    """Serves the answers of a book on 127.0.0.1, on a port that is free.

    An async context manager. Leaving it closes every connection at once; a client
    that still waits sees its connection end.

    Args:
        book: The answers.
        seed: Decides latencies and faults.
        mean_seconds: Mean latency of an answer.
        speed: Divides every latency, and the seconds of Retry-After.
        fault_rate: Chance, from 0 to 1, that a first or second attempt fails.
        key: What clients must present; None makes a random one.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     async with EmbeddedProvider(AnswerBook([])) as provider:
        ...         print(provider.base_url.startswith("http://127.0.0.1:"))
        >>> asyncio.run(main())
        True
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, with a default
        self,
        book: AnswerBook,
        *,
        seed: int = DEFAULT_SEED,
        mean_seconds: float = MEAN_SECONDS,
        speed: float = 1.0,
        fault_rate: float = FAULT_RATE,
        key: str | None = None,
    ) -> None:
        if not 0 <= mean_seconds < math.inf:
            msg = f"`mean_seconds` must be >= 0, got {mean_seconds!r}"
            raise ValueError(msg)
        if not 0 < speed < math.inf:
            msg = f"`speed` must be > 0, got {speed!r}"
            raise ValueError(msg)
        if not 0 <= fault_rate <= 1:
            msg = f"`fault_rate` must be from 0 to 1, got {fault_rate!r}"
            raise ValueError(msg)
        self.model = MODEL
        self.key = secrets.token_urlsafe(24) if key is None else key
        temper = _Temper(seed, mean_seconds / speed, 1 / speed, fault_rate)
        self._service = _Service(book, self.key, temper)
        self._listener: _Listener | None = None
        self._base_url = ""

    @property
    def base_url(self) -> str:
        """What clients call the base URL, ``http://127.0.0.1:PORT/v1``.

        Raises:
            UsageError: If the provider was not entered.
        """
        if not self._base_url:
            msg = "the provider has no address yet; enter it with `async with`"
            raise UsageError(msg)
        return self._base_url

    def statistics(self) -> ProviderStatistics:
        """Return a snapshot. It never changes afterwards."""
        return self._service.statistics()

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            UsageError: If it was entered before.

        Cancellation:
            Does not wait, so it cannot be cancelled.
        """
        if self._listener is not None:
            msg = "an embedded provider is entered once; make a new one"
            raise UsageError(msg)
        self._listener = _Listener(self._service)
        self._base_url = f"http://127.0.0.1:{self._listener.port}/v1"
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close everything (E4).

        Cancellation:
            Everything is closed already; only the loop's notice of it is not awaited.
        """
        self._service.close()
        if self._listener is not None and (arriving := self._listener.close()):
            # What is being accepted just now finds the service closed.
            await asyncio.wait(arriving, timeout=CLOSE_SECONDS)
        if ended := [connection.ended for connection in self._service.alive]:
            await asyncio.wait(ended, timeout=CLOSE_SECONDS)

    def __repr__(self) -> str:
        now = self.statistics()
        state = self._base_url or "not entered"
        if self._service.closed:
            state = "closed"
        return (
            f"<EmbeddedProvider {state}, {now.in_flight} in flight,"
            f" {now.answers} of {now.requests} requests answered>"
        )


@dataclass(frozen=True, slots=True)
class _Temper:
    """How slow and how faulty the server is."""

    seed: int
    mean_seconds: float
    patience: float
    """Seconds that the longest Retry-After asks for."""
    fault_rate: float

    def draw(self, answer: tuple[str, int], attempt: int) -> tuple[float, Fault | None, int]:
        """Return the latency, the fault if any, and the Retry-After of an attempt (E1, E2)."""
        # Seeded with a digest: `hash` of a string differs from process to process.
        task_id, sample = answer
        text = f"{self.seed}\0{attempt}\0{sample}\0{task_id}"
        digest = hashlib.blake2b(text.encode(errors="surrogatepass")).digest()
        dice = random.Random(digest)  # noqa: S311 - latencies, not secrets
        # Drawn even when it is to be 0, so that the faults are the same at any speed.
        delay = self.mean_seconds * dice.lognormvariate(-(LATENCY_SIGMA**2) / 2, LATENCY_SIGMA)
        fails = dice.random() < self.fault_rate and attempt <= FAULTY_ATTEMPTS
        fault = dice.choice(tuple(Fault))
        retry_after = int(dice.randint(0, 1) * self.patience)  # the header counts whole seconds
        return delay, fault if fails else None, retry_after


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is sent, and when."""

    status: int
    body: dict[str, object]
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = field(default=0.0, kw_only=True)
    answer: tuple[str, int] | None = field(default=None, kw_only=True)
    """What is attempted, by task and sample; None for what is not a completion."""
    fault: Fault | None = field(default=None, kw_only=True)


class Refusal(Exception):
    """A request is not in order. Never leaves this module."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        self.status = int(status)
        self.code = code
        self.param = param
        super().__init__(message)


class _Service:
    """What the server knows, decides and counts. Every method is synchronous."""

    def __init__(self, book: AnswerBook, key: str, temper: "_Temper") -> None:
        self.closed = False
        self.alive: set[_Connection] = set()
        self._book = book
        self._credentials = b"Bearer " + key.encode()
        self._temper = temper
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._connections = 0
        self._requests = 0
        self._faults: Counter[Fault] = Counter()
        self._refused: Counter[int] = Counter()
        self._disconnects = 0
        self._in_flight = 0
        self._peak = 0
        self._delivered: Counter[tuple[str, int]] = Counter()

    def statistics(self) -> ProviderStatistics:
        return ProviderStatistics(
            connections=self._connections,
            requests=self._requests,
            answers=self._delivered.total(),
            faults={fault.value: count for fault, count in self._faults.items()},
            refused=dict(self._refused),
            disconnects=self._disconnects,
            in_flight=self._in_flight,
            peak_in_flight=self._peak,
            delivered=dict(self._delivered),
        )

    def connect(self) -> bool:
        """Welcome a connection; False says that it comes too late."""
        if self.closed:
            return False
        self._connections += 1
        return True

    def close(self) -> None:
        """End every connection; those still being accepted will end themselves."""
        self.closed = True
        for connection in self.alive:
            connection.abort()

    def refuse(self, refusal: "Refusal") -> "_Reply":
        self._refused[refusal.status] += 1
        return _Reply(refusal.status, _error_body(str(refusal), refusal.code, refusal.param))

    def plan(self, request: h11.Request, body: bytes) -> "_Reply":
        """Decide what becomes of a request."""
        try:
            return self._plan(request, body)
        except Refusal as refusal:
            return self.refuse(refusal)

    def finish(self, reply: "_Reply", *, left: bool) -> None:
        """Count an attempt out. *left* says that its client is gone (E3)."""
        if reply.answer is None:  # not an attempt at a completion
            return
        self._in_flight -= 1
        if left:
            self._disconnects += 1
        elif reply.fault is not None:
            self._faults[reply.fault] += 1
        else:
            self._delivered[reply.answer] += 1

    def _plan(self, request: h11.Request, body: bytes) -> "_Reply":
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        method = request.method.decode("ascii", "replace")
        allowed = {"/v1/models": "GET", "/v1/chat/completions": "POST"}.get(path)
        if allowed is None:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"unknown URL: {method} {path}; there are /v1/models and /v1/chat/completions",
            )
        if method != allowed:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} is for {allowed} only")
        given = dict(request.headers).get(b"authorization", b"")
        if not hmac.compare_digest(given, self._credentials):
            raise Refusal(
                HTTPStatus.UNAUTHORIZED, "incorrect API key provided", code="invalid_api_key"
            )
        if allowed == "GET":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "millpond"}
            return _Reply(HTTPStatus.OK, {"object": "list", "data": [model]})
        return self._begin(self._find_answer(body))

    def _find_answer(self, body: bytes) -> tuple[str, int]:
        """Return the task and the number of the sample that a body asks for."""
        try:
            asked: object = json.loads(body)
        except (ValueError, RecursionError) as error:
            msg = f"the body is not JSON: {error}"
            raise Refusal(HTTPStatus.BAD_REQUEST, msg) from None
        if not isinstance(asked, dict):
            raise Refusal(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        fields = cast("dict[str, object]", asked)
        model = fields.get("model")
        if not isinstance(model, str):
            raise Refusal(HTTPStatus.BAD_REQUEST, "'model' must be a string", param="model")
        if model != MODEL:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"the model {model!r} does not exist; there is {MODEL!r}",
                code="model_not_found",
                param="model",
            )
        if fields.get("stream"):
            raise Refusal(HTTPStatus.BAD_REQUEST, "answers are not streamed", param="stream")
        problem = self._book.find_problem(_last_message(fields.get("messages")))
        if problem is None:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "the last message of the user holds no prompt of a known problem",
                param="messages",
            )
        sample = fields.get("seed", 0)
        if not isinstance(sample, int) or not 0 <= sample < self._book.n:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                f"'seed' is the number of a sample, from 0 to {self._book.n - 1}; got {sample!r}",
                param="seed",
            )
        return problem.task_id, sample

    def _begin(self, answer: tuple[str, int]) -> "_Reply":
        """Count an attempt in, and decide how it ends (E1, E2)."""
        self._requests += 1
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        self._attempts[answer] += 1
        delay, fault, retry_after = self._temper.draw(answer, self._attempts[answer])
        if fault is None:
            return _Reply(HTTPStatus.OK, self._complete(answer), delay=delay, answer=answer)
        headers: tuple[tuple[str, str], ...] = ()
        match fault:
            case Fault.RATE_LIMITED:  # at once: the limit is checked before the work
                status, delay = HTTPStatus.TOO_MANY_REQUESTS, 0.0
                body = _error_body("rate limit reached", "rate_limit_exceeded")
                headers = (("Retry-After", str(retry_after)),)
            case Fault.SERVER_ERROR:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                body = _error_body("the server had an error", "server_error")
            case Fault.RESET | Fault.HALF_BODY:
                status, body = HTTPStatus.OK, self._complete(answer)
        return _Reply(status, body, headers, delay=delay, answer=answer, fault=fault)

    def _complete(self, answer: tuple[str, int]) -> dict[str, object]:
        task_id, sample = answer
        problem = self._book.problems[task_id]
        text = self._book.answer(task_id, sample).completion
        if self._book.is_in_chat_form(task_id, sample):
            code = problem.prompt + text
            longest = max(map(len, re.findall("`+", code)), default=0)
            fence = "`" * max(3, longest + 1)
            text = f"Here is the function.\n\n{fence}python\n{code}\n{fence}\n"
        message = {"role": "assistant", "content": text}
        asked, said = len(problem.question.split()), len(text.split())
        return {
            "id": f"chatcmpl-{self._requests}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": said,
                "total_tokens": asked + said,
            },
        }


class _Listener:
    """Accepts connections.

    Not `asyncio.Server`: on Python 3.11, what that is accepting while it is closed
    stays open, and nobody owns it.
    """

    def __init__(self, service: _Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._socket.settimeout(0)
        self.port = cast("int", self._socket.getsockname()[1])
        self._arriving: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> "set[asyncio.Task[object]]":
        """Stop listening; return what is still arriving."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        return set(self._arriving)

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # it left before we came
        except OSError:  # out of descriptors: clients wait in the backlog
            self._loop.remove_reader(self._socket)
            self._pause = self._loop.call_later(PAUSE_SECONDS, self._listen)
            return
        connection.settimeout(0)
        welcome = self._loop.connect_accepted_socket(lambda: _Connection(self._service), connection)
        task: asyncio.Task[object] = self._loop.create_task(welcome)
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)


class _Connection(asyncio.Protocol):
    """One client's connection. Answers one request after the other."""

    def __init__(self, service: _Service) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._service = service
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        # What is being answered, from the end of the request to its last byte.
        self._reply: _Reply | None = None
        self._timer: asyncio.TimerHandle | None = None
        service.alive.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Without a buffer to spare, `resume_writing` says that the kernel has it all.
        self._transport.set_write_buffer_limits(high=0)
        if not self._service.connect():
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - how is all one
        if self._timer is not None:
            self._timer.cancel()
        self._finish(left=True)
        self._service.alive.discard(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> None:
        """Take the end of what the client sends for its leaving: the transport closes."""

    def resume_writing(self) -> None:
        if self._http.our_state in (h11.DONE, h11.MUST_CLOSE):
            self._delivered()

    def abort(self) -> None:
        """End the connection at once, without sending what is left."""
        if self._transport is not None:
            self._transport.abort()

    def _is_gone(self) -> bool:
        # True between the loop's noticing the end and its call of `connection_lost`.
        return self._transport is None or self._transport.is_closing()

    def _advance(self) -> None:
        """Take in what has come, up to one whole request."""
        try:
            while self._reply is None and not self._is_gone():
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._request = event
                    self._body.clear()
                    if self._http.they_are_waiting_for_100_continue:
                        self._write(h11.InformationalResponse(status_code=100, headers=[]))
                elif isinstance(event, h11.Data):
                    self._take_in(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    self._answer()
                else:  # more must come, or nothing ever will
                    return
        except h11.RemoteProtocolError as error:
            self._break_off(Refusal(error.error_status_hint, str(error)))

    def _take_in(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_BODY_BYTES:
            msg = f"the body is larger than {MAX_BODY_BYTES} bytes"
            self._break_off(Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, msg))

    def _answer(self) -> None:
        request = cast("h11.Request", self._request)  # h11 gives it before its end
        self._reply = reply = self._service.plan(request, bytes(self._body))
        if reply.delay:
            self._timer = self._loop.call_later(reply.delay, self._send, reply)
        else:
            self._send(reply)

    def _send(self, reply: _Reply) -> None:
        if self._is_gone():
            return  # `connection_lost` counts it
        if reply.fault is Fault.RESET:
            self._finish(left=False)
            self._reset()
            return
        body = json.dumps(reply.body).encode()
        head = h11.Response(
            status_code=reply.status,
            reason=HTTPStatus(reply.status).phrase,
            headers=[
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                *reply.headers,
            ],
        )
        if reply.fault is Fault.HALF_BODY:
            self._write(head, h11.Data(data=body[: len(body) // 2]))
            self._finish(left=False)
            self._close()
            return
        data = () if self._is_head() else (h11.Data(data=body),)
        self._write(head, *data, h11.EndOfMessage())
        if self._transport is not None and not self._transport.get_write_buffer_size():
            self._delivered()

    def _is_head(self) -> bool:
        return self._request is not None and self._request.method == b"HEAD"

    def _delivered(self) -> None:
        """Go on after an answer was handed to the kernel to its last byte."""
        self._finish(left=False)
        if self._http.our_state is h11.MUST_CLOSE:
            self._close()
        elif self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            # Not called from here: pipelined requests would pile up on the stack.
            self._loop.call_soon(self._advance)

    def _finish(self, *, left: bool) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            self._service.finish(reply, left=left)

    def _break_off(self, refusal: Refusal) -> None:
        """Refuse a request that was not taken in whole, and close."""
        reply = self._service.refuse(refusal)
        body = json.dumps(reply.body).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        with suppress(h11.LocalProtocolError):  # the state may not allow an answer
            self._write(
                h11.Response(
                    status_code=reply.status,
                    reason=HTTPStatus(reply.status).phrase,
                    headers=headers,
                ),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
        self._close()

    def _write(self, *events: h11.Event) -> None:
        sent = b"".join(self._http.send(event) or b"" for event in events)
        if self._transport is not None:
            self._transport.write(sent)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _reset(self) -> None:
        if self._transport is None:
            return
        connection = cast("socket.socket", self._transport.get_extra_info("socket"))
        # Closing with a linger time of zero sends a reset instead of a proper end.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def _error_body(
    message: str, code: str | None = None, param: str | None = None
) -> dict[str, object]:
    kind = "server_error" if code == "server_error" else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _last_message(messages: object) -> str:
    """Return the text of the last message of the user, "" if there is none."""
    if not isinstance(messages, list):
        return ""
    for message in reversed(cast("list[object]", messages)):
        if not isinstance(message, dict):
            continue
        fields = cast("dict[str, object]", message)
        if fields.get("role") == "user":
            content = fields.get("content")
            return content if isinstance(content, str) else ""
    return ""
