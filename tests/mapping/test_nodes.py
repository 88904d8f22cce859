"""Topologies of several nodes, end to end: order of filling, exact seats, hosts in the file."""

import json
from collections import Counter

import numpy as np
import pytest

from tests.mapping.clusters import GPUS, cluster
from tests.mapping.machines import traffic_of_pairs
from toposeat.cli.main import main
from toposeat.evaluation import Evaluator, device_positions
from toposeat.mapping import map_traffic
from toposeat.model.map_options import MapOptions
from toposeat.model.placement_file import load_placement
from toposeat.model.traffic import Traffic
from toposeat.topology import save_topology

NODES = 4


def groups_of_ranks(ranks, size, seed):
    """All-to-all in groups of `size` ranks whose numbers are shuffled."""
    order = np.random.default_rng(seed).permutation(ranks)
    group = np.arange(ranks) // size
    source, target = np.nonzero((group[:, None] == group) & ~np.eye(ranks, dtype=bool))
    return traffic_of_pairs(ranks, order[source], order[target], 2**20)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("ranks", [32, 24, 19, 1])
def test_the_default_fills_nodes_in_order(ranks, interleaved):
    machine = cluster(NODES, interleaved=interleaved)
    traffic = (
        groups_of_ranks(ranks, 8, 1) if ranks > 1 else Traffic(ranks=1, origin="one", tables={})
    )
    result = map_traffic(machine, traffic, MapOptions(solver="default"))
    seats = [machine.devices[at] for at in result.device_of_rank]
    assert [(d.host, d.index) for d in seats] == [
        (f"n{rank // GPUS}", rank % GPUS) for rank in range(ranks)
    ]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("objective", ["time", "congestion", "cost"])
@pytest.mark.parametrize("ranks", [32, 24])
def test_groups_are_put_on_nodes(ranks, objective, interleaved):
    machine = cluster(NODES, interleaved=interleaved)
    traffic = groups_of_ranks(ranks, GPUS, 3)
    result = map_traffic(machine, traffic, MapOptions(objective=objective))
    seats = [machine.devices[at] for at in result.device_of_rank]
    assert len(set(result.device_of_rank)) == ranks
    assert max(Counter(device.host for device in seats).values()) <= GPUS
    # The optimum by construction: no byte between nodes.
    table = traffic.mapped_table()
    assert all(
        seats[a].host == seats[b].host
        for a, b in zip(table.source.tolist(), table.target.tolist(), strict=True)
    )
    assert result.placed.predicted_s < result.default.predicted_s
    again = Evaluator(machine, traffic).evaluate(result.device_of_rank)
    assert again.predicted_s == pytest.approx(result.placed.predicted_s)


def test_the_default_is_kept_where_nothing_is_gained():
    machine = cluster(NODES)
    traffic = groups_of_ranks(32, 32, 1)  # everybody with everybody: all orders are alike
    result = map_traffic(machine, traffic, MapOptions())
    assert list(result.device_of_rank) == list(range(32))


@pytest.mark.parametrize("ranks", [32, 20])
def test_through_the_command_line(tmp_path, capsys, ranks):
    machine = cluster(NODES)
    topology, pairs, place = (tmp_path / name for name in ("m.json", "pairs.csv", "job.place"))
    save_topology(machine, topology)
    traffic = groups_of_ranks(ranks, 4, 5)
    table = traffic.mapped_table()
    rows = zip(table.source.tolist(), table.target.tolist(), table.bytes.tolist(), strict=True)
    pairs.write_text(
        f"# ranks={ranks}\nsource,target,bytes\n" + "".join(f"{a},{b},{n}\n" for a, b, n in rows)
    )
    command = ["map", str(pairs), "-t", str(topology)]
    assert main([*command, "-o", str(place), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    devices = document["device_of_rank"]
    placement = load_placement(place)
    assert placement.ranks == ranks
    for rank, seat in enumerate(placement.seats):
        device = machine.devices[devices[rank]]
        assert (seat.host, seat.index) == (device.host, device.index)
    for host in {seat.host for seat in placement.seats}:
        here = [seat.local_rank for seat in placement.seats if seat.host == host]
        assert here == list(range(len(here)))
        assert len(here) <= GPUS
    # Every node has the same bus ids; the placement is found again all the same.
    assert list(device_positions(placement, machine, traffic.ranks, place)) == devices
