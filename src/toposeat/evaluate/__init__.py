"""What a placement is predicted to cost: congestion, relative cost, hop-bytes and link time."""

from __future__ import annotations

from toposeat.evaluate.evaluation import Evaluator, default_placement, evaluate
from toposeat.evaluate.metrics import HYBRID, METRICS, PairCosts, cost_matrix, pair_costs
from toposeat.evaluate.network import compile_network, compile_traffic

__all__ = [
    "HYBRID",
    "METRICS",
    "Evaluator",
    "PairCosts",
    "compile_network",
    "compile_traffic",
    "cost_matrix",
    "default_placement",
    "evaluate",
    "pair_costs",
]
