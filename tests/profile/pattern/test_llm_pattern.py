"""`llm:` patterns: parts of a step, groups as sets, and their bytes by formulas written here."""

import csv
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from toposeat.errors import UsageError
from toposeat.model.pair_table import PairTable
from toposeat.model.traffic import Exchange
from toposeat.profile import pattern_traffic
from toposeat.report import render_traffic_text

MODELS = Path(__file__).parents[3] / "src/toposeat/profile/pattern/models.csv"

LAYERS, HIDDEN, TOKENS, BATCHES = 4, 64, 128, 3
SIZES = f"layers={LAYERS},hidden={HIDDEN},seq={TOKENS},microbatches={BATCHES}"
ACTIVATION = TOKENS * HIDDEN * 2  # bytes
PARAMETERS = 12 * LAYERS * HIDDEN**2


def groups_of(traffic, label):
    """Ranks of each group of a part, with its bytes over an edge."""
    ranks = {communicator.id: communicator.ranks for communicator in traffic.communicators}
    index = {phase.label: phase.index for phase in traffic.phases}
    return {
        ranks[group.communicator]: group.bytes
        for group in traffic.groups
        if group.phase == index[label]
    }


def test_groups_of_tensor_and_data_parallelism_are_sets():
    traffic = pattern_traffic(f"llm:tp=4,pp=2,dp=2,{SIZES}")
    each = 2 * 3 * ACTIVATION // 4  # 2 (n-1)/n of the activations
    tensor = {tuple(range(first, first + 4)): each for first in range(0, 16, 4)}
    calls = 4 * LAYERS // 2 * BATCHES
    assert groups_of(traffic, "tensor") == {ranks: size * calls for ranks, size in tensor.items()}
    # Two ranks send half of their share of the gradients twice.
    share = PARAMETERS * 2 // (4 * 2)
    pairs = [(r, r + 4) for r in (*range(4), *range(8, 12))]
    assert groups_of(traffic, "data") == dict.fromkeys(pairs, share)
    assert {(g.library, g.exchange) for g in traffic.groups} == {("nccl", Exchange.ALL_REDUCE)}
    assert {c.ranks for c in traffic.communicators} == {
        *tensor,
        *pairs,
        *((r, r + 8) for r in range(8)),
    }


def test_parts_add_up_and_edges_are_without_groups():
    traffic = pattern_traffic(f"llm:tp=2,cp=2,dp=2,pp=2,{SIZES}")
    assert [phase.label for phase in traffic.phases] == ["tensor", "data", "pipeline", "context"]
    parts = [table for phase in traffic.phases for table in phase.tables.values()]
    assert PairTable.total(parts) == traffic.table()
    edges = traffic.edge_table()
    # Pipeline and context neighbours alone: 8 ranks apart, or 2.
    assert set(np.abs(edges.source - edges.target).tolist()) == {2, 8}
    assert "\nphase        bytes  of all\n" in render_traffic_text(traffic)  # no times


def test_groups_follow_the_order_of_the_axes():
    # dp fastest: rank = dp + 2 (pp + 2 tp).
    traffic = pattern_traffic(f"llm:tp=2,dp=2,pp=2,order=dp-pp-tp-cp,{SIZES}")
    assert set(groups_of(traffic, "data")) == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert set(groups_of(traffic, "tensor")) == {(0, 4), (1, 5), (2, 6), (3, 7)}


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-dp-ep-pp", "pp-ep-dp-tp", "tp-pp-dp-ep"])
def test_experts_lie_where_megatrons_order_says(order):
    """Its generator of ranks counts through the axes, with ep and what is left of dp apart."""
    sizes = {"tp": 2, "cp": 1, "ep": 3, "dp": 2, "pp": 2}
    axes = order.split("-")
    grid = np.arange(24).reshape([sizes[axis] for axis in axes[::-1]])

    def groups(axis):
        along = np.moveaxis(grid, len(axes) - 1 - axes.index(axis), -1)
        return {*map(tuple, along.reshape(-1, sizes[axis]).tolist())}

    options = f"tp=2,dp=6,pp=2,ep=3,experts=3,sp,order={order}"
    traffic = pattern_traffic(f"llm:{options},{SIZES}")
    assert set(groups_of(traffic, "expert")) == groups("ep")
    assert set(groups_of(traffic, "expert data")) == groups("dp")
    assert set(groups_of(traffic, "tensor")) == groups("tp")


def test_an_order_leaves_out_axes_of_one_rank():
    partial, whole = (
        pattern_traffic(f"llm:tp=2,pp=2,order={order},{SIZES}")
        for order in ("pp-tp", "pp-tp-cp-ep-dp")
    )
    assert partial.table() == whole.table()
    assert set(groups_of(partial, "tensor")) == {(0, 2), (1, 3)}


