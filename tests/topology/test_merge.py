"""Files of really recorded machines put together: who is believed, what is reported."""

import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.topology.readers.recorded import merged, table
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError
from toposeat.mapping import map_traffic
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.quantity import Source
from toposeat.model.topology import (
    Bond,
    Device,
    FactKind,
    HostNumbers,
    LaneState,
    LinkKind,
    PairNumbers,
    PathClass,
    Vendor,
)
from toposeat.profile import pattern_traffic
from toposeat.topology import findings_of, read_topologies, read_topology

GB = 1e9


def recorded(shared, *names):
    return read_topologies([shared / "machines" / name for name in names])


def route(topology, i, j):
    devices = topology.devices
    return topology.route_of_pair[devices[i].id, devices[j].id]


def capacities(topology, of):
    """What each link carries in the direction of the route."""
    here, found = of.source, []
    for id in of.links:
        link = topology.link_of_id[id]
        forward = here == link.ends[0]
        found.append((link.forward_bytes_per_s if forward else link.backward_bytes_per_s).value)
        here = link.ends[1] if forward else link.ends[0]
    return found


def p2p_matrix(path, heading):
    """One matrix of p2pBandwidthLatencyTest in GB/s, read without any of our readers."""
    lines = [line.lstrip("# ") for line in path.read_text().splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = [line.split() for line in lines[start + 2 :]]
    size = len(lines[start + 1].split()) - 1
    return [[float(cell) for cell in row[1:]] for row in rows[:size]]


POWER9 = "p2pBandwidthLatencyTest/4gpu-power9-ac922.txt"


@pytest.mark.parametrize(
    "graph", [(), ("nvidia-smi-topo/4gpu-power9-nv3.txt",), ("hwloc-xml/mpibind-coral-lassen.xml",)]
)
def test_every_measured_pair_is_predicted_as_measured(shared_dir, graph):
    topology = recorded(shared_dir, *graph, POWER9)
    path = shared_dir / "machines" / POWER9
    one_way = p2p_matrix(path, "Unidirectional P2P=Enabled Bandwidth")
    both = p2p_matrix(path, "Bidirectional P2P=Enabled Bandwidth")
    for i, j in permutations(range(4), 2):
        of = route(topology, i, j)
        assert of.cap_bytes_per_s is not None
        assert of.cap_bytes_per_s.source is Source.MEASURED
        # Which way the sample's rows and columns go is the reader's business, tested there.
        assert of.cap_bytes_per_s.value / GB in (
            pytest.approx(one_way[i][j]),
            pytest.approx(one_way[j][i]),
        )
        assert of.combined_bytes_per_s is not None
        assert of.combined_bytes_per_s.value / GB in (
            pytest.approx(both[i][j]),
            pytest.approx(both[j][i]),
        )
        assert min(capacities(topology, of)) >= of.cap_bytes_per_s.value


def test_three_sources_of_power9(shared_dir):
    topology = recorded(
        shared_dir,
        "hwloc-xml/mpibind-coral-lassen.xml",
        "nvidia-smi-topo/4gpu-power9-nv3.txt",
        POWER9,
    )
    assert topology.origin == (
        "merged: hwloc XML + nvidia-smi topo -m text + p2pBandwidthLatencyTest output"
    )
    assert [d.pci_bus_id for d in topology.devices] == [
        "0004:04:00.0",
        "0004:05:00.0",
        "0035:03:00.0",
        "0035:04:00.0",
    ]
    bonds = [link for link in topology.links if link.kind is LinkKind.NVLINK]
    assert [(set(link.ends), link.count) for link in bonds] == [
        ({"gpu0", "gpu1"}, 3),
        ({"gpu2", "gpu3"}, 3),
    ]
    report = " ".join(topology.report)
    assert "joined by index" in report
    assert "disagree on the near CPUs of 4 devices; hwloc XML is believed" in report
    # The pairs that NVLink does not join share the link between the sockets, as measured.
    (cross,) = [link for link in topology.links if link.kind is LinkKind.SMP]
    assert cross.id in route(topology, 0, 2).links
    assert cross.forward_bytes_per_s.source is Source.MEASURED


def test_bonds_of_a_matrix_complete_a_partial_nccl_file(shared_dir):
    names = ("nccl-xml/azure-ndv2-topo.xml", "nvidia-smi-topo/8gpu-dgx1v-4nic.txt")
    topology = recorded(shared_dir, *names)
    text = (shared_dir / "machines" / names[1]).read_text()
    rows = {int(m[1]): m[2].split() for m in re.finditer(r"^GPU(\d)\s+((?:\S+\s+){8})", text, re.M)}
    for i, j in permutations(range(8), 2):
        word = rows[i][j]
        links = [topology.link_of_id[id] for id in route(topology, i, j).links]
        if word.startswith("NV"):
            assert [link.count for link in links] == [int(word[2:])]
        else:
            assert LinkKind.SMP in {link.kind for link in links}
    assert all(d.pci_bus_id for d in topology.devices)


def test_pairs_without_peer_access_are_staged(shared_dir):
    topology = recorded(
        shared_dir, "nvidia-smi-topo/2gpu-puget-wrx90.txt", "nvidia-smi-p2p/2gpu-5090-gns.txt"
    )
    there, back = route(topology, 0, 1), route(topology, 1, 0)
    for each in (there, back):
        assert each.staged
        assert each.peer_access is False
        passed = {end for id in each.links for end in topology.link_of_id[id].ends}
        assert "numa0" in passed
        assert each.cap_bytes_per_s is not None
        assert each.cap_bytes_per_s.source is Source.ASSUMED
        assert set(each.cap_bytes_per_s.premises) <= {p.what for p in topology.premises}
        assert "copies through host memory in a socket" in each.cap_bytes_per_s.premises
    assert there.links == back.links[::-1]


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-smi-nvlink/8gpu-v100-inactive.txt",
        "nvidia-smi-p2p/8gpu-h100-ok.txt",
        "nvidia-smi-q-xml/qx-b200.xml",
        "nvidia-smi-query-csv/4gpu-a4000.csv",
        "nvidia-smi-L/1gpu-a100-7mig.txt",
    ],
)
def test_what_makes_no_machine_is_refused(shared_dir, name):
    with pytest.raises(InputError, match="too little to be a machine") as caught:
        recorded(shared_dir, name)
    assert "nvidia-smi topo -m > topo.txt" in caught.value.hint
    assert "toposeat discover -t topo.txt -t " in caught.value.hint


