"""What became of a program, derived from the facts that the zygote saw."""

import enum
import signal
from dataclasses import dataclass
from typing import TypedDict

from millpond.jobs.codeeval._limits import Limits


class VerdictKind(enum.StrEnum):
    """How a program ended."""

    PASSED = "passed"
    """It ran to its end."""
    WRONG = "wrong"
    """An assertion failed."""
    SYNTAX_ERROR = "syntax_error"
    """It is no Python that this interpreter can compile."""
    EXCEPTION = "exception"
    """It raised something else."""
    TIMEOUT = "timeout"
    """It used up its wall clock time or its processor time."""
    MEMORY = "memory"
    """It used up its memory."""
    CRASHED = "crashed"
    """A signal ended it, or it left early: there was no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one program."""

    kind: VerdictKind
    detail: str
    """One line for people: why. Empty when it passed."""
    line: int | None = None
    """The last line of the program that ran before it failed, counted from 1."""
    seconds: float
    """From the hand-over of the program to its end."""
    cpu_seconds: float
    """Processor time of its process, and of those that it waited for."""
    output: str
    """What it printed on both outputs, capped; what is not UTF-8 is replaced."""
    truncated: bool
    """Whether there was more output than was kept."""

    @property
    def passed(self) -> bool:
        """Whether the program ran to its end."""
        return self.kind is VerdictKind.PASSED


class Facts(TypedDict):
    """The zygote's "ended" event; `_zygote.Zygote._ended` says what the fields mean."""

    begun: bool
    report: list[str] | None
    killed: str
    status: int
    seconds: float
    cpu_seconds: float
    output: str
    truncated: bool


def judge(facts: Facts, limits: Limits) -> Verdict:
    """Derive the verdict. A genuine report comes first, whatever happened after it."""
    kind, line, detail = _reported(facts["report"]) or _unreported(facts, limits)
    return Verdict(
        kind=kind,
        detail=detail,
        line=line,
        seconds=facts["seconds"],
        cpu_seconds=facts["cpu_seconds"],
        output=facts["output"],
        truncated=facts["truncated"],
    )


def _reported(report: list[str] | None) -> tuple[VerdictKind, int | None, str] | None:
    if report is None:
        return None
    word, number, detail = report
    line = int(number) if number.isdecimal() else 0
    if word == "exit":
        return VerdictKind.CRASHED, line or None, f"exited early: {detail}"
    if word not in set(VerdictKind):
        return None  # the child wrote it, and a child is not trusted
    return VerdictKind(word), line or None, detail


def _unreported(facts: Facts, limits: Limits) -> tuple[VerdictKind, None, str]:
    status = facts["status"]
    if facts["killed"] == "wall":
        return VerdictKind.TIMEOUT, None, f"still running after {limits.wall_seconds:g} s"
    # The limit is kept by sampling, and may strike before the exact count gets there.
    spent = facts["cpu_seconds"] >= 0.8 * limits.cpu_seconds
    if status == -signal.SIGXCPU or (status == -signal.SIGKILL and spent):
        return VerdictKind.TIMEOUT, None, f"used {limits.cpu_seconds} s of processor time"
    if status >= 0:
        why = f"exited early with status {status}, before its end"
    elif status == -signal.SIGKILL:
        # Ours, because its channel had closed, or the system's.
        why = (
            "killed (SIGKILL): the machine ran out of memory, or the program closed the"
            " descriptor that carries its verdict"
        )
    else:
        why = f"killed by a signal ({signal_name(-status)})"
    return VerdictKind.CRASHED, None, why


def signal_name(number: int) -> str:
    """Return what people call this signal."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
