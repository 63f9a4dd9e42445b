"""Exit codes, and the three lines of an error message."""

import enum
import os
import sys
import traceback

from millpond.errors import InputError, MillpondError, RecordError, UsageError


class Exit(enum.IntEnum):
    """What the command returns. Of several, the most serious wins."""

    OK = 0
    ITEMS_FAILED = 1
    """Finished, but something is not ok: items, lines of input, or the record."""
    USAGE = 2
    """Wrong usage, settings or input; nothing was begun, or nothing can succeed."""
    VIOLATED = 4
    """A promise of the library or the job does not hold."""
    INTERRUPTED = 130
    """Ctrl+C; the part that is finished is kept."""
    TERMINATED = 143
    """SIGTERM; the same."""


SERIOUSNESS = (
    Exit.VIOLATED,
    Exit.USAGE,
    Exit.INTERRUPTED,
    Exit.TERMINATED,
    Exit.ITEMS_FAILED,
    Exit.OK,
)
"""The most serious first."""


def most_serious(codes: "set[Exit]") -> Exit:
    """Return the one that wins; OK of none."""
    return next((code for code in SERIOUSNESS if code in codes), Exit.OK)


def code_of(error: BaseException) -> Exit:
    """Return the exit code for an error that ended the command."""
    if isinstance(error, InputError | RecordError | UsageError):
        return Exit.USAGE
    return Exit.ITEMS_FAILED


def program() -> str:
    """Return how this command was called, for lines that can be typed again."""
    return os.environ.get("MILLPOND_PROGRAM") or "millpond"


def printable(text: str) -> str:
    """Make control characters visible: text of others must not steer the terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def one_line(text: str) -> str:
    """Return *text* on one line."""
    return " ".join(text.split())


def put(text: str) -> None:
    """Write a result to standard output."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a line for people to standard error; a closed terminal is no reason to fail."""
    try:
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def say_error(error: BaseException, *, verbose: bool, where: str = "") -> None:
    """Say what went wrong, where, and what to do; the traceback only when asked for."""
    what, place, hint = parts_of(error, where=where)
    say(f"millpond: {what}")
    if place:
        say(f"  where: {place}")
    if hint:
        say(f"  to do: {hint}")
    if verbose:
        say("".join(traceback.format_exception(error)).rstrip())


def parts_of(error: BaseException, *, where: str = "") -> tuple[str, str, str]:
    """Return what went wrong, where, and what to do; each may be empty but the first."""
    hint = str(getattr(error, "hint", ""))
    place = str(getattr(error, "where", "") or getattr(error, "path", "") or where)
    if isinstance(error, MillpondError):
        what = str(error)
        for known in (f"{place}: ", f" ({place})", f"; {hint}"):
            what = what.replace(known, "") if len(known) > 3 else what  # noqa: PLR2004 - empty
    else:
        what = f"{type(error).__name__}: {error}"
        hint = hint or "add -v to see where it came from"
    return what, place, hint
