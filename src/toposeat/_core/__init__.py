"""The compiled core: plain numbers in and out, no nouns of `toposeat.model`.

Only `topology`, `evaluate` and `mapping` call it. Errors are `ValueError`s about numbers that do
not fit together: the callers turn the user's mistakes into `ToposeatError`s before they get here.
"""

from __future__ import annotations

from toposeat._core._ext import (
    Congestion,
    FlowTimes,
    LargeAnswer,
    LargeCandidate,
    LargeMachine,
    MapAnswer,
    MapRequest,
    Network,
    NodeModel,
    NodeOrders,
    RankTraffic,
    RingRate,
    SearchRecord,
    SwitchLink,
    Symmetry,
    congestion,
    default_ranks,
    figures_each,
    flow_time,
    flow_time_each,
    flow_times,
    large_cost,
    large_loads,
    large_prediction,
    map_large,
    map_ranks,
    max_congestion_each,
    ring_rate,
    schedule_times,
    search_pairwise,
    seating_conflict,
    shortest_routes,
)
