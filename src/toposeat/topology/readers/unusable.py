"""Files that people take for descriptions of GPU machines: recognised, and refused by name.

Each has a `looks_like_...` and a `parse_...`, which always raises an `InputError` that says what
the file is and what to save instead.
"""

from __future__ import annotations

import re
from typing import NoReturn

from toposeat.errors import InputError
from toposeat.topology.readers.file_text import FileText

_INSTEAD = "save on that node: toposeat discover -o FILE, or nvidia-smi topo -m > FILE"
_NODE = re.compile(r"^\s*NUMA node(\d+) CPU\(s\):[ \t]*(\S*)", re.MULTILINE)
_LSCPU = re.compile(r"^\s*(?:NUMA node\(s\)|CPU\(s\)|Socket\(s\)):\s+\d", re.MULTILINE)
_MOCK = re.compile(r"^device_defaults:\s*(?:#.*)?$", re.MULTILINE)


def looks_like_lscpu(file: FileText) -> bool:
    """Whether this is the output of lscpu, or its NUMA part."""
    return _LSCPU.search(file.start[:20_000]) is not None


def parse_lscpu(file: FileText) -> NoReturn:
    """Say how many of the NUMA nodes have CPUs.

    The others are often taken for sockets; they are the memory of GPUs, or kept for MIG.
    """
    nodes = _NODE.findall(file.text)
    empty = sum(not cpus for _, cpus in nodes)
    seen = f" ({len(nodes)} NUMA nodes, {empty} of them without CPUs)" if nodes else ""
    raise InputError(f"this is lscpu{seen}: it says nothing of GPUs", path=file.path, hint=_INSTEAD)


def looks_like_nvml_mock(file: FileText) -> bool:
    """Whether this is a configuration of the mock NVML of Kubernetes' test infrastructure."""
    return "Mock NVML" in file.start[:500] or _MOCK.search(file.start[:20_000]) is not None


def parse_nvml_mock(file: FileText) -> NoReturn:
    """Its values are written by hand for tests, no machine's."""
    raise InputError(
        "this configures a mock NVML for tests: its values are invented, no machine was recorded",
        path=file.path,
        hint=f"{_INSTEAD}; known kinds of machines: toposeat discover --list",
    )
