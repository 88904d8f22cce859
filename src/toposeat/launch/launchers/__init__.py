"""One file for each family of launchers, and all of them by name.

A new one is a file here, with `LAUNCHERS` (`launcher.Launcher`) and `EXPORTS`, and its line below.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from toposeat.launch.launchers.launcher import LAUNCHERS
from toposeat.launch.launchers.seats import Exporter

_FILES = (
    "openmpi",
    "hydra",
    "slurm",
    "flux",
    "cray",
    "torchrun",
    "kubernetes",
    "ssh",
    "scripts",
)

_exporters: dict[str, tuple[str, Exporter]] = {}
for _file in _FILES:
    _module = import_module(f"{__name__}.{_file}")
    LAUNCHERS.update({each.kind: each for each in _module.LAUNCHERS})
    _exporters.update(_module.EXPORTS)

# By name: what it writes, in a few words, and the function that does.
EXPORTERS: Mapping[str, tuple[str, Exporter]] = MappingProxyType(_exporters)

__all__ = ["EXPORTERS", "LAUNCHERS"]
