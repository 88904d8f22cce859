"""Orders of nodes of jobs with groups: against brute force, and the plain loop."""

from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from threading import Thread

import numpy as np
import pytest
from benchmarks.block_orders import best_block_order, network_text
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat import _core
from toposeat.mapping import SlotEvaluator, map_to_shape, shape_of_network
from toposeat.mapping.node_orders import search_orders
from toposeat.mapping.order_bound import fewest_pieces
from toposeat.mapping.rank_grid import rank_grid
from toposeat.mapping.slot_groups import SlotGroups
from toposeat.model.map_options import MapOptions
from toposeat.model.network import NetworkRates
from toposeat.profile import pattern_traffic
from toposeat.topology import allocated, read_network, read_topology
from toposeat.topology.networks.builder import NetworkBuilder

SMALL = ("llm:tp=2,pp=2,dp={}", "llm:tp=4,pp={},dp=1", "llm:tp=1,pp=2,dp={}", "llm:tp=2,cp=2,dp={}")


def leaves(sizes, taper, order=None):
    """Leaves of so many hosts, two below each spine; the job has the hosts in an order."""
    builder = NetworkBuilder()
    leaf = [at for at, size in enumerate(sizes) for _ in range(size)]
    for host in order or range(len(leaf)):
        builder.port(f"h{host}", builder.switch(f"leaf{leaf[host]}"))
    for at in range(len(sizes)):
        builder.link(builder.switch(f"leaf{at}"), builder.switch(f"spine{at // 2}"))
    for at in range((len(sizes) + 1) // 2):
        builder.link(builder.switch(f"spine{at}"), builder.switch("core"), level=2)
    made = builder.build(name="leaves", origin="test")
    return replace(made, rates=NetworkRates(taper=taper))


def shape_of(network, node="rtx-4-crossed-bridges"):
    return shape_of_network(network, read_topology(node))


def seconds_of(evaluator, each, hosts):
    """By the evaluation of whole placements, node by node of `each` slots."""
    ranks = np.array(evaluator.default)
    slots = np.array(hosts)[ranks // each] * each + ranks % each
    return evaluator.evaluate(slots).predicted_s


@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=4).filter(lambda each: sum(each) < 6),
    taper=st.sampled_from([1.0, 2.0, 4.0]),
    job=st.sampled_from(SMALL),
    data=st.data(),
)
@settings(deadline=None, max_examples=12)
def test_small_jobs_get_the_best_of_all_orders(sizes, taper, job, data):
    hosts = sum(sizes)
    shape = shape_of(leaves(sizes, taper, data.draw(st.permutations(range(hosts)))))
    traffic = pattern_traffic(job.format(hosts) + ",layers=60")
    evaluator, each = SlotEvaluator(shape, traffic), shape.slots_per_host
    best = min(seconds_of(evaluator, each, order) for order in permutations(range(hosts)))
    found = search_orders(shape, traffic, slowest_s=float("inf"), cpu_s=5, seed=1)
    evaluated = evaluator.evaluate(found.slots).predicted_s
    assert evaluated <= best * (1 + 1e-9)
    assert found.bound_s is None or found.bound_s <= evaluated


