"""The processor that this machine says it has, in the words of NCCL's files."""

from __future__ import annotations

import platform
from pathlib import Path

from toposeat.topology.live.small_file import read_small

_ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}  # NCCL's names of the kernel's
_STATED = ("vendor_id", "cpu family", "model")


def live_processor(cpuinfo: Path) -> str:
    """Architecture and, of x86, vendor, family and model; what is not told is left out.

    Args:
        cpuinfo: /proc/cpuinfo.
    """
    architecture = platform.machine()
    words = [_ARCHITECTURES.get(architecture, architecture)]
    try:
        text = read_small(cpuinfo).decode(errors="replace")
    except OSError:
        return words[0]
    first = [line.partition(":") for line in text.split("\n\n", maxsplit=1)[0].splitlines()]
    told = {key.strip(): value.strip() for key, _, value in first}
    for key in _STATED:
        if not told.get(key):
            break
        words.append(told[key])
    return " ".join(words)
