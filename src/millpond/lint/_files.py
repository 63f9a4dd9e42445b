"""Which files a path stands for."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from millpond.errors import InputError

SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
"""Folders that hold what others have written, or nothing to read."""


def python_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files to check, each once: a file itself, a folder with all below it.

    Hidden folders, virtual environments and `SKIPPED` are passed over, except where they
    are named themselves. Links to folders are not followed.

    Raises:
        InputError: If a path does not exist, or nothing is left to check.
    """
    found: dict[Path, None] = {}
    given = list(paths)
    for path in given:
        if path.is_dir():
            found.update(dict.fromkeys(_below(path)))
        elif path.exists():
            found[path] = None
        else:
            msg = "no such file or folder"
            raise InputError(msg, where=str(path), hint="name files or folders with Python code")
    if not found:
        msg = "there is no Python file to check"
        where = ", ".join(map(str, given))
        raise InputError(msg, where=where, hint="name a file, or a folder that holds some")
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        here = Path(place)
        # In place: that is how `os.walk` is told where not to go.
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not (here / name / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("."):
                yield here / name
