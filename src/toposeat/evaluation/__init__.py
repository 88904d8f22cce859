"""What a placement is predicted to cost: congestion, relative cost, hop-bytes and link time."""

from __future__ import annotations

from toposeat.evaluation.advising import (
    PRESENT,
    crossing_bytes,
    envelope_seconds,
    pair_notes,
    predict_settings,
    unmeasured_pairs,
)
from toposeat.evaluation.evaluation import Evaluator, default_placement, evaluate
from toposeat.evaluation.metrics import HYBRID, METRICS, PairCosts, cost_matrix, pair_costs
from toposeat.evaluation.network import compile_network, compile_traffic, network_arrays
from toposeat.evaluation.protocols import (
    chosen_way,
    measured_protocols,
    message_seconds,
    missing_protocols,
    typical_bytes,
    under_envelope,
    under_rule,
)
from toposeat.evaluation.route_numbers import walk
from toposeat.evaluation.schedule import ScheduleEvaluator, ScheduleTime
from toposeat.evaluation.simgrid import (
    compile_for_smpi,
    run_on_smpi,
    smpi_collective,
    smpi_platform,
    smpi_version,
    why_no_smpi,
)

__all__ = [
    "HYBRID",
    "METRICS",
    "PRESENT",
    "Evaluator",
    "PairCosts",
    "ScheduleEvaluator",
    "ScheduleTime",
    "chosen_way",
    "compile_for_smpi",
    "compile_network",
    "compile_traffic",
    "cost_matrix",
    "crossing_bytes",
    "default_placement",
    "envelope_seconds",
    "evaluate",
    "measured_protocols",
    "message_seconds",
    "missing_protocols",
    "network_arrays",
    "pair_costs",
    "pair_notes",
    "predict_settings",
    "run_on_smpi",
    "smpi_collective",
    "smpi_platform",
    "smpi_version",
    "typical_bytes",
    "under_envelope",
    "under_rule",
    "unmeasured_pairs",
    "walk",
    "why_no_smpi",
]
