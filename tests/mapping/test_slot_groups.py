"""Groups over several hosts: equal shares over all NICs, from each host to the next.

The oracles are the equations of docs/explanation/groups.md, computed by hand for these machines.
"""

import random

import numpy as np
import pytest

from tests.mapping.test_node_order import NAMES, leaves_of_four
from toposeat.evaluation import group_rate
from toposeat.mapping import SlotEvaluator, map_to_shape, read_shape, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

NIC = 50e9  # of each of the eight of a node
PCIE_BOTH = 101.4e9  # of a GPU, both directions together
RING = 18 * 20.6e9  # of a node's GPUs on NVSwitches: what NCCL takes a lane for
LATENCY = 2e-4  # one message's, as a share of the times here
RANDOM = random.Random(7).sample(NAMES, 32)


def evaluated(job, order=NAMES, taper=1):
    shape = shape_of_network(leaves_of_four(order, taper), read_topology("hgx-h100"))
    evaluator = SlotEvaluator(shape, pattern_traffic(job))
    return evaluator.evaluate(evaluator.default)


def over_each_edge(traffic):
    (group,) = {each.bytes for each in traffic.groups}
    return group


def seconds_of(job):
    (phase,) = evaluated(job).phases
    return phase.seconds


def test_the_node_has_the_figures_of_the_oracle():
    assert group_rate(read_topology("hgx-h100"), range(8)).bytes_per_s == pytest.approx(RING)


def test_a_group_on_one_host_has_the_rate_of_its_set():
    volume = over_each_edge(pattern_traffic("llm:tp=8,pp=1,dp=1"))
    assert seconds_of("llm:tp=8,pp=1,dp=1") == pytest.approx(volume / RING)


def test_a_group_on_two_hosts_uses_all_their_nics():
    """A GPU sends an eighth to its NIC while it receives an eighth from it."""
    volume = over_each_edge(pattern_traffic("llm:tp=16,pp=1,dp=1"))
    expected = max(volume / RING, volume / 8 / NIC, 2 * volume / 8 / PCIE_BOTH)
    assert seconds_of("llm:tp=16,pp=1,dp=1") == pytest.approx(expected, rel=LATENCY)


