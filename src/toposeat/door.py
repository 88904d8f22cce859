"""The door of a package: what it offers, each name imported from its module at first use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module


def door(package: str, file: str) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562).

    It offers what `file` imports below `if TYPE_CHECKING:`. Type checkers read the same lines, so
    that every name is listed once. They are read at the first use of a name that is not there yet.

    Args:
        package: its full name.
        file: its `__file__`.
    """
    home: dict[str, str] = {}

    def load(name: str) -> object:
        if not home:
            home.update(_module_of_name(file))
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def _module_of_name(file: str) -> dict[str, str]:
    """The imports below `if TYPE_CHECKING:` in a file."""
    import re  # noqa: PLC0415 - importing a package alone does not need it

    with open(file, encoding="utf-8") as source:  # noqa: PTH123 - nor pathlib
        imports = re.findall(r"^    from (\S+) import ([^(\n]+|\([^)]+\))", source.read(), re.M)
    return {name: module for module, names in imports for name in re.findall(r"\w+", names)}
