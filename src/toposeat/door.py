"""The door of a package: what it offers, each name imported from its module at first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def door(package: str, offers: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562).

    Args:
        package: its full name.
        offers: for each module, named from the package on, the names that it offers, as words.
    """
    home = {name: module for module, names in offers.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
