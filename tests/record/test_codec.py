"""JSON as the record's codec: what goes in comes back, or is refused at once."""

import enum
import itertools
import math
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond._base import Status
from millpond.record import JSON

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def shape(value: object) -> object:
    """Return *value* with the types written beside it, so that 1, 1.0 and True differ."""
    if isinstance(value, list):
        return [shape(part) for part in value]
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    return type(value), repr(value)


@given(json_values)
def test_what_is_accepted_comes_back_equal_and_of_the_same_types(value: object) -> None:
    """Whatever the codec takes, it gives back; the rest it refuses."""
    try:
        text = JSON.encode(value)
    except ValueError:
        assert "inf" in repr(value) or has_surrogate_pair(value)
        return
    text.encode()  # storable
    assert shape(JSON.decode(text)) == shape(value)


def has_surrogate_pair(value: object) -> bool:
    """Whether a str in *value* holds a high surrogate and then a low one."""
    return any(
        0xD800 <= ord(one) < 0xDC00 <= ord(two) < 0xE000
        for text in [str(value)]
        for one, two in itertools.pairwise(text)
    )


class Colour(enum.IntEnum):
    """An int that JSON would turn into a plain one."""

    RED = 1


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((1, 2), r"^value is a tuple, which would not come back as one: \(1, 2\)"),
        ({"a": [0, {"b": (1,)}]}, r"^value\['a'\]\[1\]\['b'\] is a tuple"),
        ({1: "x"}, r"^value has the key 1, and JSON knows only keys of type str"),
        ({"a": {None: 0}}, r"^value\['a'\] has the key None"),
        (math.nan, "^value is nan, which JSON cannot hold"),
        ([1.0, -math.inf], r"^value\[1\] is -inf"),
        (Status.OK, "^value is a Status, which would not come back as one"),
        (Colour.RED, "^value is a Colour"),
        (OrderedDict(a=1), "^value is an OrderedDict"),
        ({1, 2}, "^value is a set"),
        (b"bytes", "^value is a bytes"),
        (object(), "^value is an object"),
        (LOOP, "contains itself"),
        pytest.param(10**5000, "4300", id="huge"),
        ("\ud83d\ude00", "surrogates"),
    ],
)
def test_a_value_that_would_come_back_otherwise_is_refused(value: object, words: str) -> None:
    """The message says where it is, what came, and why not."""
    with pytest.raises(ValueError, match=words):
        JSON.encode(value)


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "ünï 漢字 😀", "\u2028", ""])
def test_odd_text_survives(text: str) -> None:
    """Lone surrogates too, which models do produce, and which UTF-8 cannot hold."""
    encoded = JSON.encode({"text": text})
    encoded.encode()
    assert JSON.decode(encoded) == {"text": text}


def test_other_scripts_stay_readable() -> None:
    """People read the file with SQL."""
    assert JSON.encode("漢字") == '"漢字"'
