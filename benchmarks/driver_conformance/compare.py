"""Two records side by side: which answers differ."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.driver_conformance.record import NOT_ASKED


def differences(one: dict[str, Any], two: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Questions that both were asked and answered differently, or that one does not have."""
    names = list(dict.fromkeys([*one, *two]))
    pairs = [
        (name, one.get(name, "no such question"), two.get(name, "no such question"))
        for name in names
    ]
    return [(name, a, b) for name, a, b in pairs if NOT_ASKED not in (a, b) and a != b]


def print_differences(labels: tuple[str, str], one: dict[str, Any], two: dict[str, Any]) -> int:
    """A table; how many differ."""
    found = differences(one, two)
    both = [name for name in one if NOT_ASKED not in (one[name], two.get(name, NOT_ASKED))]
    left_out = len({*one, *two}) - len(both)
    print(f"{len(both)} questions asked of both, {left_out} of one or none; {len(found)} differ")
    for name, a, b in found:
        print(f"\n{name}\n  {labels[0]}: {json.dumps(a)}\n  {labels[1]}: {json.dumps(b)}")
    return len(found)
