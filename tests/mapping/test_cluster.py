"""Networks of hosts: exact slots on irregular trees, loads and routes recounted, real names."""

from collections import Counter, deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mapping.machines import traffic_of_pairs
from tests.mapping.test_scale import random_traffic
from toposeat.errors import InputError, UsageError
from toposeat.mapping import map_to_shape, read_shape, seat_slots, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.model.network import NetworkRates
from toposeat.profile import pattern_traffic
from toposeat.topology import allocated, read_network, read_topology
from toposeat.topology.networks.builder import NetworkBuilder


def irregular(sizes, spines=1):
    """Leaves with so many hosts each, all below the same spines."""
    builder = NetworkBuilder()
    for leaf, count in enumerate(sizes):
        switch = builder.switch(f"leaf{leaf}")
        for number in range(count):
            builder.port(f"l{leaf}n{number}", switch)
    for leaf in range(len(sizes)):
        for spine in range(spines):
            builder.link(builder.switches[f"leaf{leaf}"], builder.switch(f"spine{spine}"))
    return builder.build(name="irregular", origin="test")


def check(shape, ranks, seed, objective):
    """Slots, costs, loads and times of a mapping, counted again from single routes."""
    traffic = random_traffic(ranks, seed)
    result = map_to_shape(shape, traffic, MapOptions(objective=objective, seed=seed))
    slots = np.array(result.device_of_rank)
    assert np.unique(slots).size == slots.size == ranks
    assert slots.max() < shape.slots == len(shape.hosts) * shape.slots_per_host
    table, machine = traffic.mapped_table(), shape.machine
    load = np.zeros(machine.links)
    cost = 0.0
    for size, a, b in zip(table.bytes, slots[table.source], slots[table.target], strict=True):
        cost += size * machine.distance(int(a), int(b))
        for link in machine.route(int(a), int(b)):
            load[link] += size
    seconds = load / [machine.capacity(link) for link in range(machine.links)]
    assert result.placed.cost == pytest.approx(cost)
    assert result.placed.max_congestion_s == pytest.approx(seconds.max(initial=0))
    named = {"time": "predicted_s", "congestion": "max_congestion_s", "cost": "cost"}[objective]
    assert getattr(result.placed, named) <= getattr(result.default, named) * (1 + 1e-9)
    assert result.placed.predicted_s <= result.default.predicted_s * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    spines=st.integers(1, 3),
    node=st.sampled_from(("dgx-1v", "rtx-4-crossed-bridges", "full:1", "pcie:2:1:2")),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_every_rank_has_a_slot_and_the_numbers_are_right(sizes, spines, node, seed, data):
    network = irregular(tuple(sizes), spines)
    names = data.draw(st.permutations(network.host_names))
    names = names[: data.draw(st.integers(1, len(names)))]
    shape = shape_of_network(network.restricted_to(names), read_topology(node))
    ranks = data.draw(st.integers(1, shape.slots))
    objective = data.draw(st.sampled_from(("time", "congestion", "cost")))
    check(shape, ranks, seed, objective)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("torus3d:3x4x2,nodes=2,bandwidth=9.4:4.7:9.4", "rtx-4-crossed-bridges"),
        ("dragonfly:5:4:2", "rtx-4-crossed-bridges"),
        ("fattree:4:3:2:2", "rtx-4-crossed-bridges"),
        ("hierarchy:2:2:3:2,node=2", "full:4"),
    ],
)
def test_synthetic_networks_take_nodes_as_well(text, node):
    shape = shape_of_network(read_network(text), read_topology(node))
    assert shape.hosts == tuple(f"node{n:0{len(str(len(shape.hosts) - 1))}d}"
                                for n in range(len(shape.hosts)))  # fmt: skip
    check(shape, shape.slots - 3, 7, "time")


@pytest.mark.parametrize(
    "text",
    [
        "torus3d:3x4x3,nodes=2,bandwidth=9.4:4.7:9.4",
        "dragonfly:5:4:3,bandwidth=25:20:15:10",
        "fattree:1:4:4:2,bandwidth=25:10:30:80",
    ],
)
def test_links_above_the_node_are_those_of_the_shape_itself(text):
    """The same text as a shape and as a network: as many hops, and the same least capacity."""
    shape, network = read_shape(text), read_network(text)
    cluster = shape_of_network(network, read_topology("full:1"))
    assert cluster.slots == shape.slots
    for a, b in np.random.default_rng(3).integers(0, shape.slots, (300, 2)).tolist():
        if a == b:
            continue
        there = [shape.machine.capacity(link) for link in shape.machine.route(a, b)]
        here = [cluster.machine.capacity(link) for link in cluster.machine.route(a, b)]
        # A shape's slot has links of its own, the device's; a node of one device here has none.
        assert len(there) == len(here) + 2, (a, b)
        assert min(there) == pytest.approx(min(here))


def test_routes_are_shortest_and_lead_where_they_should():
    network = irregular((3, 2, 4), spines=2)
    shape = shape_of_network(network, read_topology("full:1"))
    where = {host.name: host.ports[0].switch for host in network.hosts}
    neighbours = {}
    for link in network.links:
        for here, there in (link.ends, link.ends[::-1]):
            neighbours.setdefault(here, []).append(there)
    for a, here in enumerate(network.host_names):
        for b, there in enumerate(network.host_names):
            if a != b:
                hops = _hops(neighbours, where[here], where[there])
                names = [shape.machine.link_name(link) for link in shape.machine.route(a, b)]
                assert names[0] == f"{here} port 0 out"
                assert names[-1] == f"{there} port 0 in"
                assert len(names) == hops + 2


