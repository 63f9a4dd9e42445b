"""Asking a chat model over HTTP. The only module that knows the HTTP library.

One request is one attempt: whoever calls owns the retries, so that their number is
known and bounded in one place. Failures come in three kinds:

- *Worth another try*: `Transient` (an answer that arrived broken), the library's
  transport errors (connection, timeout, protocol), and its ``HTTPStatusError`` with
  ``response.status_code`` 429 or 5xx and perhaps a Retry-After header.
- *Permanent* (`PermanentError`): a wrong key, model or address. Every other request
  would fail in the same way, so the run should be stopped.
- *About this request only*: ``HTTPStatusError`` with any other status, and
  `UnusableAnswer`.
"""

import asyncio
import difflib
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast, final

import httpx2

from millpond._base import offload
from millpond.errors import InputError, MillpondError, Transient, UsageError

KEY_VARIABLE = "OPENAI_API_KEY"
TIMEOUT_SECONDS = 90.0
CHECK_SECONDS = 20.0
CLOSE_SECONDS = 5.0
EXCERPT_CHARACTERS = 100

_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404


class PermanentError(InputError):
    """No request to this endpoint can succeed until a setting is changed."""


class UnusableAnswer(MillpondError):
    """The endpoint answered, in whole, with something that holds no completion."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model answered."""

    text: str
    model: str
    """The model that served it, as the endpoint calls it."""
    finish_reason: str
    """Why the text ends where it does, "stop" as a rule; "" when not said."""
    usage: Mapping[str, int]
    """Tokens by kind, as counted by the endpoint; empty when not said."""