@pytest.mark.parametrize("taper", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("job", ["llm:tp=2,pp=2,dp=2", "llm:tp=4,pp=2,dp=1", "llm:tp=1,dp=8"])
def test_no_placement_at_all_is_below_the_bound(job, taper):
    """Of ranks, not of nodes: every way to share the eight of them out to two hosts, and orders."""
    traffic = pattern_traffic(job)
    shape = shape_of(leaves([1, 1], taper))
    found = search_orders(shape, traffic, slowest_s=float("inf"), cpu_s=1, seed=1)
    assert found.bound_s is not None
    evaluator = SlotEvaluator(shape, traffic)
    rng = np.random.default_rng(1)
    rows = [rng.permutation(8) for _ in range(300)] + [
        np.arange(8),
        np.array([0, 4, 1, 5, 2, 6, 3, 7]),
    ]
    best = min(evaluator.evaluate(row.astype(np.uint32)).predicted_s for row in rows)
    assert 0 < found.bound_s <= best


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4).filter(
        lambda each: 3 < sum(each) < 8
    ),
    taper=st.sampled_from([1.0, 2.0, 4.0, 8.0]),
    stages=st.integers(1, 7),
    tp=st.sampled_from([4, 8]),
)
@settings(deadline=None, max_examples=25)
def test_no_order_of_whole_hosts_is_below_the_bound(sizes, taper, stages, tp):
    """Of up to seven hosts every order; leaves of unlike sizes, and stages that no leaf divides."""
    hosts = sum(sizes)
    if hosts * 8 // tp % stages:
        return
    shape = shape_of(leaves(sizes, taper), "hgx-h100")
    traffic = pattern_traffic(f"llm:tp={tp},pp={stages},dp={hosts * 8 // tp // stages},layers=60")
    orders = SlotGroups(shape, traffic).orders(np.arange(traffic.ranks, dtype=np.uint32))
    best = min(sum(orders.seconds(np.array(row, np.uint32))) for row in permutations(range(hosts)))
    found = search_orders(shape, traffic, slowest_s=float("inf"), cpu_s=0.1, seed=1)
    assert found.bound_s is None or 0 < found.bound_s <= best


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1], [1, 1, 1, 1]])
@pytest.mark.parametrize("job", ["tp=8,pp={}", "tp=8,dp={}", "tp=4,pp={},dp=2", "tp=2,pp=4,dp={}"])
def test_no_tensor_group_that_is_cut_brings_a_placement_below_the_bound(sizes, job):
    """Ranks of the best order change places between hosts, pair by pair, whatever helps most."""
    shape = shape_of(leaves(sizes, 8.0), "hgx-h100")
    traffic = pattern_traffic(f"llm:{job.format(sum(sizes))},layers=60")
    found = search_orders(shape, traffic, slowest_s=float("inf"), cpu_s=0.1, seed=1)
    assert found.bound_s is not None
    evaluator = SlotEvaluator(shape, traffic)
    row = found.slots
    for _ in range(2):
        others = []
        for a, b in combinations(range(0, traffic.ranks, 2 if traffic.ranks > 16 else 1), 2):
            if row[a] // 8 != row[b] // 8:
                other = row.copy()
                other[a], other[b] = row[b], row[a]
                others.append((evaluator.evaluate(other).predicted_s, a, b))
        least, a, b = min(others)
        assert found.bound_s <= least
        row = row.copy()
        row[a], row[b] = row[b], row[a]


@given(
    size=st.integers(2, 6),
    lines=st.integers(1, 4),
    limits=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    data=st.data(),
)
@settings(deadline=None, max_examples=150)
def test_lines_are_cut_into_as_many_pieces_as_said(size, lines, limits, data):
    """Against every way to share the cells of the lines out to groups."""
    left = size * lines
    cells = []
    for _ in limits[1:]:
        cells.append(data.draw(st.integers(0, left)))
        left -= cells[-1]
    cells.append(left)

    @cache
    def least(line, group, open_, rest):
        """Pieces of the lines from this one on, of which so many cells are still open."""
        if line == lines:
            return 0
        if open_ == 0:
            return least(line + 1, 0, size, rest)
        if group == len(rest):
            return float("inf")
        most = min(limits[group], open_, rest[group])
        return min(
            (many > 0)
            + least(
                line,
                group + 1,
                open_ - many,
                (*rest[:group], rest[group] - many, *rest[group + 1 :]),
            )
            for many in range(most + 1)
        )

    assert fewest_pieces(size, lines, list(zip(limits, cells, strict=True))) <= least(
        0, 0, size, tuple(cells)
    )


def test_a_seed_has_one_answer_whatever_else_runs():
    """What ends a search is counted, not clocked: the same orders are tried beside other work."""
    shape = shape_of(leaves([3, 5, 4, 4, 2, 6, 5, 3], 4.0), "hgx-h100")
    traffic = pattern_traffic("llm:model=llama-3.1-8b,tp=8,pp=4,dp=8")
    found = []
    for beside in (0, 2):
        others = [Thread(target=lambda: sum(range(3_000_000))) for _ in range(beside)]
        for each in others:
            each.start()
        found.append(search_orders(shape, traffic, slowest_s=float("inf"), cpu_s=0.2, seed=3))
        for each in others:
            each.join()
    first, second = found
    assert first.tried == second.tried
    assert first.slots.tolist() == second.slots.tolist()


