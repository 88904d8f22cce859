"""Hosts that a network joins as one machine that lists every device."""

import random
from dataclasses import replace

import pytest

from toposeat import mapping, pipeline, profile, topology
from toposeat.errors import InputError
from toposeat.evaluation import Evaluator, Scenarios
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import PathClass
from toposeat.model.traffic import MemorySpace
from toposeat.report import range_words
from toposeat.topology import parse_topology, topology_text, without_devices

HOSTS = ("n1", "n2", "n3", "n4")


@pytest.fixture
def network(tmp_path):
    """Two leaf switches, each with half of the hosts, and a spine."""

    def made(*options, hosts=HOSTS):
        half = len(hosts) // 2
        leaves = {"a": hosts[:half], "b": hosts[half:]}
        lines = [f"SwitchName={name} Nodes={','.join(own)}" for name, own in leaves.items()]
        path = tmp_path / "topology.conf"
        path.write_text("\n".join([*lines, "SwitchName=top Switches=a,b\n"]))
        return topology.read_network(",".join([f"slurm:{path}", *options]))

    return made


def node(devices=4):
    machine = topology.read_topology("polaris-4")
    gone = frozenset(device.id for device in machine.devices[devices:])
    return without_devices(machine, gone)


def test_every_host_keeps_its_own_devices(network):
    nodes = [node(4), node(4), node(4), node(3)]
    machine = mapping.join_hosts(network(), nodes)
    machine.check()
    assert machine.hosts == HOSTS
    assert len(machine.devices) == 15
    inside = nodes[3].route_of_pair
    for (a, b), route in inside.items():
        own = machine.route_of_pair[f"n4/{a}", f"n4/{b}"]
        assert [id.removeprefix("n4/") for id in own.links] == list(route.links)
    assert len(machine.routes) == sum(len(n.routes) for n in nodes) + 2 * (3 * 16 + 3 * 12)


def test_a_way_to_another_host_leaves_by_the_nearest_adapters(network):
    machine = mapping.join_hosts(network(), [node()] * 4)
    there = machine.route_of_pair["n1/gpu3", "n4/gpu0"]
    back = machine.route_of_pair["n4/gpu0", "n1/gpu3"]
    assert there.path_class is PathClass.NET
    ends = [machine.link_of_id[id].ends for id in there.links]
    walked = [vertex for pair in ends for vertex in pair]
    assert {"network/a", "network/top", "network/b"} <= set(walked)
    adapters = {each.id: each.numa_node for each in machine.nics if each.id in walked}
    near = {each.id: each.numa_node for each in machine.devices}
    assert sorted(adapters) == sorted(
        id for id in adapters if adapters[id] in (near["n1/gpu3"], near["n4/gpu0"])
    )
    assert len(adapters) == 2
    assert back.links == there.links[::-1]
    neighbours = machine.route_of_pair["n1/gpu3", "n2/gpu0"]
    assert not any("top" in end for id in neighbours.links for end in machine.link_of_id[id].ends)


def test_hosts_without_adapters_share_one_port(network):
    bare = replace(node(), nics=(), routes=tuple(r for r in node().routes if "nic" not in r.target))
    kept = {device.id for device in bare.devices} | {part.id for part in bare.components}
    bare = replace(bare, links=tuple(x for x in bare.links if kept >= {*x.ends}), pairs=())
    bare = replace(bare, routes=tuple(r for r in bare.routes if r.target in kept))
    machine = mapping.join_hosts(network("bandwidth=10:20"), [bare] * 4)
    machine.check()
    routes = [machine.route_of_pair[f"n1/{d.id}", "n3/gpu0"] for d in bare.devices]
    shared = set.intersection(*({*route.links} for route in routes))
    assert machine.link_of_id["n1/port0-network"].forward_bytes_per_s.value == 10e9
    assert "n1/port0-network" in shared
    assert not machine.premises or all("port" not in each.what for each in machine.premises)


def test_rates_that_nobody_states_are_premises(network):
    named = {each.what for each in mapping.join_hosts(network(), [node()] * 4).premises}
    assert "uplinks of a switch" in named
    told = {
        each.what for each in mapping.join_hosts(network("bandwidth=25:100"), [node()] * 4).premises
    }
    assert not told & {"uplinks of a switch", "rate of a network port"}


