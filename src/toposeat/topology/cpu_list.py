"""Linux CPU lists ("0-3,8-11") and masks ("ff,00000000")."""

from __future__ import annotations

import re

_LIST = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", re.ASCII)
MAX_CPU = 65535


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a Linux CPU list, ascending.

    Raises:
        ValueError: not a list, or one that the kernel would not print (overlap, falling ranges).
    """
    if not _LIST.fullmatch(text):
        raise ValueError(f"not a CPU list: {text!r}")
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or high > MAX_CPU or (cpus and low <= cpus[-1]):
            raise ValueError(f"not a CPU list: {text!r}")
        cpus.extend(range(low, high + 1))
    return tuple(cpus)


def format_cpu_list(cpus: tuple[int, ...]) -> str:
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
