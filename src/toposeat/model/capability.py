"""The compute capability of NVIDIA's devices, ten times, as NVIDIA lists it by their names."""

from __future__ import annotations

import re

_CAPABILITIES = (  # by what the name of a device holds
    (r"K[24]0", 35),
    (r"K80", 37),
    (r"P100", 60),
    (r"V100", 70),
    (r"TITAN RTX|RTX 20|QUADRO RTX|Quadro RTX|T4\b", 75),
    (r"A[18]00|A30\b", 80),
    (r"RTX 30|RTX A[456]|A40\b|A10\b|A6000", 86),
    (r"RTX 40|L40", 89),
    (r"H[12]00|H800|H20\b", 90),
    (r"B[123]00", 100),
)


def compute_capability(name: str) -> int | None:
    """90 for 9.0; None where the name of a device does not tell."""
    if told := re.fullmatch(r"sm_(\d+)", name):
        return int(told[1])
    return next((each for pattern, each in _CAPABILITIES if re.search(pattern, name)), None)