def test_files_of_different_machines_are_refused(shared_dir):
    with pytest.raises(InputError, match="no PCI bus id or UUID in common"):
        recorded(shared_dir, "nccl-xml/azure-ndv4-topo.xml", "hwloc-xml/mpibind-coral-lassen.xml")
    with pytest.raises(InputError, match="which is which is not known"):
        recorded(
            shared_dir, "nvidia-smi-topo/4gpu-power9-nv3.txt", "nvidia-smi-p2p/8gpu-h100-ok.txt"
        )


# ---- made-up facts on catalogue machines


def facts(base, **more):
    """Facts on all devices of a machine, with their PCI bus ids or, without, their indices."""
    devices = [Device(id=d.id, index=d.index, pci_bus_id=d.pci_bus_id) for d in base.devices]
    return table(devices, **more)


def rates(count, value, **entries):
    values = np.full((count, count), value)
    for pair, number in entries.items():
        values[int(pair[1]), int(pair[2])] = number
    return values


def test_unmeasured_pairs_keep_their_nominal_number():
    base = read_topology("dgx-1v")
    numbers = PairNumbers(what=BANDWIDTH, values=rates(8, np.nan, p01=23 * GB, p10=22 * GB))
    whole = merged(base, facts(base, numbers=(numbers,)))
    cap = route(whole, 0, 1).cap_bytes_per_s
    assert cap is not None
    assert (cap.value, cap.source) == (23 * GB, Source.MEASURED)
    cap = route(whole, 1, 0).cap_bytes_per_s
    assert cap is not None
    assert cap.value == 22 * GB  # never symmetrised
    for i, j in permutations(range(8), 2):
        if {i, j} != {0, 1}:
            assert route(whole, i, j) == route(base, i, j)
    assert "the bandwidth of 54 of 56 pairs was not measured" in " ".join(whole.report)


def test_peer_access_decides_which_measurement_fits():
    base = read_topology("dgx-1v")
    on = PairNumbers(what=LATENCY, values=rates(8, 2e-6), peer=True)
    off = PairNumbers(what=LATENCY, values=rates(8, 18e-6), peer=False)
    access = {(0, 1): False, (1, 0): True}
    whole = merged(base, facts(base, numbers=(off, on), peer_access=access))
    latencies = [route(whole, *pair).latency_s for pair in ((0, 1), (1, 0), (0, 2))]
    assert [x.value for x in latencies if x is not None] == [18e-6, 2e-6, 2e-6]
    assert route(whole, 0, 1).staged
    assert not route(whole, 1, 0).staged


def test_measured_rates_raise_too_small_capacities():
    base = read_topology("k80-16")
    first = route(base, 0, 15)
    much = 1.5 * min(capacities(base, first))
    numbers = PairNumbers(what=BANDWIDTH, values=rates(16, np.nan, p09=much))
    whole = merged(base, facts(base, numbers=(numbers,)))
    of = route(whole, 0, 9)
    assert min(capacities(whole, of)) >= much
    assert any("carry more than their nominal capacity" in line for line in whole.report)