def _hops(neighbours, a, b):
    far, open_ = {a: 0}, deque([a])
    while open_:
        here = open_.popleft()
        for there in neighbours.get(here, ()):
            if there not in far:
                far[there] = far[here] + 1
                open_.append(there)
    return far[b]


def test_uplinks_carry_what_is_below_unless_told_otherwise():
    def uplink(rates):
        network = replace(irregular((3, 2)), rates=rates)
        shape = shape_of_network(network, read_topology("full:1"))
        (link,) = (k for k in range(shape.machine.links)
                   if shape.machine.link_name(k) == "leaf0 -> spine0")  # fmt: skip
        return shape.machine.capacity(link)

    assert uplink(NetworkRates()) == 75e9
    assert uplink(NetworkRates(bandwidths_bytes_per_s=(10e9,))) == 30e9
    assert uplink(NetworkRates(bandwidths_bytes_per_s=(10e9,), taper=2)) == 15e9
    assert uplink(NetworkRates(bandwidths_bytes_per_s=(10e9, 7e9))) == 7e9


def test_adapters_of_a_node_are_ports():
    """DGX-1V: two GPUs and one adapter per switch; each pair leaves through its own."""
    shape = shape_of_network(irregular((2, 2)), read_topology("dgx-1v"))
    ports = Counter(
        name
        for gpu in range(8)
        for link in shape.machine.route(gpu, 24)
        if (name := shape.machine.link_name(link)).endswith(" out")
    )
    assert ports == {f"l0n0 port {n} out": 2 for n in range(4)}
    # EDR, as the catalogue states; the network's text has nothing of it.
    assert any("it is the node's own, 12.5 GB/s" in note for note in shape.notes)


@pytest.mark.parametrize(
    ("node", "text", "gigabytes"),
    [
        ("dgx-1v", "fattree:8:2:2", 4 * 12.5),  # one way in: all adapters together
        ("dgx-1v", "fattree:8:2:2,bandwidth=1:7:3", 7),
        ("k80-16", "fattree:16:2:2", 25),  # without adapters in the catalogue: assumed
    ],
)
def test_a_host_reaches_what_its_adapters_do(node, text, gigabytes):
    shape = shape_of_network(read_network(text), read_topology(node))
    last = shape.slots - 1
    ports = [link for link in shape.machine.route(0, last)
             if shape.machine.link_name(link).endswith((" out", " in"))]  # fmt: skip
    assert {shape.machine.capacity(link) for link in ports} == {gigabytes * 1e9}


def test_one_device_talks_within_its_node_first():
    """Cliques of 8 with shuffled ranks belong on the nodes, though leaves differ in size."""
    rng = np.random.default_rng(5)
    order = rng.permutation(48)
    shape = shape_of_network(irregular((1, 3, 2)), read_topology("dgx-1v"))
    pairs = [(8 * k + i, 8 * k + j) for k in range(6) for i in range(8) for j in range(8) if i != j]
    source, target = order[np.array(pairs).T]
    cliques = traffic_of_pairs(48, source, target, 10**6)
    result = map_to_shape(shape, cliques, MapOptions(objective="cost"))
    node_of = np.array(result.device_of_rank) // 8
    assert all(node_of[a] == node_of[b] for a, b in zip(source, target, strict=True))


def test_seats_have_the_hosts_names_and_the_nodes_devices():
    network = allocated(irregular((2, 3)), ["L1N2.cluster.org", "l0n1", "l1n0"])
    node = read_topology("dgx-1v")
    shape = shape_of_network(network, node)
    result = map_to_shape(shape, pattern_traffic("stencil2d:4x5"), MapOptions())
    placement = seat_slots(result, metadata={}, node=node)
    assert set(placement.devices_of_host) <= {"L1N2.cluster.org", "l0n1", "l1n0"}
    for seat, slot in zip(placement.seats, result.device_of_rank, strict=True):
        device = node.devices[slot % 8]
        assert seat.host == shape.hosts[slot // 8]
        assert (seat.pci_bus_id, seat.index) == (device.pci_bus_id, device.index)
        assert seat.memory_node == device.numa_node
        assert seat.cpus
        assert seat.nic
    counted = Counter()
    for seat in placement.seats:
        assert seat.local_rank == counted[seat.host]
        counted[seat.host] += 1


def test_seats_have_the_uuids_that_each_host_has_said():
    node = read_topology("dgx-1v")
    own = [
        replace(
            node, devices=tuple(replace(d, uuid=f"GPU-{host}-{d.number}") for d in node.devices)
        )
        for host in range(5)
    ]
    shape = shape_of_network(irregular((2, 3)), node)
    result = map_to_shape(shape, pattern_traffic("stencil2d:5x7"), MapOptions(solver="random"))
    placement = seat_slots(result, metadata={}, node=own[0], own=own)
    for seat, slot in zip(placement.seats, result.device_of_rank, strict=True):
        assert seat.uuid == f"GPU-{slot // 8}-{slot % 8}"
    for host, name in enumerate(shape.hosts):
        listed = [each.uuid for each in placement.devices_of_host[name]]
        assert listed == [f"GPU-{host}-{device}" for device in range(8)]


def test_hosts_that_are_not_there():
    with pytest.raises(InputError, match="has no host n9") as error:
        allocated(irregular((2,)), ["n9"])
    assert "l0n0" in error.value.hint
    with pytest.raises(InputError, match="named twice"):
        allocated(irregular((2,)), ["l0n0", "l0n0.org"])


def test_what_does_not_fit_together():
    with pytest.raises(UsageError, match="8 devices per node"):
        shape_of_network(read_network("fattree:8:4:2"), read_topology("full:4"))
    big = read_network("fattree:8:32768")
    with pytest.raises(UsageError, match="slots"):
        shape_of_network(replace(big, devices_per_host=None), read_topology("nvswitch:256"))
