"""`llm:` patterns: parts of a step, groups as sets, and their bytes by formulas written here."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from toposeat.model.pair_table import PairTable
from toposeat.model.traffic import Exchange, Traffic
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.report.profile_words import phase_rows

LAYERS, HIDDEN, TOKENS, BATCHES = 4, 64, 128, 3
SIZES = f"layers={LAYERS},hidden={HIDDEN},seq={TOKENS},microbatches={BATCHES}"
ACTIVATION = TOKENS * HIDDEN * 2  # bytes
PARAMETERS = 12 * LAYERS * HIDDEN**2


def groups_of(traffic: Traffic, label: str) -> dict[tuple[int, ...], int]:
    """Ranks of each group of a part, with its bytes over an edge."""
    ranks = {communicator.id: communicator.ranks for communicator in traffic.communicators}
    index = {phase.label: phase.index for phase in traffic.phases}
    return {
        ranks[group.communicator]: group.bytes
        for group in traffic.groups
        if group.phase == index[label]
    }


def test_groups_of_tensor_and_data_parallelism_are_sets() -> None:
    traffic = pattern_traffic(f"llm:tp=4,pp=2,dp=2,{SIZES}")
    each = 2 * 3 * ACTIVATION // 4  # 2 (n-1)/n of the activations
    tensor = {tuple(range(first, first + 4)): each for first in range(0, 16, 4)}
    calls = 4 * LAYERS // 2 * BATCHES
    assert groups_of(traffic, "tensor") == {ranks: size * calls for ranks, size in tensor.items()}
    # Two ranks send half of their share of the gradients twice.
    share = PARAMETERS * 2 // (4 * 2)
    pairs = [(r, r + 4) for r in (*range(4), *range(8, 12))]
    assert groups_of(traffic, "data") == dict.fromkeys(pairs, share)
    assert {(g.library, g.exchange) for g in traffic.groups} == {("nccl", Exchange.RING)}
    assert {c.ranks for c in traffic.communicators} == {
        *tensor,
        *pairs,
        *((r, r + 8) for r in range(8)),
    }


def test_parts_add_up_and_edges_are_without_groups() -> None:
    traffic = pattern_traffic(f"llm:tp=2,cp=2,dp=2,pp=2,{SIZES}")
    assert [phase.label for phase in traffic.phases] == ["tensor", "data", "pipeline", "context"]
    parts = [table for phase in traffic.phases for table in phase.tables.values()]
    assert PairTable.total(parts) == traffic.table()
    edges = traffic.edge_table()
    # Pipeline and context neighbours alone: 8 ranks apart, or 2.
    assert set(np.abs(edges.source - edges.target).tolist()) == {2, 8}
    rows = phase_rows(traffic)
    assert [row[0] for row in rows] == ["tensor", "data", "pipeline", "context"]
    assert all((row[1], row[2], row[5]) == ("-", "-", "-") for row in rows)


def test_groups_follow_the_order_of_the_axes() -> None:
    # dp fastest: rank = dp + 2 (pp + 2 tp).
    traffic = pattern_traffic(f"llm:tp=2,dp=2,pp=2,order=dp-pp-tp-cp,{SIZES}")
    assert set(groups_of(traffic, "data")) == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert set(groups_of(traffic, "tensor")) == {(0, 4), (1, 5), (2, 6), (3, 7)}


def test_thousands_of_ranks_have_disjoint_groups() -> None:
    traffic = pattern_traffic("llm:tp=8,pp=8,dp=64")
    for label, number, size in (("tensor", 512, 8), ("data", 64, 64)):
        groups = list(groups_of(traffic, label))
        assert (len(groups), {len(group) for group in groups}) == (number, {size})
        assert len({rank for group in groups for rank in group}) == 4096
    assert not any(set(a) & set(b) for a, b in combinations(groups, 2))
