"""How a value becomes text, and comes back equal to itself."""

import json
import math
import reprlib
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast, final

_PLAIN = frozenset({str, int, bool, type(None)})
_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_dumps_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Codec(Protocol):
    """Turns answers and results into text, and back.

    Both methods may raise anything to say that they cannot. `encode` runs in the event
    loop's thread, so it must be quick; `decode` runs in the record's own thread while a
    record is resumed.
    """

    def encode(self, value: object) -> str:
        """Return *value* as text."""
        ...

    def decode(self, text: str) -> object:
        """Return the value that *text* was made from."""
        ...


@final
class JSONCodec:
    """JSON, and only what comes back from it equal, and of the same types.

    That is: None, bool, int, finite float, str, and lists and dicts of these with str
    keys. Not a tuple (it would come back as a list), not a subclass such as an enum (it
    would come back as its base), not NaN or infinity (JSON has no word for them), not a
    dict with other keys (they would come back as str).

    Example:
        >>> JSON.decode(JSON.encode({"text": "hello", "tokens": [1, 2]}))
        {'text': 'hello', 'tokens': [1, 2]}
        >>> JSON.encode({"span": (1, 2)})
        Traceback (most recent call last):
        ValueError: value['span'] is a tuple, which would not come back as one: (1, 2)
    """

    def encode(self, value: object) -> str:
        """Return *value* as JSON.

        Raises:
            ValueError: If it would not come back as it is. The message says where.
        """
        try:
            unfit = _find_unfit(value)
            if unfit is not None:
                where, why = unfit
                msg = f"value{where} {why}"
                raise ValueError(msg)
            text = _dumps(value)
            if not is_encodable(text):
                text = _dumps_ascii(value)  # a lone surrogate survives as an escape
                if self.decode(text) != value:
                    msg = "a str in it holds two surrogates that would come back as one character"
                    raise ValueError(msg)
        except RecursionError:
            msg = "it is nested too deeply, or contains itself"
            raise ValueError(msg) from None
        return text

    def decode(self, text: str) -> object:
        """Return the value that *text* was made from."""
        return json.loads(text)

    def __repr__(self) -> str:
        return "JSON"


JSON: Final = JSONCodec()
"""The codec that a record uses unless told otherwise."""


def is_encodable(text: str) -> bool:
    """Whether *text* can be stored: a str with lone surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Return *text* with lone surrogates, if it has any, written as escapes."""
    return text if is_encodable(text) else text.encode("utf-8", "backslashreplace").decode()


def lenient_json(value: object) -> str:
    """Return *value* as JSON for reading with SQL; a tuple becomes a list.

    Raises:
        TypeError: If JSON has no form for it.
        ValueError: If it holds NaN or infinity, or contains itself.
    """
    text = _dumps(value)
    return text if is_encodable(text) else _dumps_ascii(value)


def _find_unfit(value: object) -> tuple[str, str] | None:
    """Return where in *value* is something that would not come back, and why."""
    kind = type(value)
    parts: Iterable[tuple[Any, Any]] = ()
    why = ""
    if kind is list:
        parts = enumerate(cast("list[Any]", value))
    elif kind is dict:
        named = cast("dict[Any, Any]", value)
        parts = named.items()
        odd = [name for name in named if type(name) is not str]
        if odd:
            why = f"has the key {reprlib.repr(odd[0])}, and JSON knows only keys of type str"
    elif kind is float:
        if not math.isfinite(cast("float", value)):
            why = f"is {value!r}, which JSON cannot hold"
    elif kind not in _PLAIN:
        article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
        why = f"is {article} {kind.__name__}, which would not come back as one"
        why = f"{why}: {reprlib.repr(value)}"
    if why:
        return "", why
    for name, part in parts:
        if type(part) not in _PLAIN and (unfit := _find_unfit(part)) is not None:
            return f"[{name!r}]{unfit[0]}", unfit[1]
    return None