@pytest.mark.parametrize("rails", ["", ",rails=8"])
def test_the_core_has_the_same_seconds_as_the_evaluation(tmp_path, rails):
    (tmp_path / "net.conf").write_text(network_text(3)[0])
    named = [f"n{host:04}" for host in (5, 900, 17, 18, 400, 401, 402, 30)]
    network = allocated(read_network(f"{tmp_path}/net.conf,taper=4{rails}"), named)
    shape = shape_of_network(network, read_topology("hgx-h100"))
    traffic = pattern_traffic("llm:tp=4,pp=2,dp=8,layers=60")
    orders = SlotGroups(shape, traffic).orders(np.arange(64, dtype=np.uint32))
    evaluator = SlotEvaluator(shape, traffic)
    for seed in range(5):
        hosts = np.random.default_rng(seed).permutation(8).astype(np.uint32)
        expected = seconds_of(evaluator, 8, hosts)
        assert sum(orders.seconds(hosts)) == pytest.approx(expected, rel=1e-9)


def test_an_order_that_is_none_is_refused():
    shape = shape_of(leaves([2, 2], 4))
    orders = SlotGroups(shape, pattern_traffic("llm:tp=4,dp=4")).orders(
        np.arange(16, dtype=np.uint32)
    )
    for row in ([0, 1, 2, 2], [0, 1, 2, 9], [0, 1]):
        with pytest.raises(ValueError, match="host"):
            orders.seconds(np.array(row, np.uint32))
    with pytest.raises(ValueError, match="hosts on a network"):
        _core.NodeOrders(_core.LargeMachine.hierarchy([4, 2], [1, 2], [1, 1], [0, 0]), [])


@pytest.mark.parametrize(
    ("job", "axes"),
    [
        ("llm:tp=4,pp=2,dp=8", ((1, 4), (4, 8), (32, 2))),
        ("llm:tp=2,cp=2,dp=4", ((1, 2), (2, 2), (4, 4))),
        ("llm:tp=2,pp=2,dp=8,sp,ep=4,experts=8", ((1, 2), (2, 4), (8, 2), (16, 2))),
        ("llm:tp=2,pp=4,dp=4,order=tp-pp-cp-dp", ((1, 2), (2, 4), (8, 4))),
    ],
)
def test_axes_are_read_from_groups_and_pairs(job, axes):
    traffic = pattern_traffic(job)
    shape = shape_of(leaves([4] * 8, 1))
    grid = rank_grid(traffic.ranks, SlotGroups(shape, traffic).phases)
    assert grid.axes == axes


@pytest.mark.parametrize("row", ["sorted", "random", "strided"])
@pytest.mark.parametrize("options", ["taper=4", "taper=2,rails=8"])
@pytest.mark.parametrize("ranks_of", [(8, 8, 8), (8, 16, 4), (4, 8, 16)])
def test_never_worse_than_a_plain_loop_over_block_orders(tmp_path, row, options, ranks_of):
    text, lists = network_text(7)
    (tmp_path / "net.conf").write_text(text)
    few = sorted(lists["sorted"])[:128:2]
    hosts = [host for host in lists[row] if host in few]
    network = allocated(read_network(f"{tmp_path}/net.conf,{options}"), hosts)
    shape = shape_of_network(network, read_topology("hgx-h100"))
    tp, pp, dp = ranks_of
    traffic = pattern_traffic(f"llm:model=llama-3.1-70b,tp={tp},pp={pp},dp={dp}")
    result = map_to_shape(shape, traffic, MapOptions(budget_s=0.1))
    _, block = best_block_order(shape, SlotEvaluator(shape, traffic), ranks_of)
    assert result.placed.predicted_s <= block.predicted_s * (1 + 1e-9)
    assert result.placed.predicted_s <= result.default.predicted_s
    proof = result.certificate
    assert proof.orders_tried
    assert proof.lower_bound is not None
    assert 0 < proof.lower_bound <= result.placed.predicted_s
