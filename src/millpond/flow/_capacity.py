"""How much may go on at once: four capacities, and what follows from them.

Precedence of the physical capacity: an explicit ``PHYSICAL_CAP`` is taken as it is;
else the ``CAPACITY_PROFILE``, a JSON file ``{"physical_cap": n}`` read once, bounded by
memory; else processors and memory decide.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, final

from millpond._base import at_least, at_least_one, read_machine
from millpond.errors import InputError
from millpond.flow._gate import Watermarks

PER_CPU = 2
MB_KEPT_FREE = 500
MB_PER_UNIT = 512
SPARE_WORKERS = 2
"""Workers beyond the permits, so that one always waits ready."""
LEAST_T_HIGH = 4

DEFAULT_T_SLOTS = 8
DEFAULT_Q_SLOTS = 8
DEFAULT_Q_PENDING = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many loops serve each stage. Not the tuning knob: the capacities are."""

    supply: int
    request: int
    consume: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The capacities of a pipeline.

    Args:
        physical: Heavy local operations at once.
        t_slots: Local resources in stock or in use.
        q_slots: Returned answers in stock or in use.
        q_pending: Requests in flight.
        origins: Where each value came from, and what bounded it.

    Example:
        >>> Capacity.resolve(cpu=2, memory_mb=5600).physical
        4
        >>> Capacity.resolve(cpu=2, memory_mb=1100).physical
        1
    """

    physical: int
    t_slots: int = DEFAULT_T_SLOTS
    q_slots: int = DEFAULT_Q_SLOTS
    q_pending: int = DEFAULT_Q_PENDING
    origins: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)

    def __post_init__(self) -> None:
        for name in ("physical", "t_slots", "q_slots", "q_pending"):
            at_least_one(name, getattr(self, name))

    @classmethod
    def resolve(  # noqa: PLR0913 - one per source
        cls,
        *,
        physical: int | None = None,
        t_slots: int = 0,
        q_slots: int = 0,
        q_pending: int = 0,
        profile: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        cpu: int | None = None,
        memory_mb: int | None = None,
    ) -> "Capacity":
        """Settle every value. Reads the profile and the machine once; call it at start.

        Args:
            physical: Taken as it is, not bounded by memory. None or 0 derives it.
            t_slots: 0 takes the default of 8.
            q_slots: 0 takes the default of 8.
            q_pending: 0 takes the default of 12.
            profile: JSON file ``{"physical_cap": n}``.
            environ: Where ``PHYSICAL_CAP`` and ``CAPACITY_PROFILE`` are looked up, also
                with the prefix ``MILLPOND_``. None: no environment is read.
            cpu: Processors; None asks the machine.
            memory_mb: Available memory; None asks the machine.

        Raises:
            InputError: If the profile or a variable is not as it must be.
            ValueError: If an argument is negative or not an integer.
        """
        given = {"t_slots": t_slots, "q_slots": q_slots, "q_pending": q_pending}
        for name, value in {"physical": 0 if physical is None else physical, **given}.items():
            at_least(0, name, value)
        for name, fact in {"cpu": cpu, "memory_mb": memory_mb}.items():
            if fact is not None:
                at_least(0, name, fact)
        bound = _Bound.of(cpu, memory_mb)
        value, origin = _physical(physical, profile, environ or {}, bound)
        defaults = {
            "t_slots": DEFAULT_T_SLOTS,
            "q_slots": DEFAULT_Q_SLOTS,
            "q_pending": DEFAULT_Q_PENDING,
        }
        origins = {"physical": origin}
        for name in defaults:
            origins[name] = "given" if given[name] else "default"
        return cls(
            physical=value,
            t_slots=t_slots or DEFAULT_T_SLOTS,
            q_slots=q_slots or DEFAULT_Q_SLOTS,
            q_pending=q_pending or DEFAULT_Q_PENDING,
            origins=origins,
        )

    @property
    def workers(self) -> Workers:
        """Worker counts. One request per worker, so they must exceed the pending cap."""
        return Workers(
            supply=self.physical + SPARE_WORKERS,
            request=self.q_pending + SPARE_WORKERS,
            consume=self.physical + SPARE_WORKERS,
        )

    @property
    def t_marks(self) -> Watermarks:
        """Where the supply of T pauses and resumes unless said otherwise."""
        high = min(self.t_slots, max(LEAST_T_HIGH, self.physical))
        return Watermarks(high=high, low=high // 2)

    @property
    def q_marks(self) -> Watermarks:
        """Where requests pause and resume unless said otherwise.

        One below the cap keeps the stream steady; a lower mark makes requests come in
        bursts and leaves part of the pending capacity idle.
        """
        return Watermarks(high=self.q_pending, low=self.q_pending - 1)

    @property
    def most_live_t(self) -> int:
        """How many T can be alive at worst, without the gate: a slot is taken after T exists."""
        return self.t_slots + self.workers.supply

    def explain(self) -> str:
        """Say for each value where it came from and what bounded it."""
        workers, t, q = self.workers, self.t_marks, self.q_marks
        lines = [
            f"{name:<10} {getattr(self, name):>5}  {self.origins.get(name, 'given')}"
            for name in ("physical", "t_slots", "q_slots", "q_pending")
        ]
        return "\n".join(
            [
                *lines,
                (
                    f"workers    {workers.supply} supply, {workers.request} request,"
                    f" {workers.consume} consume (capacity + {SPARE_WORKERS})"
                ),
                f"t marks    pause at {t.high}, resume at {t.low}",
                f"q marks    pause at {q.high}, resume at {q.low}",
                (
                    f"live T     at most {self.most_live_t} (t_slots + physical + {SPARE_WORKERS}),"
                    f" and those being disposed of after their slot's wait was given up"
                ),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """What processors and memory allow."""

    by_cpu: int
    by_memory: int
    facts: str

    @classmethod
    def of(cls, cpu: int | None, memory_mb: int | None) -> "_Bound":
        cpu_fact, memory_fact = "given", "given"
        if cpu is None or memory_mb is None:
            machine = read_machine()
            if cpu is None:
                cpu, cpu_fact = machine.cpus, machine.cpus_source
            if memory_mb is None:
                memory_mb, memory_fact = machine.memory_mb, machine.memory_source
        return cls(
            by_cpu=max(1, cpu * PER_CPU),
            by_memory=max(1, max(0, memory_mb - MB_KEPT_FREE) // MB_PER_UNIT),
            facts=f"{cpu} CPUs ({cpu_fact}) x {PER_CPU}, {memory_mb} MB ({memory_fact})"
            f" - {MB_KEPT_FREE} over {MB_PER_UNIT}",
        )


def _physical(
    explicit: int | None,
    profile: str | Path | None,
    environ: Mapping[str, str],
    bound: _Bound,
) -> tuple[int, str]:
    if explicit:
        return explicit, _warned("given explicitly", explicit, bound)
    name, text = _variable(environ, "PHYSICAL_CAP")
    if text:
        value = _positive(text, where=f"environment variable {name}")
        return value, _warned(f"{name}={text}", value, bound)
    where = "profile"
    if profile is None:
        name, text = _variable(environ, "CAPACITY_PROFILE")
        profile, where = text or None, name
    if profile is not None:
        asked = _read_profile(Path(profile))
        value = min(asked, bound.by_memory)
        limited = f", bounded by memory ({bound.facts})" if value < asked else ""
        return value, f"{where} {profile}: {asked}{limited}"
    value = min(bound.by_cpu, bound.by_memory)
    which = "CPU" if bound.by_cpu <= bound.by_memory else "memory"
    return value, f"derived, bounded by {which}: {bound.facts}"


def _warned(origin: str, value: int, bound: _Bound) -> str:
    if value <= bound.by_memory:
        return origin
    return f"{origin}; MORE than memory allows ({bound.by_memory}: {bound.facts})"


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    for candidate in (f"MILLPOND_{name}", name):
        if environ.get(candidate):
            return candidate, environ[candidate]
    return name, ""


def _positive(value: object, *, where: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        msg = f"expected an integer >= 1, got {value!r}"
        raise InputError(msg, where=where, hint="unset it to derive the capacity")
    return number


def _read_profile(path: Path) -> int:
    hint = 'it must hold {"physical_cap": n} with an integer n >= 1'
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot be read: {error.strerror}"
        raise InputError(msg, where=f"capacity profile {path}", hint=hint) from error
    except ValueError as error:
        msg = f"is not JSON: {error}"
        raise InputError(msg, where=f"capacity profile {path}", hint=hint) from error
    if not isinstance(content, dict) or "physical_cap" not in content:
        msg = f"expected an object with `physical_cap`, got {content!r}"
        raise InputError(msg, where=f"capacity profile {path}", hint=hint)
    value = cast("dict[str, object]", content)["physical_cap"]
    return _positive(value, where=f"capacity profile {path}, physical_cap")