def test_thousands_of_ranks_have_disjoint_groups():
    traffic = pattern_traffic("llm:tp=8,pp=8,dp=64")
    for label, number, size in (("tensor", 512, 8), ("data", 64, 64)):
        groups = list(groups_of(traffic, label))
        assert (len(groups), {len(group) for group in groups}) == (number, {size})
        assert len({rank for group in groups for rank in group}) == 4096
    assert not any(set(a) & set(b) for a, b in combinations(groups, 2))


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        # Bytes that go around, over (n-1)/n P of 2 bytes; M micro-batches. fp32 counts twice.
        ("zero=0", 2),
        ("zero=1", 2),
        ("zero=2", BATCHES + 1),
        ("zero=3", 3 * BATCHES),
        ("fsdp", 3 * BATCHES),
        ("zero=0,grad=fp32", 4),
        ("zero=1,grad=fp32", 3),
        ("fsdp,grad=fp32", 4 * BATCHES),
    ],
)
def test_sharding_by_the_stage_of_zero(options, passes):
    traffic = pattern_traffic(f"llm:dp=4,{SIZES},{options}")
    assert groups_of(traffic, "data") == {(0, 1, 2, 3): passes * 3 * PARAMETERS * 2 // 4}


def test_experts_exchange_tokens_by_pairs():
    topk, capacity, ep, experts = 3, 1.5, 2, 8
    options = f"ep={ep},experts={experts},topk={topk},capacity={capacity}"
    traffic = pattern_traffic(f"llm:dp=4,{SIZES},{options}")
    # Dispatch and combine, forward and backward; a share of 1/ep of the tokens for each member.
    tokens = round(ACTIVATION * topk * capacity) // ep
    assert groups_of(traffic, "expert") == dict.fromkeys(
        [(0, 1), (2, 3)], tokens * 4 * LAYERS * BATCHES
    )
    # Attention is reduced over all, each expert over those that hold it.
    attention = 4 * LAYERS * HIDDEN**2
    assert groups_of(traffic, "data") == {(0, 1, 2, 3): 2 * 3 * attention * 2 // 4}
    own = experts // ep * 8 * LAYERS * HIDDEN**2
    assert groups_of(traffic, "expert data") == dict.fromkeys([(0, 2), (1, 3)], own * 2)
    ways = {group.exchange for group in traffic.groups if group.phase == 2}
    assert {phase.label for phase in traffic.phases} == {"data", "expert data", "expert"}
    assert ways == {Exchange.PAIRWISE}


def test_pairwise_edges_are_those_of_the_groups():
    traffic = pattern_traffic(f"llm:tp=2,dp=4,ep=4,experts=4,sp,{SIZES}")
    groups = groups_of(traffic, "expert")
    table = next(iter(traffic.phases[-1].tables.values()))
    edges = dict(
        zip(
            zip(table.source.tolist(), table.target.tolist(), strict=True),
            table.bytes.tolist(),
            strict=True,
        )
    )
    assert edges == {
        (a, b): size for ranks, size in groups.items() for a in ranks for b in ranks if a != b
    }
    # Attention: 2 all-reduces of the tokens; experts: 2 of what topk = 2 makes of them.
    assert set(groups_of(traffic, "tensor").values()) == {
        (2 + 2 * 2) * ACTIVATION * LAYERS * BATCHES
    }


def test_experts_that_every_rank_holds_are_a_dense_model():
    experts = pattern_traffic(f"llm:tp=2,dp=4,ep=1,experts=8,params=7e6,{SIZES}")
    dense = pattern_traffic(f"llm:tp=2,dp=4,params=7e6,{SIZES}")
    assert experts.table() == dense.table()
    assert experts.groups == dense.groups


@pytest.mark.parametrize(("mode", "tokens"), [("prefill", TOKENS), ("decode", 1)])
def test_serving_has_the_forward_pass_alone(mode, tokens):
    traffic = pattern_traffic(f"llm:tp=2,pp=2,dp=2,mode={mode},{SIZES}")
    assert [phase.label for phase in traffic.phases] == ["tensor", "pipeline"]
    each = 2 * LAYERS // 2 * BATCHES * tokens * HIDDEN * 2
    assert set(groups_of(traffic, "tensor").values()) == {each}
    edges = traffic.edge_table()
    assert edges.source.tolist() == [0, 1, 2, 3]
    assert set(edges.bytes.tolist()) == {BATCHES * tokens * HIDDEN * 2}


@pytest.mark.parametrize(
    ("options", "share"),
    [("heads=8", 1 / 2), ("heads=8,kv-heads=2", 1 / 8), ("heads=8,kv-heads=1", 1 / 8)],
)
def test_context_sends_keys_of_the_heads_that_a_rank_has(options, share):
    edges = pattern_traffic(f"llm:tp=2,cp=2,{options},{SIZES}").edge_table()
    keys_and_values = 2 * (ACTIVATION // 2) * share
    assert set(edges.bytes.tolist()) == {round(3 * keys_and_values * LAYERS * BATCHES)}


def test_keys_of_heads_that_are_wider_than_their_share_of_the_hidden_size():
    wide = "heads=8,kv-heads=2,head-dim=16"
    edges = pattern_traffic(f"llm:cp=2,{wide},{SIZES}").edge_table()
    keys_and_values = 2 * (TOKENS // 2) * 2 * 16 * 2
    assert set(edges.bytes.tolist()) == {3 * keys_and_values * LAYERS * BATCHES}
    data = pattern_traffic(f"llm:dp=2,{wide},ffn=96,{SIZES}")
    parameters = LAYERS * HIDDEN * (2 * 16 * (8 + 2) + 3 * 96)
    assert groups_of(data, "data") == {(0, 1): parameters * 2}


def test_layers_without_experts():
    traffic = pattern_traffic(f"llm:tp=2,dp=2,ep=2,experts=2,topk=2,dense=1,sp,{SIZES}")
    tokens = ACTIVATION // 2 * 2 // 2
    assert set(groups_of(traffic, "expert").values()) == {tokens * 4 * (LAYERS - 1) * BATCHES}
    # Half of the part, and of the layers with experts twice as much for the other half.
    assert set(groups_of(traffic, "tensor").values()) == {
        (2 * LAYERS + 2 + 2 * 2 * (LAYERS - 1)) * ACTIVATION * BATCHES
    }


def test_published_model_is_its_sizes():
    layout = "tp=2,cp=2,dp=2,pp=2,microbatches=3"
    named = pattern_traffic(f"llm:model=Llama-3.1-8B,{layout}")
    sizes = "layers=32,hidden=4096,ffn=14336,heads=32,kv-heads=8"
    spelled = pattern_traffic(f"llm:{sizes},params=8.03e9,{layout}")
    assert named.table() == spelled.table()
    assert named.groups == spelled.groups
    # An option wins, and one of the sizes leaves the published number of parameters out.
    fewer = pattern_traffic(f"llm:model=llama-3.1-8b,params=7e9,{layout}")
    assert fewer.groups == pattern_traffic(f"llm:{sizes},params=7e9,{layout}").groups
    cut = pattern_traffic(f"llm:model=llama-3.1-8b,layers=16,{layout}")
    assert cut.groups == pattern_traffic(f"llm:{sizes.replace('32', '16', 1)},{layout}").groups


def test_published_parameters_follow_from_the_sizes():
    words = {  # of the vocabulary, by the models' own configurations
        **{"gpt3": 50257, "llama": 128256, "qwen2.5": 152064, "qwen3.5": 248320, "qwen3": 151936},
        **{"mixtral": 32000, "gpt": 201088, "glm": 151552, "deepseek": 129280, "kimi": 163840},
    }
    table = MODELS.read_text("utf-8").splitlines()
    for options in csv.DictReader(line for line in table if not line.startswith("#")):
        name, size = options["model"], {k: int(v) for k, v in options.items() if v.isdigit()}
        layers, hidden, heads = size["layers"], size["hidden"], size.get("heads", 1)
        each = size.get("head-dim", hidden // heads)
        attention = 2 * hidden * each * (heads + size.get("kv-heads", heads))
        ffn = 3 * hidden * size["ffn"] if "ffn" in size else 8 * hidden**2
        experts = (layers - size.get("dense", 0)) * size.get("experts", 1) * ffn
        vocabulary = next(count for start, count in words.items() if name.startswith(start))
        told = float(options["params"][:-1]) * {"B": 1e9, "T": 1e12}[options["params"][-1]]
        # Shared experts, layers without experts and gates are not counted here.
        assert layers * attention + experts + 2 * vocabulary * hidden == pytest.approx(
            told, rel=0.015
        ), name


def test_unknown_model_is_answered_with_those_that_are_known():
    with pytest.raises(UsageError, match=r"unknown model 'llama3\.1-70b'") as caught:
        pattern_traffic("llm:model=llama3.1-70b,tp=2")
    assert caught.value.hint.startswith("did you mean 'llama-3.1-70b'? known are gpt3-175b, ")


def test_interleaved_stages_pass_each_boundary_more_often():
    edges = pattern_traffic(f"llm:tp=1,pp=4,virtual=1,{SIZES}").edge_table()
    assert set(edges.bytes.tolist()) == {ACTIVATION * BATCHES}
    sizes = SIZES.replace(f"layers={LAYERS}", "layers=12")
    edges = pattern_traffic(f"llm:tp=1,pp=4,virtual=3,{sizes}").edge_table()
    dense = edges.dense_bytes(4) // (ACTIVATION * BATCHES)
    assert dense.tolist() == [[0, 3, 0, 2], [3, 0, 3, 0], [0, 3, 0, 3], [2, 0, 3, 0]]


def test_sequence_parallelism_cuts_what_stages_pass_on():
    whole, cut = (pattern_traffic(f"llm:tp=4,pp=2{sp},{SIZES}") for sp in ("", ",sp"))
    assert whole.groups == tuple(replace(g, exchange=Exchange.ALL_REDUCE) for g in cut.groups)
    assert {g.exchange for g in cut.groups} == {Exchange.RING}  # two halves, which have no trees
    assert whole.edge_table().bytes.tolist() == [4 * size for size in cut.edge_table().bytes]