@final
class ChatClient:
    """Asks one model at an OpenAI-compatible endpoint.

    An async context manager. There is no limit on connections: how many requests
    are in flight is the caller's to bound. Proxies are taken from the environment,
    as usual, but an address on this machine is always asked directly.

    Args:
        base_url: What comes before ``/chat/completions``, usually ending in ``/v1``.
        model: The model's name.
        key: Sent as a bearer token; None sends none. It is never shown or logged.
        timeout: Seconds without any progress after which a request fails.
        key_variable: The environment variable that the key came from, for messages.

    Raises:
        PermanentError: If the address or the key cannot be right as they are.

    Example:
        >>> client = ChatClient("http://127.0.0.1:8000/v1/", model="m", key="secret")
        >>> client
        <ChatClient 'm' at http://127.0.0.1:8000/v1>
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        key_variable: str = KEY_VARIABLE,
    ) -> None:
        self.model = model
        self.base_url, self._host, self._is_encrypted = _check_url(base_url)
        self._timeout = timeout
        self._key_variable = key_variable
        self._headers: dict[str, str] = {}
        key = (key or "").strip()
        if not (key.isascii() and (not key or key.isprintable())):
            msg = "the key holds characters that no key can have"
            hint = "set it again, without quotes or line breaks in it"
            raise PermanentError(msg, where=key_variable, hint=hint)
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._http: httpx2.AsyncClient | None = None
        self._served: list[str] = []

    async def __aenter__(self) -> Self:
        """Get ready to ask. Nothing is sent yet.

        Raises:
            UsageError: If it was entered before.

        Cancellation:
            Nothing is left open.
        """
        if self._http is not None:
            msg = "a chat client is entered once; make a new one"
            raise UsageError(msg)
        # In a thread: certificates are read from files, and much is imported late.
        self._http = await offload(self._open)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close all connections, within 5 seconds.

        Cancellation:
            Connections that are not closed yet are closed by the garbage collector.
        """
        if self._http is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._http.aclose()

    async def check(self) -> None:
        """Find out, before the first question, whether the endpoint can be used.

        Asks for the list of models, which costs nothing. Endpoints that have no such
        list, or do not show it to this key, are given the benefit of the doubt.

        Raises:
            PermanentError: If it cannot be reached, refuses the key, or is no
                endpoint of this kind.

        Cancellation:
            The connection is closed.
        """
        url = f"{self.base_url}/models"
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                response = await self._client.get(url)
        except (httpx2.RequestError, TimeoutError) as error:
            msg = f"cannot reach {url}: {_describe(error)}"
            hint = "check --base-url, and that the server runs"
            raise PermanentError(msg, hint=hint) from error
        if response.is_success:
            models = _read_json(response)
            if models is None:
                msg = f"expected a list of models from {url}, got {_show(response)}"
                raise PermanentError(msg, hint="check --base-url; it usually ends in /v1")
            self._served = _list_models(models)
        elif response.status_code == _UNAUTHORIZED or response.is_redirect:
            raise self._permanent(response)

    async def complete(
        self,
        prompt: str,
        *,
        sample: int = 0,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """Ask once and return the answer.

        Args:
            prompt: The one message that is sent, as the user.
            sample: Sent as ``seed``, so that samples differ and can be had again.
            temperature: None leaves it to the endpoint.
            max_tokens: None leaves it to the endpoint.

        Raises:
            PermanentError: If every request must fail in this way.
            Transient: If the answer arrived broken.
            UnusableAnswer: If the answer is whole but holds no text.
            httpx2.HTTPStatusError: For any other refusal; the endpoint's own words
                are in the message.
            httpx2.TransportError: If no answer came.

        Cancellation:
            The connection is closed at once, which the endpoint can see. It may
            finish the answer, and charge for it, all the same.
        """
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "seed": sample,
        }
        if temperature is not None:
            body["temperature"] = temperature
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        try:
            response = await self._client.post(f"{self.base_url}/chat/completions", json=body)
        except httpx2.DecodingError as error:
            msg = f"the answer arrived with a broken encoding: {_describe(error)}"
            raise Transient(msg) from error
        except httpx2.TransportError as error:
            if str(error):
                raise
            # Resets and timeouts say nothing by themselves; the same kind, in words.
            msg = "the connection broke off before the answer had come"
            if isinstance(error, httpx2.TimeoutException):
                msg = f"nothing came for {self._timeout:g} s"
            raise type(error)(msg, request=error.request) from error
        if response.is_success:
            return self._read_completion(response)
        status = response.status_code
        if status in (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND) or response.is_redirect:
            raise self._permanent(response)
        phrase = f"{status} {response.reason_phrase}".rstrip()
        msg = f"{phrase}: {_read_message(response)}"
        raise httpx2.HTTPStatusError(msg, request=response.request, response=response)

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._http is None or self._http.is_closed:
            msg = "the chat client is not open; use it inside its `async with`"
            raise UsageError(msg)
        return self._http

    def _open(self) -> httpx2.AsyncClient:
        # Redirects are not followed, so plain HTTP stays plain and needs no certificates.
        verify = httpx2.create_ssl_context() if self._is_encrypted else False
        return httpx2.AsyncClient(
            headers=self._headers,
            verify=verify,
            timeout=httpx2.Timeout(self._timeout, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            follow_redirects=False,
            trust_env=not _is_loopback(self._host),
        )

    def _read_completion(self, response: httpx2.Response) -> Completion:
        try:
            answer: object = response.json()
        except (ValueError, RecursionError) as error:
            if _looks_like_json(response):
                msg = f"the answer is broken JSON ({error}): {_show(response)}"
                raise Transient(msg) from error
            msg = f"expected a JSON answer, got {_show(response)}"
            raise UnusableAnswer(msg) from error
        choice = _dig(answer, "choices", 0)
        text = _dig(choice, "message", "content")
        if not isinstance(text, str):
            msg = f"expected text in choices[0].message.content, got {_show(response)}"
            raise UnusableAnswer(msg)
        model, reason = _dig(answer, "model"), _dig(choice, "finish_reason")
        usage = _dig(answer, "usage")
        counts = cast("dict[str, object]", usage) if isinstance(usage, dict) else {}
        return Completion(
            text=text,
            model=model if isinstance(model, str) else self.model,
            finish_reason=reason if isinstance(reason, str) else "",
            usage={name: count for name, count in counts.items() if isinstance(count, int)},
        )

    def _permanent(self, response: httpx2.Response) -> PermanentError:
        status, said = response.status_code, _read_message(response)
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            what = "refuses the key" if self._headers else "wants a key"
            return PermanentError(
                f"{self.base_url} {what} ({status}): {said}",
                hint=f"set the environment variable {self._key_variable} to a valid key",
            )
        if status == _NOT_FOUND:
            return PermanentError(
                f"{response.url} knows no such address, or no model {self.model!r} (404): {said}",
                hint=self._suggest(),
            )
        target = response.headers.get("Location", "an address that it does not name")
        return PermanentError(
            f"{response.url} redirects ({status}) to {target}",
            hint="check --base-url; redirects are not followed, because the key would follow",
        )

    def _suggest(self) -> str:
        if close := difflib.get_close_matches(self.model, self._served, n=1):
            return f"did you mean {close[0]!r}?"
        if self._served:
            more = ", ..." if len(self._served) > 5 else ""  # noqa: PLR2004 - a line's worth
            return f"models served there: {', '.join(self._served[:5])}{more}"
        return "check --model and --base-url; the latter usually ends in /v1"

    def __repr__(self) -> str:
        return f"<ChatClient {self.model!r} at {self.base_url}>"


def _check_url(base_url: str) -> tuple[str, str, bool]:
    """Return the address without a slash at its end, its host, and whether it is https."""
    try:
        url = httpx2.URL(base_url.strip().rstrip("/"))
    except httpx2.InvalidURL as error:
        msg = f"not an address: {error}"
        raise PermanentError(msg, where=repr(base_url), hint="check --base-url") from None
    if url.scheme not in ("http", "https") or not url.host:
        msg = "expected an address that starts with http:// or https://"
        hint = "for example http://localhost:8000/v1"
        raise PermanentError(msg, where=repr(base_url), hint=hint)
    if url.path.endswith("/chat/completions"):
        msg = "expected the part before /chat/completions"
        hint = f"give {str(url).removesuffix('/chat/completions')}"
        raise PermanentError(msg, where=repr(base_url), hint=hint)
    return str(url).rstrip("/"), url.host, url.scheme == "https"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _looks_like_json(response: httpx2.Response) -> bool:
    """Whether the body was meant to be JSON; an empty body says nothing else."""
    body = response.text.lstrip()
    return "json" in response.headers.get("Content-Type", "").lower() or body[:1] in ("", "{", "[")


def _read_json(response: httpx2.Response) -> object:
    """Return the body as JSON; None when it is none (or null)."""
    try:
        return cast("object", response.json())
    except (ValueError, RecursionError):
        return None


def _list_models(listing: object) -> list[str]:
    data = _dig(listing, "data")
    names = (
        [_dig(entry, "id") for entry in cast("list[object]", data)]
        if isinstance(data, list)
        else []
    )
    return [name for name in names if isinstance(name, str)]


def _read_message(response: httpx2.Response) -> str:
    """Return what a refusal says in words, in one line."""
    answer = _read_json(response)
    for path in (("error", "message"), ("error",), ("message",), ("detail",)):
        message = _dig(answer, *path)
        if isinstance(message, str) and message.strip():
            return " ".join(message.split())
    return _show(response)


def _show(response: httpx2.Response) -> str:
    """Return the kind and the first characters of a body, in one line."""
    kind = response.headers.get("Content-Type", "a body of no type").partition(";")[0]
    body = " ".join(response.text.split())
    if not body:
        return f"an empty body ({kind})"
    more = "..." if len(body) > EXCERPT_CHARACTERS else ""
    return f"{kind} {body[:EXCERPT_CHARACTERS]!r}{more}"


def _describe(error: BaseException) -> str:
    """Return what a transport error says; many of them say nothing by themselves."""
    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        return "no answer in time"
    return str(error) or type(error).__name__


def _dig(value: object, *path: str | int) -> object:
    """Follow *path* through objects and arrays; None where it leads nowhere."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = cast("dict[str, object]", value).get(step)
        elif isinstance(step, int) and isinstance(value, list):
            items = cast("list[object]", value)
            value = items[step] if step < len(items) else None
        else:
            return None
    return value
