"""The JSON form of a bench, and of clocked placements."""

from __future__ import annotations

from typing import Any

import msgspec

from toposeat.installed import VERSION
from toposeat.model.bench import BenchResult
from toposeat.model.clocked import ClockedResult

BENCH_SCHEMA = "toposeat/bench/1"


def bench_json(result: BenchResult) -> dict[str, Any]:
    """Every row and every run; `source` says what the seconds are (measured, simulated, predicted).

    `rows[].predicted` is the flow model's gain whatever the source.
    """
    document = msgspec.to_builtins(result)
    for row, noun in zip(document["rows"], result.rows, strict=True):
        row["is_noise"] = noun.is_noise
    return {"schema": BENCH_SCHEMA, "version": VERSION, **document}


def clocked_json(result: ClockedResult) -> dict[str, Any]:
    """Every run; seconds are clocked (`emulated` names the stand-in machine), never predicted."""
    document: dict[str, Any] = msgspec.to_builtins(result)
    for order, noun in zip(document["orders"], result.orders, strict=True):
        order["is_noise"] = result.is_noise(noun)
    return document