def test_host_numbers_are_those_of_the_link_above():
    base = merged(read_topology("k80-16"))
    host = HostNumbers(what=BANDWIDTH, device="gpu3", to_device=9e9, from_device=8e9)
    whole = merged(base, facts(base, host_copies=(host,)))
    (above,) = [link for link in whole.links if "gpu3" in link.ends]
    down, up = above.backward_bytes_per_s, above.forward_bytes_per_s
    if above.ends[1] == "gpu3":
        down, up = up, down
    assert (down.value, up.value) == (9e9, 8e9)
    assert down.source is up.source is Source.MEASURED


def of_lanes(topology):
    return [f for f in findings_of(topology) if f.code == "lanes-inactive"]


def test_lanes_give_rates_and_inactive_links():
    base = read_topology("dgx-1v")
    lanes = tuple(
        LaneState(device=f"gpu{d}", lane=n, bytes_per_s=None if (d, n) == (2, 5) else 25.781e9)
        for d in range(8)
        for n in range(6)
    )
    whole = merged(base, facts(base, lanes=lanes))
    assert [d.inactive_lanes for d in whole.devices] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert any("gpu2 has 5 active device links, but 6 are drawn" in r for r in whole.report)
    assert [f.detail for f in of_lanes(whole)] == [
        "1 of 6 device-link lanes are inactive (others of its kind: 0)"
    ]
    bond = whole.link_of_id[route(whole, 0, 3).links[0]]
    assert bond.forward_bytes_per_s.value == pytest.approx(25.781e9 * bond.count)


def test_links_of_a_driver_replace_those_of_a_matrix(tmp_path):
    cells = [["X", "NV2", "SYS"], ["NV2", "X", "SYS"], ["SYS", "SYS", "X"]]
    path = tmp_path / "matrix.txt"
    path.write_text(RENDERERS["tabs_new"](cells, 3, ["0", "0", "1"]))
    text = read_topology(path)
    bond = Bond(kind=LinkKind.NVLINK, count=4, bytes_per_s=1e11)
    whole = merged(text, facts(text, pairs={("bond", (1, 2)): bond, ("bond", (2, 1)): bond}))
    bonds = [link for link in whole.links if link.kind is LinkKind.NVLINK]
    assert [(set(b.ends), b.count) for b in bonds] == [({"gpu1", "gpu2"}, 4)]
    assert any(
        "disagree on the device links of 2 ends; test is believed" in r for r in whole.report
    )