def test_what_settles_a_doubt_is_said(network):
    traffic = profile.read_traffic("stencil2d:4x4")
    machine = mapping.join_hosts(network("bandwidth=25"), [node()] * 4)
    premises = pipeline.map_traffic(machine, traffic, MapOptions(min_gain=0.1)).premises
    assert "uplinks of a switch" in (range_words(premises) or "")
    assert [x.command for x in premises.settles] == ["-t NETWORK,bandwidth=PORT:UPLINK"]
    told = mapping.join_hosts(network("bandwidth=25:25"), [node()] * 4)
    said = range_words(pipeline.map_traffic(told, traffic).premises) or ""
    assert "uplinks of a switch" not in said


def test_it_survives_its_file(network):
    machine = mapping.join_hosts(network(), [node(4), node(2), node(4), node(3)])
    again = parse_topology(topology_text(machine), "machine.json")
    assert again.route_of_pair == machine.route_of_pair
    assert again.devices == machine.devices


def test_a_plan_is_as_good_as_that_of_the_large_machine(network):
    """The same machine, by the solver for thousands of ranks: neither gains more for certain."""
    traffic = profile.read_traffic("stencil2d:4x4")
    machine = mapping.join_hosts(network(), [node()] * 4)
    joined = mapping.map_traffic(machine, traffic)
    shape = mapping.map_to_shape(mapping.shape_of_network(network(), node()), traffic)
    evaluator = Evaluator(machine, traffic)
    rows = [tuple(range(16)), joined.device_of_rank, tuple(shape.device_of_rank)]
    _, own, other = Scenarios(evaluator).outlook(rows).gains().min(axis=0)
    assert own >= other - 0.02
    assert joined.placed.predicted_s < 0.9 * joined.default.predicted_s


def test_rounds_are_one_floor_on_both_forms(network):
    schedule = profile.collective_schedule("allreduce", "recursive-doubling", [range(16)], 8)
    traffic = replace(
        profile.schedule_traffic(schedule), rounds={MemorySpace.DEVICE: schedule.table()}
    )
    machine = mapping.join_hosts(network(), [node()] * 4)
    shape = mapping.shape_of_network(network(), node())
    draw = random.Random(3)
    for _ in range(5):
        row = draw.sample(range(16), 16)
        listed = Evaluator(machine, traffic).evaluate(row)
        slots = mapping.SlotEvaluator(shape, traffic).evaluate(row)
        for found in (listed, slots):
            assert found.latency.share == 1
        assert slots.predicted_s == pytest.approx(listed.predicted_s)
        bare = mapping.SlotEvaluator(shape, replace(traffic, rounds={})).evaluate(row)
        assert bare.predicted_s < slots.predicted_s


def test_one_partner_after_the_other_is_looked_at_on_both_forms(network):
    traffic = profile.read_traffic("stencil2d:4x4,bytes=8")
    machine = mapping.join_hosts(network(), [node()] * 4)
    shape = mapping.shape_of_network(network(), node())
    listed, slots = Evaluator(machine, traffic), mapping.SlotEvaluator(shape, traffic)
    rows = [tuple(range(16)), tuple(random.Random(5).sample(range(16), 16))]
    outlook = Scenarios(listed, latency=listed.evaluate(rows[0]).latency).outlook(rows)
    assert outlook.at_ends[-1].name == "one partner after the other"
    assert outlook.ends[-1] == pytest.approx([slots.in_turn_s(row) for row in rows], rel=1e-3)
    premises = mapping.map_to_shape(shape, traffic).premises
    told = {each.what for each in premises.settles} | {*premises.depends_on}
    assert told == {"whether messages to several partners overlap"}


def test_too_many_devices_are_refused(network):
    hosts = tuple(f"n{i}" for i in range(66))
    with pytest.raises(InputError, match="264 devices are too many") as refused:
        mapping.join_hosts(network(hosts=hosts), [node()] * 66)
    assert "--hosts" in str(refused.value.hint)
