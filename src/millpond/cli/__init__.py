"""The ``millpond`` command."""

import importlib.util
import sys

__all__ = ["main"]

NEEDED = ("cyclopts", "rich")
"""The library itself works without them."""


def main() -> None:
    """Run the command with the arguments of this process, and exit with its code."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"millpond: the command line needs {' and '.join(missing)}, not installed here\n"
            "  to do: pip install 'millpond[cli]'\n"
        )
        sys.exit(2)
    try:
        from millpond.cli._app import run_command_line  # noqa: PLC0415 - needs what was checked
    except KeyboardInterrupt:
        sys.exit(130)  # while modules were loading: nothing was begun
    sys.exit(run_command_line(sys.argv[1:]))