def test_nccl_is_believed_before_hwloc_and_said_so():
    base = replace(read_topology("dgx-1v"), origin="hwloc XML")
    devices = [
        replace(d, pci_bus_id=f"0000:{d.index:02x}:00.0", numa_node=0, uuid=None)
        for d in base.devices
    ]
    hwloc = replace(base, devices=tuple(devices))
    nccl = replace(
        hwloc,
        origin="NCCL topology XML",
        devices=tuple(replace(d, numa_node=d.index // 4) for d in devices),
    )
    for parts in ([hwloc, nccl], [nccl, hwloc]):
        whole = merged(*parts)
        assert [d.numa_node for d in whole.devices] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert any(
            "NCCL topology XML and hwloc XML disagree on the NUMA node of 4 devices; NCCL topology"
            " XML is believed (gpu4: 1, not 0" in line
            for line in whole.report
        )


def test_of_two_tables_that_disagree_the_first_is_believed():
    base = read_topology("dgx-1v")
    yes, no = (facts(base, origin=str(x), peer_access={(0, 1): x}) for x in (True, False))
    for one, other in ((yes, no), (no, yes)):
        whole = merged(base, one, other)
        pair = whole.pair_of_ends["gpu0", "gpu1"]
        assert pair.peer_access is (one is yes)
        assert pair.told_by["peer_access"] == one.origin
        said = f"{one.origin} and {other.origin} disagree on peer access of 1 pairs"
        assert f"{said}; {one.origin} is believed" in whole.report
        again = merged(whole, no).pair_of_ends["gpu0", "gpu1"]
        assert again.told_by["peer_access"] == one.origin


def test_a_device_that_only_one_source_knows_is_refused():
    base = read_topology("dgx-1v")
    devices = tuple(replace(d, pci_bus_id=f"0000:{d.index:02x}:00.0") for d in base.devices)
    base = replace(base, devices=devices)
    more = table(
        [
            Device(id="GPU0", index=0, pci_bus_id="0000:00:00.0", name="V100"),
            Device(id="GPU8", index=8, pci_bus_id="0000:0f:00.0", numa_node=1),
        ],
        origin="nvidia-smi -q -x",
    )
    with pytest.raises(InputError, match=r"lists 1 GPUs more than catalogue \(GPU8\)"):
        merged(base, more)


def test_vendors_that_differ_are_two_machines():
    base = read_topology("dgx-1v")
    amd = tuple(Device(id=d.id, index=d.index, vendor=Vendor.AMD) for d in base.devices)
    with pytest.raises(InputError, match="is a GPU of amd in test, of nvidia"):
        merged(base, table(amd))


def test_a_placement_says_which_numbers_it_rests_on(shared_dir):
    traffic = pattern_traffic("ring:4")
    alone = map_traffic(recorded(shared_dir, POWER9), traffic)
    assert any("share are not known" in note for note in alone.notes)
    whole = recorded(shared_dir, "nvidia-smi-topo/4gpu-power9-nv3.txt", POWER9)
    said = " ".join(map_traffic(whole, traffic).notes)
    assert "not known" not in said
    assert "nominal" not in said
    base = read_topology("dgx-1v")
    numbers = PairNumbers(what=BANDWIDTH, values=rates(8, np.nan, p01=23 * GB))
    partly = merged(base, facts(base, numbers=(numbers,)))
    notes = map_traffic(partly, pattern_traffic("ring:8")).notes
    assert any("the bandwidths of 55 of 56 pairs are nominal" in note for note in notes)


def test_what_a_source_lists_completely_is_told(shared_dir):
    machines = shared_dir / "machines"
    text = read_topology(machines / "nvidia-smi-topo/4gpu-power9-nv3.txt")
    assert FactKind.DEVICE_LINKS in text.tells
    cloud = read_topology(machines / "nccl-xml/azure-ndv4-topo.xml")
    assert FactKind.DEVICE_LINKS not in cloud.tells
    dump = read_topology(machines / "nccl-xml/rccl-topo_8p_90a.xml")
    assert FactKind.DEVICE_LINKS in dump.tells
    pair = text.pair_of_ends["gpu0", "gpu1"]
    assert (pair.path_class, pair.lanes) == (PathClass.NVL, 3)


def test_routes_follow_the_links_that_only_a_matrix_tells(shared_dir):
    names = ("hwloc-xml/mpibind-coral-lassen.xml", "nvidia-smi-topo/4gpu-power9-nv3.txt")
    told = recorded(shared_dir, *names)
    pairs = {}
    for pair in permutations(range(4), 2):
        pairs |= {("path_class", pair): PathClass.NVL, ("lanes", pair): 18}
    devices = [replace(d, id=f"GPU{i}") for i, d in enumerate(told.devices)]
    switched = table(devices, origin="a matrix", pairs=pairs)
    machine = merged(recorded(shared_dir, names[0]), switched)
    assert {r.path_class for r in machine.routes if r.target[:3] == "gpu"} == {PathClass.NVL}
    assert machine.link_of_id[route(machine, 0, 1).links[0]].count == 18


def test_a_part_of_the_machine_tells_nothing_of_the_rest():
    """A container sees four of eight GPUs: what it lists completely is complete for those."""
    base = replace(read_topology("dgx-a100"), tells=())
    seen = tuple(Device(id=d.id, pci_bus_id=d.pci_bus_id) for d in base.devices)
    for count, tells in ((4, False), (8, True)):
        part = table(seen[:count], origin="a table", tells=(FactKind.DEVICE_LINKS,))
        whole = merged(base, part)
        assert (FactKind.DEVICE_LINKS in whole.tells) is tells


def test_bus_ids_of_a_benchmark_tell_which_gpu_of_a_matrix_is_which(shared_dir, tmp_path):
    """CUDA lists the fastest first, nvidia-smi by bus id, whether or not an inventory says so."""
    case = shared_dir / "cases/topology/23-cuda-order-is-not-bus-order"
    sources = [str(case / name) for name in ("topo.txt", "query.csv", "p2p.txt")]
    (tmp_path / "topo.txt").write_text("".join(Path(each).read_text() for each in sources))
    told = [read_topologies(each) for each in (sources[::2], sources, [str(tmp_path / "topo.txt")])]
    for machine in told:
        products = [device.name.split()[-1] for device in machine.devices]
        assert products == ["Ti"] * 4 + ["5090", "Ti"]
        assert machine.devices[4].pci_bus_id == "0000:e1:00.0"
        assert route(machine, 4, 5).path_class is PathClass.PHB
        cap = route(machine, 4, 5).cap_bytes_per_s
        assert cap is not None
        assert cap.value == 21e9
        assert [route(machine, 0, i).peer_access for i in range(1, 6)] == [True] * 3 + [False] * 2
    assert told[0].links == told[1].links == told[2].links
    assert told[0].routes == told[1].routes == told[2].routes
    assert any("by order of bus ids" in line for line in told[0].report)
