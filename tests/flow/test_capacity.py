"""Capacity: where each figure comes from, and what follows from it."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from millpond.errors import InputError
from millpond.flow import Capacity, Watermarks, Workers


def profile(folder: Path, content: object) -> Path:
    """Write a capacity profile."""
    path = folder / "profile.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# --- Physical ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "memory_mb", "asked", "explicit", "physical", "why"),
    [
        (2, 5600, None, 0, 4, "derived, bounded by CPU"),
        (4, 5600, None, 0, 8, "derived, bounded by CPU"),
        (2, 1100, None, 0, 1, "derived, bounded by memory"),
        (2, 1100, None, 3, 3, "given explicitly; MORE than memory allows (1: "),
        (2, 5600, 7, 0, 7, "7"),
        (2, 1100, 7, 0, 1, "7, bounded by memory"),
        (2, 5600, 7, 5, 5, "given explicitly"),
        (2, 400, None, 0, 1, "derived, bounded by memory"),
        (1, 100_000, None, 0, 2, "derived, bounded by CPU"),
        (64, 100_000, None, 0, 128, "derived, bounded by CPU"),
    ],
)
def test_physical(  # noqa: PLR0913, PLR0917 - the columns of the table
    tmp_path: Path,
    cpu: int,
    memory_mb: int,
    asked: int | None,
    explicit: int,
    physical: int,
    why: str,
) -> None:
    """Explicit as it is; a profile bounded by memory; else the smaller of two bounds."""
    capacity = Capacity.resolve(
        physical=explicit,
        profile=None if asked is None else profile(tmp_path, {"physical_cap": asked}),
        cpu=cpu,
        memory_mb=memory_mb,
    )
    assert capacity.physical == physical
    assert why in capacity.origins["physical"]
    assert why in capacity.explain()
    assert capacity.workers == Workers(supply=physical + 2, request=14, consume=physical + 2)


def test_an_explicit_value_within_memory_is_not_warned_about() -> None:
    """The warning means something."""
    capacity = Capacity.resolve(physical=3, cpu=2, memory_mb=5600)
    assert capacity.origins["physical"] == "given explicitly"


def test_the_machine_is_asked_for_what_was_not_given() -> None:
    """And the origin names where its figures came from."""
    capacity = Capacity.resolve()
    assert capacity.physical >= 1
    assert "derived, bounded by" in capacity.origins["physical"]
    assert "(given)" not in capacity.origins["physical"]
    assert "2 CPUs (given)" in Capacity.resolve(cpu=2).origins["physical"]
    assert "9000 MB (given)" in Capacity.resolve(memory_mb=9000).origins["physical"]


@pytest.mark.parametrize("environ", [None, {}])
def test_no_environment_is_read_unless_it_is_handed_over(
    environ: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library reads nothing behind the caller's back."""
    monkeypatch.setenv("PHYSICAL_CAP", "77")
    monkeypatch.setenv("MILLPOND_CAPACITY_PROFILE", "/does/not/exist")
    assert Capacity.resolve(cpu=2, memory_mb=5600, environ=environ).physical == 4


@pytest.mark.parametrize(
    ("environ", "physical", "origin"),
    [
        ({"PHYSICAL_CAP": "3"}, 3, "PHYSICAL_CAP=3"),
        ({"MILLPOND_PHYSICAL_CAP": "3"}, 3, "MILLPOND_PHYSICAL_CAP=3"),
        ({"MILLPOND_PHYSICAL_CAP": "3", "PHYSICAL_CAP": "5"}, 3, "MILLPOND_PHYSICAL_CAP=3"),
        ({"PHYSICAL_CAP": ""}, 4, "derived"),
        ({"PHYSICAL_CAP": "99"}, 99, "MORE than memory allows (9: "),
    ],
)
def test_the_environment(environ: dict[str, str], physical: int, origin: str) -> None:
    """With and without the prefix, which wins; empty counts as unset."""
    capacity = Capacity.resolve(cpu=2, memory_mb=5600, environ=environ)
    assert capacity.physical == physical
    assert origin in capacity.origins["physical"]


