"""Catalogue machines: published facts, and agreement with recorded machines of the same kind."""

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from tests.support.tables import literals
from toposeat.errors import UsageError
from toposeat.model.health import Severity
from toposeat.model.quantity import Source
from toposeat.model.topology import PathClass, Vendor
from toposeat.topology import catalogue_names, findings_of, read_topology, wiring_of

TABLES = literals(Path(__file__).with_name("catalogue.txt"))

GB = 1e9
# Pairs across the sockets as published: one direction is slower.
ASYMMETRIC = ("minsky-4", "k40-4", "c2050-8")
MEASURED = ("power9-4", *ASYMMETRIC)


def classes(topology):
    """Unordered device pairs by path class."""
    ids = [d.id for d in topology.devices]
    return Counter(topology.route_of_pair[p].path_class.value for p in combinations(ids, 2))


def route(topology, i, j):
    return topology.route_of_pair[f"gpu{i}", f"gpu{j}"]


def pair_bandwidth(topology, i, j):
    """What one flow reaches alone."""
    found = route(topology, i, j)
    limits = [topology.link_of_id[x].forward_bytes_per_s.value for x in found.links]
    combined = [topology.link_of_id[x].combined_bytes_per_s for x in found.links]
    limits += [c.value for c in combined if c is not None]
    return min([*limits, *([found.cap_bytes_per_s.value] if found.cap_bytes_per_s else [])])


def latency(topology, i, j):
    return sum(topology.link_of_id[x].latency_s.value for x in route(topology, i, j).links)


@pytest.mark.parametrize("name", catalogue_names())
def test_is_complete_and_consistent(name):
    topology = read_topology(name)
    assert topology.name == name
    assert topology.origin == "catalogue"
    assert topology.report == ()
    assert topology.sources
    assert topology.description
    devices = [d.id for d in topology.devices]
    assert devices == [f"gpu{i}" for i in range(len(devices))]
    assert len({(d.host, d.pci_bus_id) for d in topology.devices}) == len(devices)
    assert all(d.cpus and d.numa_node is not None and d.memory_bytes for d in topology.devices)
    assert len({d.vendor for d in topology.devices} - {Vendor.UNKNOWN}) == 1
    for link in topology.links:
        assert min(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value) > 0
        assert link.latency_s.value > 0
    for a, b in combinations(devices, 2):
        out, back = topology.route_of_pair[a, b], topology.route_of_pair[b, a]
        assert out.links == back.links[::-1]
        assert out.path_class is back.path_class is not PathClass.UNKNOWN
        assert out.cap_bytes_per_s == back.cap_bytes_per_s or name in ASYMMETRIC
        assert out.peer_access is None
    for device in topology.devices:
        for nic in topology.nics:
            if nic.host == device.host:  # an adapter serves its own host
                assert topology.route_of_pair[device.id, nic.id].links


@pytest.mark.parametrize("name", catalogue_names())
def test_numbers_are_nominal_but_for_published_measurements(name):
    topology = read_topology(name)
    sources = {r.cap_bytes_per_s.source for r in topology.routes if r.cap_bytes_per_s is not None}
    if name in MEASURED:
        assert Source.MEASURED in sources
    else:
        assert not any(each.is_of_this_machine for each in sources)


@pytest.mark.parametrize(("name", "devices", "nics", "expected", "shape"), TABLES["wiring"])
def test_pair_classes_and_wiring(name, devices, nics, expected, shape):
    topology = read_topology(name)
    assert (len(topology.devices), len(topology.nics)) == (devices, nics)
    assert classes(topology) == expected
    assert wiring_of(topology).shape.value == shape
    assert not [f for f in findings_of(topology) if f.severity is Severity.FAULT]


K80_PARTNERS = {0: 1, 1: 2, 2: 4, 3: 8}  # a partner of GPU 0 at each level


@pytest.mark.parametrize("name", ["k80-16", "k80-16-faraji"])
def test_k80_has_the_papers_ratios(name):
    topology = read_topology(name)
    bandwidth = {level: pair_bandwidth(topology, 0, j) for level, j in K80_PARTNERS.items()}
    ratios = [bandwidth[0] / bandwidth[level] for level in range(4)]
    assert ratios == pytest.approx([1, 2.47, 4.22, 4.47])
    delay = {level: latency(topology, 0, j) for level, j in K80_PARTNERS.items()}
    assert [delay[level] / delay[0] for level in range(4)] == pytest.approx([1, 1.01, 1.17, 1.57])
    kinds = Counter(link.kind.value for link in topology.links)
    assert kinds == {"pcie": 16 + 8 + 4, "smp": 1}


