"""read_machine: what containers allow, from files of either kind of control group."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from millpond._base import Machine, read_machine

V2 = "sys/fs/cgroup/"
V1_CPU = "sys/fs/cgroup/cpu/"
V1_MEMORY = "sys/fs/cgroup/memory/"
MB = 1024 * 1024
NO_LIMIT_V1 = 9223372036854771712


def machine(root: Path, files: Mapping[str, object], *, available_mb: int | None = 8000) -> Machine:
    """Read a machine whose root holds *files*."""
    if available_mb is not None:
        files = {**files, "proc/meminfo": meminfo(available_mb)}
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n", encoding="ascii")
    return read_machine(root=root)


def meminfo(available_mb: int) -> str:
    """Return a file as the kernel writes it."""
    return f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:   {available_mb * 1024} kB"


@pytest.fixture(autouse=True)
def _sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The affinity is the kernel's answer, not a file: fix it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def test_without_control_groups_affinity_and_memory_count(tmp_path: Path) -> None:
    """The plain machine."""
    assert machine(tmp_path, {}) == Machine(
        cpus=16, cpus_source="CPU affinity", memory_mb=8000, memory_source="MemAvailable"
    )


def test_without_anything_memory_is_assumed_and_says_so(tmp_path: Path) -> None:
    """No /proc either, as on macOS."""
    found = machine(tmp_path, {}, available_mb=None)
    assert found.memory_mb == 2048
    assert "assumed" in found.memory_source


def test_without_affinity_processors_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems without `sched_getaffinity`, and one that cannot even count."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert (machine(tmp_path, {}).cpus, machine(tmp_path, {}).cpus_source) == (6, "CPU count")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine(tmp_path, {}).cpus == 1


@pytest.mark.parametrize(
    ("content", "cpus", "source"),
    [
        ("200000 100000", 2, "cgroup cpu.max"),
        ("350000 100000", 3, "cgroup cpu.max"),
        ("50000 100000", 1, "cgroup cpu.max"),
        ("max 100000", 16, "CPU affinity"),
        ("9900000 100000", 16, "CPU affinity"),
        ("", 16, "CPU affinity"),
        ("rubbish here", 16, "CPU affinity"),
        ("100000 0", 16, "CPU affinity"),
    ],
)
def test_version_2_cpu_quota(tmp_path: Path, content: str, cpus: int, source: str) -> None:
    """Rounded down, at least one, and only when it is the smaller."""
    found = machine(tmp_path, {V2 + "cpu.max": content})
    assert (found.cpus, found.cpus_source) == (cpus, source)


@pytest.mark.parametrize(
    ("quota", "cpus", "source"),
    [
        (400000, 4, "cgroup cpu.cfs_quota_us"),
        (20000, 1, "cgroup cpu.cfs_quota_us"),
        (-1, 16, "CPU affinity"),
    ],
)
def test_version_1_cpu_quota(tmp_path: Path, quota: int, cpus: int, source: str) -> None:
    """-1 means none there."""
    files = {V1_CPU + "cpu.cfs_quota_us": quota, V1_CPU + "cpu.cfs_period_us": 100000}
    found = machine(tmp_path, files)
    assert (found.cpus, found.cpus_source) == (cpus, source)


@pytest.mark.parametrize(
    ("limit", "used", "memory_mb", "source"),
    [
        (4096 * MB, 1024 * MB, 3072, "cgroup memory.max"),
        (1024 * MB, 2048 * MB, 0, "cgroup memory.max"),
        ("max", 1024 * MB, 8000, "MemAvailable"),
        (99999 * MB, 1024 * MB, 8000, "MemAvailable"),
        ("rubbish", 0, 8000, "MemAvailable"),
    ],
)
def test_version_2_memory(
    tmp_path: Path, limit: object, used: int, memory_mb: int, source: str
) -> None:
    """What is left of the limit, when that is less than the machine has."""
    found = machine(tmp_path, {V2 + "memory.max": limit, V2 + "memory.current": used})
    assert (found.memory_mb, found.memory_source) == (memory_mb, source)


@pytest.mark.parametrize(
    ("limit", "used", "memory_mb", "source"),
    [
        (2048 * MB, 48 * MB, 2000, "cgroup memory.limit_in_bytes"),
        (NO_LIMIT_V1, 48 * MB, 8000, "MemAvailable"),
    ],
)
def test_version_1_memory(
    tmp_path: Path, limit: int, used: int, memory_mb: int, source: str
) -> None:
    """No limit is a huge number there."""
    files = {V1_MEMORY + "memory.limit_in_bytes": limit, V1_MEMORY + "memory.usage_in_bytes": used}
    found = machine(tmp_path, files)
    assert (found.memory_mb, found.memory_source) == (memory_mb, source)


@pytest.mark.parametrize("name", [V2 + "memory.max", V1_MEMORY + "memory.limit_in_bytes"])
def test_a_memory_limit_counts_although_its_use_is_not_told(tmp_path: Path, name: str) -> None:
    """Then the whole limit is taken as free, rather than all of the machine."""
    found = machine(tmp_path, {name: 1024 * MB})
    assert (found.memory_mb, found.memory_source) == (1024, f"cgroup {Path(name).name}")


def test_files_that_are_not_text_count_as_absent(tmp_path: Path) -> None:
    """A strange file must not keep a run from starting."""
    (tmp_path / V2).mkdir(parents=True)
    (tmp_path / V2 / "cpu.max").write_bytes(b"\xff\xfe")
    (tmp_path / V2 / "memory.max").mkdir()
    assert machine(tmp_path, {}).cpus == 16


def test_this_very_machine_can_be_read() -> None:
    """With the real root: whatever it says, it is usable."""
    found = read_machine()
    assert found.cpus >= 1
    assert found.memory_mb >= 0
    assert found.cpus_source
    assert found.memory_source
