"""What a placement is predicted to cost: congestion, relative cost, hop-bytes and link time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.evaluation.compiled_machine import CompiledMachine
    from toposeat.evaluation.evaluation import (
        Evaluator,
        default_placement,
        device_positions,
        evaluate,
        positions_among,
    )
    from toposeat.evaluation.group_rates import GroupRates, group_rate
    from toposeat.evaluation.metrics import (
        HYBRID,
        PairCosts,
        cost_matrix,
        costs_within_host,
        pair_costs,
        pair_rates,
    )
    from toposeat.evaluation.nccl_speeds import KERNELS
    from toposeat.evaluation.network import compile_network, compile_traffic, network_arrays
    from toposeat.evaluation.protocols import (
        slowed,
        staging_times,
        typical_bytes,
    )
    from toposeat.evaluation.route_numbers import walk
    from toposeat.evaluation.scenarios import OpenMachine, Outlook, Scenarios
    from toposeat.evaluation.schedule import ScheduleEvaluator, ScheduleTime
else:
    __getattr__ = door(__name__, __file__)
