"""Every example in a docstring runs as printed."""

import doctest
import importlib
import pkgutil

import pytest

import millpond

MODULES = [
    module.name
    for module in pkgutil.walk_packages(millpond.__path__, "millpond.")
    # Programs that are started by path, or that need what only the command line has.
    if not module.name.endswith(("__main__", "_zygote"))
]


@pytest.mark.parametrize("name", ["millpond", *MODULES])
def test_examples(name: str) -> None:
    """What the docstring shows is what comes out."""
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