def test_precedence(tmp_path: Path) -> None:
    """Argument, then PHYSICAL_CAP, then the profile given, then the environment's."""
    given = profile(tmp_path, {"physical_cap": 7})
    other = tmp_path / "other.json"
    other.write_text('{"physical_cap": 6}', encoding="utf-8")
    environ = {"PHYSICAL_CAP": "5", "CAPACITY_PROFILE": str(other)}

    def resolve(**options: object) -> int:
        return Capacity.resolve(cpu=2, memory_mb=9000, **options).physical  # type: ignore[arg-type] # a table

    assert resolve(physical=9, profile=given, environ=environ) == 9
    assert resolve(profile=given, environ=environ) == 5
    del environ["PHYSICAL_CAP"]
    assert resolve(profile=given, environ=environ) == 7
    assert resolve(environ=environ) == 6
    assert resolve(environ={"MILLPOND_CAPACITY_PROFILE": str(given), **environ}) == 7
    assert resolve(environ={"CAPACITY_PROFILE": ""}) == 4


@pytest.mark.parametrize("text", ["many", "-1", "2.5", "0x10"])
@pytest.mark.parametrize("name", ["PHYSICAL_CAP", "MILLPOND_PHYSICAL_CAP"])
def test_a_variable_that_is_no_number_is_an_error_that_names_it(name: str, text: str) -> None:
    """Not the default in silence."""
    expected = f"environment variable {name}: expected an integer >= 1, got {text!r}"
    with pytest.raises(InputError, match=f"^{re.escape(expected)}"[:60]) as caught:
        Capacity.resolve(cpu=2, memory_mb=5600, environ={name: text})
    assert caught.value.where == f"environment variable {name}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON: "),
        ("", "is not JSON: "),
        ("[1]", "expected an object with `physical_cap`, got [1]"),
        ("{}", "expected an object with `physical_cap`, got {}"),
        ("7", "expected an object with `physical_cap`, got 7"),
        ('{"physical_cap": 0}', "physical_cap: expected an integer >= 1, got 0"),
        ('{"physical_cap": -2}', "physical_cap: expected an integer >= 1, got -2"),
        ('{"physical_cap": 1.5}', "physical_cap: expected an integer >= 1, got 1.5"),
        ('{"physical_cap": true}', "physical_cap: expected an integer >= 1, got True"),
        ('{"physical_cap": null}', "physical_cap: expected an integer >= 1, got None"),
        ('{"physical_cap": "lots"}', "physical_cap: expected an integer >= 1, got 'lots'"),
    ],
)
def test_a_profile_that_is_not_as_it_must_be(tmp_path: Path, content: str, message: str) -> None:
    """An error that names the file and the value, however the profile was given."""
    path = profile(tmp_path, content)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        Capacity.resolve(cpu=2, memory_mb=5600, profile=path)
    assert str(path) in str(caught.value)
    with pytest.raises(InputError, match=re.escape(message)):
        Capacity.resolve(cpu=2, memory_mb=5600, environ={"CAPACITY_PROFILE": str(path)})


