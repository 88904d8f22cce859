"""Linux CPU lists ("0-3,8-11") and masks ("ff,00000000")."""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def cpus_of(text: str | None) -> frozenset[int]:
    """The CPUs of a list; none where it is empty or not told."""
    return frozenset(parse_cpu_list(text)) if text else frozenset()


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The shortest Linux CPU list."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if not runs or cpu != runs[-1][-1] + 1:
            runs.append([])
        runs[-1][1:] = [cpu]
    return ",".join("-".join(map(str, run)) for run in runs)


def cpu_list_of_mask(words: list[int], bits: int = 64) -> str:
    """The CPU list of an affinity mask given as words, least significant first."""
    cpus = (w * bits + b for w, word in enumerate(words) for b in range(bits) if word >> b & 1)
    return format_cpu_list(cpus)
