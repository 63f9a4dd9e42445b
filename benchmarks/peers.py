"""Libraries that ours is compared with. Each may be missing: the group `bench` brings them."""

import functools
import importlib
import importlib.util
import warnings
from typing import Any

NAMES = ("anyio", "aiologic", "culsans", "janus")


def has(name: str) -> bool:
    """Tell whether the peer is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


@functools.cache
def load(name: str) -> Any:  # noqa: ANN401 - it need not be installed where types are checked
    """Import the peer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a peer is made of is not our business
        return importlib.import_module(name)


def missing() -> list[str]:
    """Say which peers are left out."""
    return [f"{name}: not installed" for name in NAMES if not has(name)]