def test_k80_shares_links_as_fitted():
    topology = read_topology("k80-16")
    walk = [topology.link_of_id[x] for x in route(topology, 0, 8).links]
    capacities = [link.forward_bytes_per_s.value / (10 * GB) for link in walk]
    half = [1, 1 / 2.47, 2 / 4.22]
    assert capacities == pytest.approx([*half, 1, *half[::-1]])
    assert all(link.combined_bytes_per_s is None for link in walk)


def test_k80_of_the_paper_sums_both_directions_on_a_scale_of_qpi():
    topology = read_topology("k80-16-faraji")
    walk = [topology.link_of_id[x] for x in route(topology, 0, 8).links]
    combined = [c.value for link in walk if (c := link.combined_bytes_per_s) is not None]
    assert combined[:4] == pytest.approx([4.47 * GB, 4.47 / 2.47 * GB, 4.47 / 4.22 * GB, GB])


def nvlinks(topology):
    """Direct device pairs by bonded lanes."""
    number = {d.id: i for i, d in enumerate(topology.devices)}
    found = {}
    for link in topology.links:
        if link.kind.value in ("nvlink", "xgmi") and set(link.ends) <= set(number):
            a, b = sorted(number[end] for end in link.ends)
            found[a, b] = link.count
    return found


def test_dgx_1v_wiring():
    topology = read_topology("dgx-1v")
    two = "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7"
    one = "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7"
    wiring = nvlinks(topology)
    for lanes, text in ((2, two), (1, one)):
        expected = [(int(p[0]), int(p[2])) for p in text.split()]
        assert sorted(p for p, n in wiring.items() if n == lanes) == expected
    assert pair_bandwidth(topology, 0, 3) == pytest.approx(48.4 * GB)
    assert topology.link_of_id[route(topology, 0, 3).links[0]].forward_bytes_per_s.value == 50 * GB
    for gpu in range(8):
        near = [n.id for n in topology.nics if
                topology.route_of_pair[f"gpu{gpu}", n.id].path_class is PathClass.PIX]  # fmt: skip
        assert near == [f"nic{gpu // 2}"]


@pytest.mark.parametrize("name", ["dgx-1p", "dgx-1v"])
def test_dgx_1_between_sockets_as_measured(name):
    """Published copies without NVLink: 9.2 to 10.8 GB/s staged (P100), 9.4 to 9.8 direct (V100)."""
    assert 9.2 * GB < pair_bandwidth(read_topology(name), 0, 7) < 9.8 * GB


def test_dgx_1p_uses_four_links_of_each_gpu():
    wiring = nvlinks(read_topology("dgx-1p"))
    assert set(wiring.values()) == {1}
    assert Counter(gpu for pair in wiring for gpu in pair) == dict.fromkeys(range(8), 4)


def test_dgx_2_boards_reach_each_other_at_full_rate():
    topology = read_topology("dgx-2")
    trunk = topology.link_of_id[route(topology, 0, 8).links[1]]
    assert trunk.count == 48
    ports = [link for link in topology.links if link.ends[0] in ("gpu0", "gpu7")]
    nvlink = [link for link in ports if link.kind.value == "nvlink"]
    assert [link.forward_bytes_per_s.value for link in nvlink] == [150 * GB] * 2
    assert trunk.forward_bytes_per_s.value == 8 * 150 * GB
    assert len(route(topology, 0, 7).links) == 2
    assert len(route(topology, 0, 15).links) == 3


def test_nvswitch_ports():
    assert pair_bandwidth(read_topology("dgx-a100"), 0, 7) == pytest.approx(274.8 * GB)
    assert pair_bandwidth(read_topology("hgx-h100"), 0, 7) == pytest.approx(376.2 * GB)


def test_power9_crosses_the_x_bus_over_nvlink():
    topology = read_topology("power9-4")
    kinds = [topology.link_of_id[x].kind.value for x in route(topology, 0, 2).links]
    assert kinds == ["nvlink", "smp", "nvlink"]
    assert pair_bandwidth(topology, 0, 2) == 29 * GB
    assert pair_bandwidth(topology, 0, 1) == 68.5 * GB
    smp = next(link for link in topology.links if link.kind.value == "smp")
    assert smp.combined_bytes_per_s is not None
    assert smp.combined_bytes_per_s.value == 34 * GB


