"""JSON form of the placement of a large job: sparse, no link tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toposeat.installed import VERSION
from toposeat.model.scale_file import SCALE_SCHEMA
from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic

SCALE_COMPARISON_SCHEMA = "toposeat/scale-comparison/1"


def scale_json(result: ScaleResult, traffic: Traffic) -> dict[str, Any]:
    """`map -t SHAPE --json`. Slot s is device s % slots_per_host of host s // slots_per_host.

    `levels` are those of the machine, `links` its busiest few: the others are too many to list.
    """
    return {
        "schema": SCALE_SCHEMA,
        "version": VERSION,
        "topology": result.shape,
        "traffic": traffic.origin,
        "ranks": result.ranks,
        "slots": result.slots,
        "slots_per_host": result.slots_per_host,
        "hosts": list(result.hosts),
        "objective": result.objective,
        "device_of_rank": result.slot_of_rank.tolist(),
        "default": msgspec.to_builtins(result.default),
        "placed": msgspec.to_builtins(result.placed),
        "candidates": msgspec.to_builtins(list(result.candidates)),
        "certificate": {"proved": False, "lower_bound": None, "gap": None, "word": "heuristic"},
        "kept_default": result.kept_default,
        "solver": result.solver,
        "solve_seconds": result.solve_seconds,
        "peak_memory_bytes": result.peak_memory_bytes,
        "seed": result.seed,
        "notes": list(result.notes),
        "explanation": None
        if result.explanation is None
        else msgspec.to_builtins(result.explanation),
    }


def scale_comparison_json(
    evaluations: Sequence[tuple[str, ScaleEvaluation]],
    machine: str,
    traffic: Traffic,
    *,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Several placements on a large machine side by side, all predicted."""
    return {
        "schema": SCALE_COMPARISON_SCHEMA,
        "version": VERSION,
        "topology": machine,
        "traffic": traffic.origin,
        "ranks": traffic.ranks,
        "predicted": [{**msgspec.to_builtins(each), "name": name} for name, each in evaluations],
        "notes": list(notes),
    }
