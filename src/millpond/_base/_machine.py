"""What this process may use of the machine: processors and memory, containers included."""

import os
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1024 * 1024
UNKNOWN_MEMORY_MB = 2048
"""Assumed where the system does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Processors and memory that are there for us, and where each figure comes from."""

    cpus: int
    cpus_source: str
    memory_mb: int
    memory_source: str


def read_machine(*, root: Path = Path("/")) -> Machine:
    """Read affinity, memory and control groups (versions 1 and 2) below *root*.

    Blocking, if only for a moment: call it before the work starts.
    """
    cpus, cpus_source = _affinity()
    quota, quota_source = _cpu_quota(root)
    if quota is not None and quota < cpus:
        cpus, cpus_source = quota, quota_source
    memory, memory_source = _available(root)
    limit, limit_source = _memory_left(root)
    if limit is not None and limit < memory:
        memory, memory_source = limit, limit_source
    return Machine(
        cpus=cpus, cpus_source=cpus_source, memory_mb=memory, memory_source=memory_source
    )


def _affinity() -> tuple[int, str]:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)), "CPU affinity"
    return os.cpu_count() or 1, "CPU count"


def _cpu_quota(root: Path) -> tuple[int | None, str]:
    parts = _read(root, "sys/fs/cgroup/cpu.max").split()
    source = "cgroup cpu.max"
    if not parts:
        source = "cgroup cpu.cfs_quota_us"
        parts = [
            _read(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
            _read(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us"),
        ]
    quota, period = _number(parts[0]), _number(parts[-1])
    if quota is None or period is None or quota <= 0 or period <= 0:
        return None, ""
    return max(1, quota // period), source


def _available(root: Path) -> tuple[int, str]:
    for line in _read(root, "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            kilobytes = _number(line.split()[1])
            if kilobytes is not None:
                return kilobytes // 1024, "MemAvailable"
    return UNKNOWN_MEMORY_MB, "assumed, the system does not tell"


def _memory_left(root: Path) -> tuple[int | None, str]:
    for limit_file, used_file in (
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        limit, used = _number(_read(root, limit_file)), _number(_read(root, used_file))
        if limit is not None:
            return max(0, limit - (used or 0)) // MEGABYTE, f"cgroup {Path(limit_file).name}"
    return None, ""


def _read(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