def test_a_profile_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, or not text."""
    missing = tmp_path / "missing.json"
    with pytest.raises(InputError, match="cannot be read: No such file") as caught:
        Capacity.resolve(profile=missing)
    assert str(missing) in str(caught.value)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Capacity.resolve(profile=tmp_path)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not JSON"):
        Capacity.resolve(profile=binary)


def test_an_explicit_value_does_not_read_the_profile(tmp_path: Path) -> None:
    """It would not count, so it may be broken."""
    broken = profile(tmp_path, "{")
    assert Capacity.resolve(physical=3, profile=broken, cpu=2, memory_mb=5600).physical == 3


# --- The other three --------------------------------------------------------------------


def test_defaults_of_the_other_three_and_their_origins() -> None:
    """Three different objects, never merged."""
    capacity = Capacity.resolve(cpu=2, memory_mb=5600)
    assert (capacity.t_slots, capacity.q_slots, capacity.q_pending) == (8, 8, 12)
    assert {capacity.origins[name] for name in ("t_slots", "q_slots", "q_pending")} == {"default"}
    given = Capacity.resolve(cpu=2, memory_mb=5600, t_slots=3, q_slots=5, q_pending=7)
    assert (given.t_slots, given.q_slots, given.q_pending) == (3, 5, 7)
    assert {given.origins[name] for name in ("t_slots", "q_slots", "q_pending")} == {"given"}
    assert given.workers == Workers(supply=6, request=9, consume=6)


@pytest.mark.parametrize("name", ["physical", "t_slots", "q_slots", "q_pending"])
def test_refuses_what_cannot_be(name: str) -> None:
    """0 asks `resolve` for the default; the class itself wants a real figure."""
    wrong: list[object] = [-1, 1.5, True, "3"]
    for value in wrong:
        with pytest.raises(ValueError, match=f"`{name}` must be an integer >= 0, got"):
            Capacity.resolve(cpu=2, memory_mb=5600, **{name: value})  # type: ignore[arg-type] # wrong on purpose
    one = Capacity(physical=1)
    with pytest.raises(ValueError, match=f"`{name}` must be an integer >= 1, got 0"):
        dataclasses.replace(one, **{name: 0})  # type: ignore[arg-type] # a table


@pytest.mark.parametrize("name", ["cpu", "memory_mb"])
@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_refuses_facts_of_a_machine_that_cannot_be(name: str, value: object) -> None:
    """Given by hand they decide, so they are looked at like the rest."""
    facts = {"cpu": 2, "memory_mb": 5600, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must be an integer >= 0, got {value}"):
        Capacity.resolve(**facts)  # type: ignore[arg-type] # wrong on purpose


# --- Watermarks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("physical", "t_slots", "high", "low"),
    [(1, 8, 4, 2), (6, 8, 6, 3), (10, 8, 8, 4), (1, 1, 1, 0), (2, 2, 2, 1), (3, 8, 4, 2)],
)
def test_t_marks(physical: int, t_slots: int, high: int, low: int) -> None:
    """``min(t_slots, max(4, physical))`` and half of it."""
    assert Capacity(physical=physical, t_slots=t_slots).t_marks == Watermarks(high=high, low=low)


@pytest.mark.parametrize("q_pending", [1, 2, 4, 12])
def test_q_marks(q_pending: int) -> None:
    """One below the cap, so that the stream stays steady."""
    marks = Capacity(physical=1, q_pending=q_pending).q_marks
    assert marks == Watermarks(high=q_pending, low=q_pending - 1)


def test_how_many_t_can_live() -> None:
    """A T exists before it has a slot: one more per supply worker."""
    assert Capacity(physical=2, t_slots=2).most_live_t == 6
    assert Capacity(physical=2, t_slots=4).most_live_t == 8


def test_explain_tells_every_figure() -> None:
    """Value, origin, and what follows: one truth for text and code."""
    capacity = Capacity.resolve(cpu=2, memory_mb=5600, t_slots=3)
    text = capacity.explain()
    for line in (
        r"physical +4 +derived, bounded by CPU: 2 CPUs \(given\) x 2",
        r"t_slots +3 +given",
        r"q_slots +8 +default",
        r"q_pending +12 +default",
        r"workers +6 supply, 14 request, 6 consume",
        r"t marks +pause at 3, resume at 1",
        r"q marks +pause at 12, resume at 11",
        r"live T +at most 9 ",
    ):
        assert re.search(f"^{line}", text, re.MULTILINE), line


def test_two_that_agree_in_figures_are_equal() -> None:
    """Whatever the figures' origins."""
    resolved = Capacity.resolve(physical=4, cpu=2, memory_mb=5600)
    assert resolved == Capacity(physical=4)
