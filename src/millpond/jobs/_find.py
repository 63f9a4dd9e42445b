"""Finding a job by its name: built in, in a file, or in a module."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from millpond.errors import InputError
from millpond.jobs._job import JobDefinition

BUILT_IN: Mapping[str, str] = {"codeeval": "millpond.jobs.codeeval:codeeval"}


def find_job(name: str) -> JobDefinition[...]:
    """Return the job called *name*.

    Args:
        name: A built-in name, ``file.py`` or ``file.py:name``, or ``package.module:name``.

    Raises:
        InputError: If there is none, with what was looked for.
    """
    place, _, attribute = BUILT_IN.get(name, name).partition(":")
    if place.endswith(".py"):
        return _pick(_load_file(Path(place)), attribute, where=place)
    if not attribute or not place:
        near = get_close_matches(name, BUILT_IN, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        msg = (
            f"no job of that name. {hint}A job is a built-in name ({', '.join(BUILT_IN)}),"
            f" a file `my_job.py[:name]`, or a module `package.module:name`"
        )
        raise InputError(msg, where=f"job {name!r}")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        hint = "pip install 'millpond[http]'" if error.name == "httpx2" else ""
        msg = f"cannot be imported: no module named {error.name!r}"
        raise InputError(msg, where=f"job {name!r}", hint=hint) from error
    except Exception as error:
        # The module is there; whatever its own code raises is for its author.
        raise _broken(error, where=f"job {name!r}") from error
    return _pick(module, attribute, where=name)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError("no such file", where=str(path), hint="check the path of the job")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("cannot be loaded as Python", where=str(path))
    module = importlib.util.module_from_spec(spec)
    # As with `python file.py`: the file may import its neighbours, and pickle finds it.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _broken(error, where=str(path)) from error
    return module


def _broken(error: Exception, *, where: str) -> InputError:
    """Return what to say of a file or module that is there, but raises when it is imported."""
    msg = f"cannot be imported: {type(error).__name__}: {error}"
    return InputError(msg, where=where, hint="mend it; -v shows where it comes from")


def _pick(module: ModuleType, attribute: str, *, where: str) -> JobDefinition[...]:
    jobs = {name: value for name, value in vars(module).items() if isinstance(value, JobDefinition)}
    if attribute:
        if attribute in jobs:
            return jobs[attribute]
        msg = f"no job called {attribute!r} there; jobs: {', '.join(jobs) or 'none'}"
        hint = "use one of these names" if jobs else "decorate an async function with @job"
        raise InputError(msg, where=where, hint=hint)
    if len(jobs) == 1:
        return next(iter(jobs.values()))
    msg = f"expected one job, found {', '.join(jobs) or 'none'}"
    hint = f"name it: {where}:NAME" if jobs else "decorate an async function with @job"
    raise InputError(msg, where=where, hint=hint)
