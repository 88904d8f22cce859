"""Of placements as good, the one that keeps rank 0 on the first host and hosts in their order."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from tests.mapping.clusters import cluster
from tests.mapping.machines import traffic_of
from tests.mapping.test_node_order import NAMES, leaves_of_four
from toposeat.cli.main import main
from toposeat.mapping import map_to_shape, map_traffic, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.model.placement_file import load_placement
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "ml"


def hosts_in_order(result, per_host):
    """Numbers of hosts, in the order of their lowest ranks."""
    return list(dict.fromkeys((np.array(result.device_of_rank) // per_host).tolist()))


def test_equal_nodes_keep_their_order():
    """The heavy pairs are within nodes in one way; which node has which is all the same."""
    machine = cluster(4)
    for seed in range(6):
        ranks = list(range(32))
        random.Random(seed).shuffle(ranks)
        sent = np.zeros((32, 32), np.int64)
        for node in range(4):
            own = ranks[8 * node : 8 * node + 8]
            sent[np.ix_(own, own)] = 10**9
        np.fill_diagonal(sent, 0)
        result = map_traffic(machine, traffic_of(sent))
        assert result.placed.predicted_s < result.default.predicted_s
        assert hosts_in_order(result, 8) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_leaves_are_filled_from_the_first_host_and_in_order(seed):
    names = random.Random(seed).sample(NAMES, 32)
    shape = shape_of_network(leaves_of_four(names, 4), read_topology("hgx-h100"))
    result = map_to_shape(shape, pattern_traffic("llm:tp=8,pp=4,dp=8"), MapOptions(budget_s=3))
    order = hosts_in_order(result, 8)
    assert order[0] == 0
    leaf = [NAMES.index(names[host]) // 4 for host in order]
    for each in set(leaf):
        own = [host for host, at in zip(order, leaf, strict=True) if at == each]
        assert own == sorted(own)


@pytest.mark.parametrize(
    ("case", "dp", "racks", "gain"),
    [
        ("05-kueue-3533", 10, {"n0-3": 4, "n4-7": 4, "n8-9": 2}, 0.30),
        ("09-volcano-4233", 5, {"n1-3": 3, "n4-5": 2}, 0.28),
    ],
)
def test_public_cases_fill_one_rack_before_the_next(case, dp, racks, gain, tmp_path):
    if not CASES.exists():
        pytest.skip("no ../shared beside the checkout")
    hosts = CASES / f"{case}.hosts"
    words = ["map", f"llm:tp=8,dp={dp}", "-t", f"{CASES / case}.conf,taper=4"]
    words += ["--node", "hgx-h100", "--hosts", str(hosts), "-o", str(tmp_path / "job.place")]
    assert main(words) == 0
    placement = load_placement(tmp_path / "job.place")
    order = list(dict.fromkeys(seat.host for seat in placement.seats))
    assert order[0] == hosts.read_text().split()[0]
    of_number = {
        number: rack
        for rack in racks
        for number in range(int(rack[1]), int(rack.rpartition("-")[2]) + 1)
    }
    filled = [of_number[int(host[1:])] for host in order]
    changes = sum(a != b for a, b in itertools.pairwise(filled))
    assert changes == len(racks) - 1
    default, placed = (
        float(placement.metadata[f"predicted_s_{each}"]) for each in ("default", "placed")
    )
    assert 1 - placed / default == pytest.approx(gain, abs=0.02)
