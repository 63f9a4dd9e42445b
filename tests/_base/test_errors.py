"""Every error carries its facts across a process border, and reads the same there."""

import copy
import pickle

import pytest

from millpond import errors

SAMPLES: list[errors.MillpondError] = [
    errors.MillpondError("x"),
    errors.UsageError("do it otherwise"),
    errors.AlreadyReleased("permit"),
    errors.NestedAcquire(limiter="llm", asked=2, held=1, capacity=2),
    errors.WouldBlock(),
    errors.Closed("'llm'"),
    errors.Stopped(),
    errors.Stopped("enough"),
    errors.Stopped("enough", report=("waited", 3.0)),
    errors.Lagged(missed=7),
    errors.SequenceFailed(sequence=3, error_type="OSError", text="no disk", report=("waited", 3.0)),
    errors.DeadlineError(layer="tool", timeout=30.0, elapsed=30.1),
    errors.Transient("busy", retry_after=1.5),
    errors.Expired(what="T", age=3.0, ttl=2.0),
    errors.SupplierFailed(failures=5, cause=OSError("no disk")),
    errors.SourceFailed(pulled=3, cause=OSError("no file")),
    errors.Stalled(capacity="physical", stages=("consume of 1", "consume of 2")),
    errors.InvariantViolated("the ledger", {"free": 1, "held": 2}),
    errors.RecordError("cannot be read", path="run.db", hint="restore it"),
    errors.InputError("expected a number", where="x.toml:3", hint="write one"),
]


def name_of(error: errors.MillpondError) -> str:
    """Return the name under which pytest shows a sample."""
    return type(error).__name__


@pytest.mark.parametrize("error", SAMPLES, ids=name_of)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_with_its_facts(error: errors.MillpondError, protocol: int) -> None:
    """Class, sentence, facts and notes survive."""
    noted = copy.copy(error)
    noted.add_note("seen by a test")
    there = pickle.loads(pickle.dumps(noted, protocol))  # noqa: S301 - our own bytes
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert there.args == error.args
    assert vars(there) == {**vars(error), "__notes__": ["seen by a test"]}


def test_every_class_has_a_sample() -> None:
    """A class that is added later must be tried too."""
    public = {getattr(errors, name) for name in errors.__all__} - {errors.LeakWarning}
    assert {type(error) for error in SAMPLES} == public


def test_a_subclass_of_the_user_pickles_too() -> None:
    """With a constructor and facts of its own."""
    there = pickle.loads(pickle.dumps(Quota("m-1", left=0)))  # noqa: S301 - our own bytes
    assert type(there) is Quota
    assert (str(there), there.model, there.left) == ("m-1 has 0 left", "m-1", 0)
    assert there.retry_after == 60


class Quota(errors.Transient):
    """An error as a user would write one."""

    def __init__(self, model: str, *, left: int) -> None:
        self.model = model
        self.left = left
        super().__init__(f"{model} has {left} left", retry_after=60)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.UsageError, RuntimeError),
        (errors.AlreadyReleased, errors.UsageError),
        (errors.NestedAcquire, errors.UsageError),
        (errors.DeadlineError, TimeoutError),
        (errors.InputError, ValueError),
        (errors.LeakWarning, ResourceWarning),
    ],
)
def test_is_what_a_caller_already_catches(kind: type, builtin: type) -> None:
    """The builtin that fits."""
    assert issubclass(kind, builtin)


def test_a_deadline_error_has_no_errno() -> None:
    """TimeoutError is an OSError, which would make two arguments an errno and a text."""
    error = errors.DeadlineError(layer="tool", timeout=30.0, elapsed=30.1234)
    assert error.errno is None
    assert str(error) == "tool exceeded its 30 s (ended after 30.1 s)"
