"""From the parameters of a job to options of the command, and to settings of the record."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, cast

from cyclopts import App, Parameter, Token

from millpond.errors import InputError, UsageError
from millpond.jobs import JobDefinition

Settings = dict[str, object]
MISSING = inspect.Parameter.empty


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What every job understands."""

    resume: str | None = None
    """Go on with this run (an id, a folder, or `last`): only what is missing is run, and
    answers that it has are not asked for again."""
    force: Annotated[bool, Parameter(negative="")] = False
    """With --resume: go on although the options differ from the recorded ones, this time."""
    json: Annotated[bool, Parameter(negative="")] = False
    """Print one JSON object on standard output, and nothing else there."""
    runs_dir: Path | None = None
    """Folder of the runs; else MILLPOND_RUNS_DIR, else ./millpond-runs."""
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False
    """Show tracebacks."""


COMMON_OPTIONS = {
    *("--" + field.name.replace("_", "-") for field in fields(RunOptions)),
    "--help",
    "--run-options",
}


def parse(
    definition: JobDefinition[...], name: str, tokens: Sequence[str]
) -> tuple[dict[str, Any], RunOptions] | None:
    """Read the options of a job.

    Returns:
        The options that were given (defaults are not filled in) and those that every
        job has; None when help was printed instead.

    Raises:
        CycloptsError: If an option is unknown, missing, or has a value of the wrong kind.
    """
    asks_for_help = any(token in ("--help", "-h") for token in tokens)
    parameters = [
        # Not required here: a resumed run has them in its record, and `complete` looks.
        _strict(parameter)
        if asks_for_help or parameter.default is not MISSING
        else _strict(parameter).replace(default=None)
        for parameter in definition.signature.parameters.values()
    ]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            msg = f"job {definition.name!r} takes `{parameter}`; an option needs a name of its own"
            raise UsageError(msg)
        if option_name(parameter.name) in COMMON_OPTIONS:
            msg = (
                f"job {definition.name!r} has a parameter {parameter.name!r}, but"
                f" {option_name(parameter.name)} is an option of every job; rename it"
            )
            raise UsageError(msg)
    common = inspect.Parameter(
        "run_options", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=RunOptions
    )

    def command(**options: object) -> dict[str, object]:
        return options

    command.__signature__ = inspect.Signature([*parameters, common])  # type: ignore[attr-defined] # read by inspect
    command.__annotations__ = {p.name: p.annotation for p in (*parameters, common)}
    command.__doc__ = definition.__doc__
    inner = App(name=f"millpond run {name}", version_flags=[])
    inner.default(command)
    chosen, bound, _ = inner.parse_args(list(tokens), exit_on_error=False, print_error=False)
    if chosen is not command:
        chosen(*bound.args, **bound.kwargs)  # --help
        return None
    given = dict(bound.arguments)
    run_options = given.pop("run_options", None) or RunOptions()
    return given, run_options


def _strict(parameter: inspect.Parameter) -> inspect.Parameter:
    """Refuse what is no whole number where one is expected; cyclopts would round it."""
    for kind, converter in CONVERTERS:
        if parameter.annotation == kind:
            # `Annotated[...]` of a type known only here, which type checkers do not read.
            return parameter.replace(annotation=getitem(cast("Any", Annotated), (kind, converter)))
    return parameter


def _whole_numbers(_: object, tokens: Sequence[Token]) -> list[int]:
    try:
        return [int(token.value) for token in tokens]
    except ValueError:
        given = " ".join(token.value for token in tokens)
        msg = f"expected a whole number, got {given!r}"
        raise ValueError(msg) from None


def _whole_number(kind: object, tokens: Sequence[Token]) -> int:
    return _whole_numbers(kind, tokens[:1])[0]


CONVERTERS: Sequence[tuple[object, Parameter]] = (
    (int, Parameter(converter=_whole_number)),
    (int | None, Parameter(converter=_whole_number)),
    (list[int], Parameter(converter=_whole_numbers)),
    (list[int] | None, Parameter(converter=_whole_numbers)),
)


def complete(definition: JobDefinition[...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the defaults."""
    parameters = definition.signature.parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not MISSING}
    options = {**defaults, **given}
    missing = [p.name for p in parameters if p.name not in options]
    if missing:
        msg = f"missing: {', '.join(option_name(name) for name in missing)}"
        hint = "its options: `millpond run JOB --help`"
        raise InputError(msg, where=f"job {definition.name!r}", hint=hint)
    return options


def to_settings(options: Mapping[str, Any]) -> Settings:
    """Return *options* in JSON's terms; paths become absolute, so that they hold anywhere."""
    return {name: _plain(value) for name, value in sorted(options.items())}


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value.resolve())
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("Sequence[object]", value)]
    return str(value)


def restore(
    definition: JobDefinition[...], recorded: Mapping[str, object], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a resumed run: the recorded ones, *given* ones over them."""
    known = definition.signature.parameters
    tokens: list[str] = []
    for name, value in recorded.items():
        if name in given or name not in known or value is None or value == known[name].default:
            continue
        if isinstance(value, bool):
            tokens.append(option_name(name) if value else "--no-" + option_name(name)[2:])
            continue
        parts = cast("list[object]", value) if isinstance(value, list) else [value]
        if not parts:
            tokens.append("--empty-" + option_name(name)[2:])
        # With `=`, so that a value that begins with a dash is not taken for an option.
        tokens += [f"{option_name(name)}={part}" for part in parts]
    # Parsed like a command line, so that each value gets its type back.
    parsed = parse(definition, definition.name, [*tokens, "--resume=recorded"])
    return {**(parsed[0] if parsed else {}), **given}


def differences(recorded: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """Return one line per option that is not as it was recorded."""
    return [
        f"{option_name(name)}: recorded {recorded.get(name)!r}, now {wanted.get(name)!r}"
        for name in sorted({*recorded, *wanted})
        if recorded.get(name) != wanted.get(name)
    ]


def option_name(parameter: str) -> str:
    """Return how the command line calls a parameter."""
    return "--" + parameter.strip("_").replace("_", "-")
