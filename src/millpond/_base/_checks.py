"""Checks of arguments: what was expected, what came."""

import math


def at_least_one(name: str, value: object) -> None:
    """Refuse anything but an integer >= 1 with a ValueError."""
    at_least(1, name, value)


def at_least(least: int, name: str, value: object) -> None:
    """Refuse anything but an integer >= *least* with a ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"`{name}` must be an integer >= {least}, got {value!r}"
        raise ValueError(msg)


def seconds(name: str, value: object, *, optional: bool = True) -> None:
    """Refuse anything but a finite number of seconds >= 0 with a ValueError."""
    not_negative(name, value, "seconds", optional=optional)


def not_negative(name: str, value: object, unit: str, *, optional: bool) -> None:
    """Refuse anything but a finite number >= 0 of *unit* with a ValueError."""
    if value is None and optional:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator] # `number` says so
        none = " or None" if optional else ""
        msg = f"`{name}` must be {unit} >= 0{none}, got {value!r}"
        raise ValueError(msg)
