"""Linux CPU lists ("0-3,8-11") and masks ("ff,00000000")."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
MAX_CPU = 65535
RESERVED = "reserved_cpus"  # metadata of a machine: a list of CPUs that its site keeps for itself
_MAX_NAMED = 4 * (MAX_CPU + 1)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a Linux CPU list, ascending, each once; people may write them in any order.

    Raises:
        ValueError: not a list, a falling range, a number beyond `MAX_CPU`, or more overlapping
            ranges than any machine needs.
    """
    cpus: set[int] = set()
    named = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        named += high - low + 1
        if not low <= high <= MAX_CPU or named > _MAX_NAMED:
            raise ValueError(f"not a CPU list: {text[:80]!r}")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Sequence[int]) -> str:
    """The shortest Linux CPU list for ascending `cpus`."""
    parts: list[str] = []
    start = 0
    for i, cpu in enumerate(cpus):
        if i + 1 < len(cpus) and cpus[i + 1] == cpu + 1:
            continue
        parts.append(f"{cpus[start]}-{cpu}" if i > start else f"{cpu}")
        start = i + 1
    return ",".join(parts)


def cpu_list_of_mask(words: list[int], bits: int = 64) -> str:
    """The CPU list of an affinity mask given as words, least significant first."""
    return format_cpu_list(
        tuple(w * bits + b for w, word in enumerate(words) for b in range(bits) if word >> b & 1)
    )