def test_a_tapered_leaf_carries_every_crossing_of_the_order_of_hosts():
    """4 hosts of 8 NICs, taper 4: an uplink of 400 GB/s, loaded once per hop that leaves."""
    job = "llm:tp=1,pp=1,dp=256"
    volume = over_each_edge(pattern_traffic(job))
    leaf = [NAMES.index(name) // 4 for name in RANDOM]
    out = np.zeros(8)
    for here, there in zip(leaf, [*leaf[1:], leaf[0]], strict=True):
        out[here] += here != there
    expected = volume * out.max() / (4 * 8 * NIC / 4)
    (phase,) = evaluated(job, RANDOM, 4).phases
    assert phase.seconds == pytest.approx(expected, rel=LATENCY)


def test_the_search_sees_what_the_order_of_hosts_gains():
    job = "llm:tp=1,pp=1,dp=256"
    shape = shape_of_network(leaves_of_four(RANDOM, 4), read_topology("hgx-h100"))
    result = map_to_shape(shape, pattern_traffic(job), MapOptions(budget_s=3))
    assert result.default.predicted_s / result.placed.predicted_s > 3
    contiguous = evaluated(job, NAMES, 4).predicted_s
    assert result.placed.predicted_s == pytest.approx(contiguous)


def test_only_the_first_rank_on_each_host_orders_the_hosts():
    shape = shape_of_network(leaves_of_four(NAMES, 4), read_topology("hgx-h100"))
    evaluator = SlotEvaluator(shape, pattern_traffic("llm:tp=1,pp=1,dp=256"))
    slots = np.array(evaluator.default)
    within = np.concatenate(
        [8 * host + np.random.default_rng(host).permutation(8) for host in range(32)]
    )
    shuffled = slots[within]
    interleaved = np.concatenate([slots[0::8], *(slots[at::8] for at in range(1, 8))])
    expected = evaluator.evaluate(slots).phases
    assert evaluator.evaluate(shuffled).phases == expected
    assert evaluator.evaluate(interleaved).phases == expected


def test_one_member_on_each_host_has_one_channel():
    job = "llm:tp=8,pp=1,dp=4"
    traffic = pattern_traffic(job)
    ranks = {each.id: each.ranks for each in traffic.communicators}
    (volume,) = {each.bytes for each in traffic.groups if len(ranks[each.communicator]) == 4}
    seconds = {phase.label: phase.seconds for phase in evaluated(job).phases}
    assert seconds["data"] == pytest.approx(max(volume / NIC, 2 * volume / PCIE_BOTH), rel=LATENCY)


def test_gpus_that_share_nics_have_a_channel_for_each_nic():
    """DGX-1V: eight GPUs, four NICs whose PCIe carries 20.4 GB/s both ways together.

    16 ranks on two nodes all-reduce by trees: S bytes cross where a ring's edge has 30/16 S.
    """
    shape = shape_of_network(leaves_of_four(NAMES, 1), read_topology("dgx-1v"))
    traffic = pattern_traffic("llm:tp=16,pp=1,dp=1")
    evaluator = SlotEvaluator(shape, traffic)
    (phase,) = evaluator.evaluate(evaluator.default).phases
    size = over_each_edge(traffic) * 16 / 30
    assert phase.seconds == pytest.approx(2 * size / 4 / 20.4e9, rel=LATENCY)


def test_without_a_node_every_device_sends_each_byte_once():
    """Two nodes of four devices: 25 GB/s out of each device, 100 GB/s out of a node."""
    shape = read_shape("hierarchy:4:2,bandwidth=25:100")
    traffic = pattern_traffic("llm:tp=8,pp=1,dp=1")
    evaluator = SlotEvaluator(shape, traffic)
    placed = evaluator.evaluate(evaluator.default)
    volume = over_each_edge(traffic)
    assert placed.phases[0].seconds == pytest.approx(volume / 25e9, rel=1e-4)
    sent = [each for each in placed.links if each.level == "device uplinks"]
    assert [each.bytes for each in sent] == pytest.approx([volume] * 16, rel=LATENCY)
    nodes = [each.bytes for each in placed.links if each.level == "level 1 uplinks"]
    assert nodes == pytest.approx([volume * 8 / 14] * 4, rel=LATENCY)  # trees send S on


@pytest.mark.parametrize(("hosts", "tree_s"), [(2, 2), (3, 3)])
def test_all_reduces_go_by_trees_on_two_nodes_and_the_other_way_is_told(hosts, tree_s):
    """Its two halves have rings alone. Four NICs of a DGX-1V carry 20.4 GB/s, both ways together.

    By two trees a node of two sends S and receives S, one of three at most 3/2 S each.
    """
    shape = shape_of_network(leaves_of_four(NAMES[:hosts], 1), read_topology("dgx-1v"))
    ranks, seconds = 8 * hosts, {}
    for kind in ("", ",sp"):
        traffic = pattern_traffic(f"llm:tp={ranks},pp=1,dp=1{kind}")
        evaluator = SlotEvaluator(shape, traffic)
        (seconds[kind],) = evaluator.with_other_ways(evaluator.evaluate(evaluator.default)).phases
    whole, halves = seconds[""], seconds[",sp"]
    assert (halves.trees_s, halves.rings_s) == (None, None)
    volume = over_each_edge(traffic)
    assert halves.seconds == pytest.approx(2 * volume / 4 / 20.4e9, rel=LATENCY)
    by_trees = pytest.approx(tree_s * volume * ranks / (2 * (ranks - 1)) / 4 / 20.4e9, rel=LATENCY)
    if hosts == 2:
        assert (whole.seconds, whole.rings_s, whole.trees_s) == (by_trees, halves.seconds, None)
    else:
        assert (whole.seconds, whole.rings_s, whole.trees_s) == (halves.seconds, None, by_trees)
