"""What one program may use."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use: `wall_seconds` more than 0, the others whole and at least 1.

    A program that reaches one of them gets its verdict; none of them fails the run.
    Where the system sets a stricter limit already, that one stays.

    Example:
        >>> Limits(wall_seconds=2.5).memory_bytes // 2**20
        512
    """

    wall_seconds: float = 5.0
    """From the hand-over of the program to its end."""
    cpu_seconds: int = 10
    """Of each of its processes, threads included. Whole seconds: the system counts no finer."""
    memory_bytes: int = 512 << 20
    """Address space of each of its processes, what the interpreter takes included."""
    file_bytes: int = 16 << 20
    """Size of each file that it writes."""
    output_bytes: int = 64 << 10
    """Kept of what it prints on both outputs together; the rest is read and dropped."""
    open_files: int = 64
    """Open descriptors of each of its processes."""
    processes: int = 64
    """Processes and threads at once. Holds only where each sandbox has a user of its own."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "wall_seconds":
                if not 0 < value < float("inf"):
                    msg = f"`wall_seconds` must be > 0 and finite, got {value!r}"
                    raise ValueError(msg)
            elif not isinstance(value, int) or value < 1:
                msg = f"`{field.name}` must be a whole number >= 1, got {value!r}"
                raise ValueError(msg)