def test_mi250x_pairs():
    topology = read_topology("mi250x-8")
    wiring = nvlinks(topology)
    assert Counter(wiring.values()) == {4: 4, 2: 2, 1: 6}
    assert [p for p, n in wiring.items() if n == 4] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    for i, j in combinations(range(8), 2):
        hops = len(route(topology, i, j).links)
        assert hops == (1 if (i, j) in wiring else 2)
    for (i, j), lanes in wiring.items():
        assert pair_bandwidth(topology, i, j) == 36 * lanes * GB
    assert pair_bandwidth(topology, 0, 7) == 72 * GB  # by way of 6: two links, then four
    assert all(d.forwards for d in topology.devices)


def test_mi250x_has_the_pairs_of_a_recorded_gfx90a_node(shared_dir):
    from xml.etree import ElementTree

    path = shared_dir / "machines" / "nccl-xml" / "rccl-topo_8p_90a.xml"
    tree = ElementTree.parse(path)
    number = {p.get("busid"): int(g.get("rank", "-1")) for p in tree.iter("pci")
              if (g := p.find("gpu")) is not None}  # fmt: skip
    recorded = {
        tuple(sorted((int(gpu.get("rank", "-1")), number[link.get("target")])))
        for gpu in tree.iter("gpu")
        for link in gpu.iter("xgmi")
    }
    assert recorded == set(nvlinks(read_topology("mi250x-8")))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("dgx-1v", "8gpu-dgx1v-4nic.txt"),
        ("rtx-4-crossed-bridges", "4gpu-3090-nvlink-pairs-cross.txt"),
        ("power9-4", "4gpu-power9-nv3.txt"),
        ("hgx-h100", "8gpu-h100-nv18-nonic.txt"),
    ],
)
def test_agrees_with_the_recorded_machine(shared_dir, name, file):
    ours = read_topology(name)
    recorded = read_topology(shared_dir / "machines" / "nvidia-smi-topo" / file)
    assert len(ours.devices) == len(recorded.devices)
    assert nvlinks(ours) == nvlinks(recorded)
    for i, j in combinations(range(len(ours.devices)), 2):
        assert route(ours, i, j).path_class is route(recorded, i, j).path_class
    if name == "dgx-1v":
        assert [d.cpus for d in ours.devices] == [d.cpus for d in recorded.devices]
        assert [n.name for n in ours.nics] == [n.name for n in recorded.nics]
        for device in ours.devices:
            for nic in ours.nics:
                pair = (device.id, nic.id)
                assert (
                    ours.route_of_pair[pair].path_class is recorded.route_of_pair[pair].path_class
                )


def test_power9_measurements_are_the_recorded_ones(shared_dir):
    """p2pBandwidthLatencyTest of an AC922: pair, across, and across in both directions."""
    folder = shared_dir / "machines" / "p2pBandwidthLatencyTest"
    rows = [
        [float(x) for x in line.replace("#", "").split()[1:]]
        for line in (folder / "4gpu-power9-ac922.txt").read_text().splitlines()
        if line.replace("#", "").split()[:1] in (["0"], ["1"], ["2"], ["3"]) and "." in line
    ]
    one_way, both_ways = rows[:4], rows[4:8]
    across = [one_way[i][j] for i in (0, 1) for j in (2, 3)]
    topology = read_topology("power9-4")
    assert pair_bandwidth(topology, 0, 2) / GB == pytest.approx(sum(across) / 4, rel=0.02)
    assert pair_bandwidth(topology, 0, 1) / GB == pytest.approx(one_way[0][1], rel=0.02)
    both = [both_ways[i][j] for i in (0, 1) for j in (2, 3)]
    smp = next(link for link in topology.links if link.kind.value == "smp")
    assert smp.combined_bytes_per_s is not None
    assert smp.combined_bytes_per_s.value / GB == pytest.approx(sum(both) / 4, rel=0.02)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match="'dgx1v' is no file, no catalogue name") as caught:
        read_topology("dgx1v")
    assert caught.value.hint.startswith("did you mean dgx-1v")
