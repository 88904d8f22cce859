"""What a placement is predicted to cost: congestion, relative cost, hop-bytes and link time."""

from __future__ import annotations

from toposeat.evaluate.evaluation import Evaluator, default_placement, evaluate
from toposeat.evaluate.metrics import METRICS, cost_matrix
from toposeat.evaluate.network import compile_network, compile_traffic

__all__ = [
    "METRICS",
    "Evaluator",
    "compile_network",
    "compile_traffic",
    "cost_matrix",
    "default_placement",
    "evaluate",
]
