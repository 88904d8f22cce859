"""Saved sysfs and KFD trees: the recorded ones, and trees written as Linux shows them."""

import os
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.topology.live.fake_machine import AMD, GPU_CLASS, NVIDIA, FakeSysfs
from tests.topology.readers import amd_samples as samples
from toposeat.errors import InputError
from toposeat.model.topology import ComponentKind, LinkKind, PathClass, Vendor
from toposeat.topology.readers import sysfs_snapshot
from toposeat.topology.sources import parse_topology_text, read_topology


def recorded(shared_dir, name):
    return shared_dir / "machines" / "hwloc-fsroot" / name


def test_power9_with_gpu_memory_as_numa_nodes(shared_dir):
    topology = read_topology(recorded(shared_dir, "nvidiagpunumanodes.tar.bz2"))
    assert topology.name == "c685f8n02"  # as hwloc noted it
    assert topology.origin == "saved sysfs"
    assert {d.vendor for d in topology.devices} == {Vendor.NVIDIA}  # its driver's /proc says so
    # Nodes 250 to 255 are the memories of the GPUs: no CPU is near them.
    assert [d.numa_node for d in topology.devices] == [0, 0, 0, 8, 8, 8]
    assert [d.cpus for d in topology.devices] == ["0-15"] * 3 + ["88-103"] * 3
    assert {c.cpus for c in topology.components if c.kind.value == "numa"} == {"0-87", "88-175"}
    assert topology.route_of_pair["gpu0", "gpu5"].path_class is PathClass.SYS
    assert any("PCI tree is not shown" in line for line in topology.report)
    assert any("a saved tree has none" in line for line in topology.report)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("40intel64-4n10c+pci-conflicts.tar.bz2", "no GPU that its files show"),
        ("nvidia-dgx-gb10.tar.bz2", "the tree has no PCI devices"),
    ],
)
def test_trees_without_gpus_are_refused(shared_dir, name, reason):
    path = recorded(shared_dir, name)
    assert sysfs_snapshot.looks_like(path)
    with pytest.raises(InputError, match=reason) as caught:
        read_topology(path)
    assert caught.value.hint


def write_nodes(machine, nodes):
    for name, text in machine.files().items():
        target = nodes / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.mark.parametrize("below", ["nodes", "topology/nodes", "sys/class/kfd/kfd/topology/nodes"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_kfd_tree_alone(tmp_path, below, packed):
    folder = tmp_path / "frontier"
    write_nodes(samples.kfd_mi250x(), folder / below)
    path = folder
    if packed:
        path = tmp_path / "frontier.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            tar.add(folder, arcname=".")
    topology = read_topology(path)
    assert topology.name == "frontier"
    assert len(topology.devices) == 8
    counts = sorted(x.count for x in topology.links if x.name == "xGMI (MI200)")
    assert counts == sorted(samples.MI250X.values())


def test_a_whole_tree_takes_the_way_of_live_discovery(tmp_path):
    """KFD, PCI and NUMA of one machine joined by PCI bus id."""
    sysfs = FakeSysfs(tmp_path / "node7" / "sys")
    machine = samples.KfdMachine(cpus=2)
    for i in range(4):
        bus = f"0000:{0x10 * (i + 1):02x}:00.0"
        root = f"devices/pci0000:{0x10 * i:02x}".removeprefix("devices/")
        sysfs.pci(
            f"{root}/0000:{0x10 * i:02x}:01.0/{bus}",
            vendor=AMD,
            pci_class=GPU_CLASS,
            node=i // 2,
            cpus=f"{i // 2 * 32}-{i // 2 * 32 + 31}",
            speed="16.0 GT/s PCIe",
        )
        machine.gpu(0x10 * (i + 1) << 8, gfx=90008, device=0x738C, cpu=i // 2)
    for a in range(4):
        for b in range(a + 1, 4):
            machine.xgmi(2 + a, 2 + b, most=46000)
    write_nodes(machine, tmp_path / "node7/sys/class/kfd/kfd/topology/nodes")
    for node in (0, 1):
        sysfs.numa(node, f"{node * 32}-{node * 32 + 31}", node)
    topology = read_topology(tmp_path / "node7")
    assert topology.origin == "saved sysfs"
    assert [d.cpus for d in topology.devices] == ["0-31", "0-31", "32-63", "32-63"]
    xgmi = [x for x in topology.links if x.kind is LinkKind.XGMI]
    assert len(xgmi) == 6
    assert {x.forward_bytes_per_s.value for x in xgmi} == {46e9}
    assert sum(x.kind is LinkKind.PCIE and "gpu" in x.ends[0] for x in topology.links) == 4


def test_an_archive_of_something_else_is_refused(tmp_path):
    path = tmp_path / "papers.tar"
    with tarfile.open(path, "w") as tar:
        (tmp_path / "note.txt").write_text("hello")
        tar.add(tmp_path / "note.txt", arcname="note.txt")
    with pytest.raises(InputError, match="no tree of sysfs or KFD in it"):
        read_topology(path)


def test_a_folder_of_something_else_is_none(tmp_path):
    (tmp_path / "a").mkdir()
    assert not sysfs_snapshot.looks_like(tmp_path)


def test_partitions_of_a_whole_tree_share_bonds_and_pcie(tmp_path):
    """Live discovery's way too: two MI300X in four partitions each."""
    sysfs = FakeSysfs(tmp_path / "sys")
    machine = samples.KfdMachine(cpus=1)
    nodes = []
    for board in (1, 2):
        sysfs.pci(
            f"pci0000:{board}0/0000:{board}0:01.0/0000:0{board}:00.0",
            vendor=AMD,
            pci_class=GPU_CLASS,
            node=0,
            cpus="0-7",
            speed="32.0 GT/s PCIe",
        )
        nodes += [
            machine.gpu(board << 8 | part, gfx=90402, device=0x74A1, cpu=0) for part in range(4)
        ]
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes[i + 1 :], i + 1):
            machine.xgmi(a, b, weight=13 if i // 4 == j // 4 else 41, most=0)
    write_nodes(machine, tmp_path / "sys/class/kfd/kfd/topology/nodes")
    sysfs.numa(0, "0-7", 0)
    topology = read_topology(tmp_path)
    assert [d.parent for d in topology.devices] == ["0000:01:00.0"] * 4 + ["0000:02:00.0"] * 4
    between = [
        set(r.links) for r in topology.routes if (int(r.source[3:]) < 4) != (int(r.target[3:]) < 4)
    ]
    assert len(between) == 32
    (shared,) = set.intersection(*between)
    assert topology.link_of_id[shared].forward_bytes_per_s.value == 64e9


def test_pipes_and_circles_in_a_saved_tree_are_not_waited_for(tmp_path):
    """Both were found by fuzzing: whoever sends a tree decides what its names stand for."""
    sysfs = FakeSysfs(tmp_path / "sys")
    sysfs.pci("pci0000:00/0000:01:00.0", vendor=NVIDIA, pci_class=GPU_CLASS, node=0, cpus="0-7")
    sysfs.pci("pci0000:00/0000:02:00.0", vendor=NVIDIA, pci_class=GPU_CLASS, node=0, cpus="0-7")
    for name in ("numa_node", "vendor"):
        pipe = tmp_path / "sys/devices/pci0000:00/0000:02:00.0" / name
        pipe.unlink()
        os.mkfifo(pipe)
    os.mkfifo(tmp_path / "sys/devices/hwloc-nofile-info")
    (tmp_path / "sys/bus/pci/devices/0000:03:00.0").symlink_to("0000:04:00.0")
    (tmp_path / "sys/bus/pci/devices/0000:04:00.0").symlink_to("0000:03:00.0")
    topology = read_topology(tmp_path)
    assert [d.pci_bus_id for d in topology.devices] == ["0000:01:00.0"]  # the other has no vendor


def test_a_pipe_among_the_nodes_of_kfd_is_not_waited_for(tmp_path):
    write_nodes(samples.kfd_mi250x(), tmp_path / "nodes")
    (tmp_path / "nodes/11/properties").unlink()
    os.mkfifo(tmp_path / "nodes/11/properties")
    assert len(read_topology(tmp_path).devices) == 7


def read(text):
    return parse_topology_text(text, Path("node.txt"))


def kfd_recorded(shared_dir, name):
    return read_topology(shared_dir / "machines" / "kfd-topology" / name)


def doubts(topology):
    return "\n".join(topology.report)


def test_recorded_cpx_shows_63_of_64_partitions(shared_dir):
    topology = kfd_recorded(shared_dir, "topo-mi300-cpx.txt")
    assert len(topology.devices) == 63
    parents = Counter(d.parent for d in topology.devices)
    assert sorted(parents.values()) == [7, 8, 8, 8, 8, 8, 8, 8]
    assert "0000:e5:00.0 shows 7 partitions where others show 8" in doubts(topology)
    assert {d.name for d in topology.devices} == {"AMD Instinct MI300X"}
    assert [d.pci_bus_id for d in topology.devices[:2]] == ["0000:05:00.0", "0000:05:00.1"]
    assert Counter(d.numa_node for d in topology.devices) == {0: 32, 1: 31}


def test_partitions_share_the_links_of_their_package(shared_dir):
    topology = kfd_recorded(shared_dir, "topo-mi300-cpx.txt")
    kinds = Counter((x.kind, x.name, x.forward_bytes_per_s.value) for x in topology.links)
    assert kinds[LinkKind.XGMI, "in the package", 819.2e9] == 63  # stated: weight 13
    assert kinds[LinkKind.XGMI, "xGMI (MI300)", 64e9] == 28  # one for each two packages: weight 41
    assert "does not state the bandwidth of 28 xGMI links: 64 GB/s assumed" in doubts(topology)
    one = topology.route_of_pair["gpu0", "gpu8"]
    other = topology.route_of_pair["gpu1", "gpu9"]
    assert len(set(one.links) & set(other.links)) == 1  # the link between the two packages
    inside = topology.route_of_pair["gpu0", "gpu1"]
    assert len(inside.links) == 2
    assert {r.path_class for r in topology.routes} == {PathClass.NVL}


def test_recorded_tree_that_contradicts_itself(shared_dir):
    topology = kfd_recorded(shared_dir, "topology-parsing.txt")
    assert [d.pci_bus_id for d in topology.devices] == [None, None]
    assert "several GPUs claim the PCI bus id 0000:19:00.0" in doubts(topology)
    assert "a link listed under node 2 says it starts at node 1" in doubts(topology)
    assert {d.memory_bytes for d in topology.devices} == {17163091968}
    assert not any(x.kind is LinkKind.XGMI for x in topology.links)


@pytest.mark.parametrize("form", ["text", "grep"])
def test_mi250x_has_links_of_four_two_and_one(form):
    topology = read(getattr(samples.kfd_mi250x(), form)())
    bonds = {
        tuple(sorted(int(end[3:]) for end in x.ends)): (x.count, x.forward_bytes_per_s.value)
        for x in topology.links
        if x.kind is LinkKind.XGMI and all(end.startswith("gpu") for end in x.ends)
    }
    assert bonds == {pair: (n, n * 50e9) for pair, n in samples.MI250X.items()}
    assert all(d.forwards for d in topology.devices)
    assert tuple(d.pci_bus_id for d in topology.devices) == samples.MI250X_BUS
    assert [d.numa_node for d in topology.devices] == [3, 3, 1, 1, 0, 0, 2, 2]
    to_cpu = [x for x in topology.links if x.name == "xGMI to CPU"]
    assert len(to_cpu) == 8
    assert {x.forward_bytes_per_s.value for x in to_cpu} == {36e9}
    assert "16 more xGMI pairs without a link of their own" in doubts(topology)
    relayed = topology.route_of_pair["gpu0", "gpu7"]
    assert relayed.path_class is PathClass.NVL
    assert len(relayed.links) == 2


def test_mi300x_whole():
    topology = read(samples.kfd_mi300x(1).text())
    xgmi = [x for x in topology.links if x.kind is LinkKind.XGMI]
    assert len(xgmi) == 28
    assert {x.forward_bytes_per_s.value for x in xgmi} == {64e9}
    pcie = [x for x in topology.links if x.kind is LinkKind.PCIE and "gpu" in x.ends[0]]
    assert {x.forward_bytes_per_s.value for x in pcie} == {0.78 * 64e9}  # of what is stated
    assert {d.parent for d in topology.devices} == {""}


@pytest.mark.parametrize("parts", [2, 4])
def test_mi300x_in_parts(parts):
    topology = read(samples.kfd_mi300x(parts).text())
    assert len(topology.devices) == 8 * parts
    fabrics = [c for c in topology.components if c.kind is ComponentKind.NVSWITCH]
    assert len(fabrics) == 8
    bridges = [c for c in topology.components if c.kind is ComponentKind.HOST_BRIDGE]
    assert len(bridges) == 8  # one PCIe link for all partitions of a GPU


def test_mi300a_tpx_has_no_pcie():
    topology = read(samples.kfd_mi300a(3).text())
    assert len(topology.devices) == 12
    assert not any(x.kind is LinkKind.PCIE for x in topology.links)
    between = [x for x in topology.links if x.name == "xGMI (MI300)"]
    assert len(between) == 6
    assert {x.count for x in between} == {2}  # 128 GB/s are two links
    assert "4 xGMI links to CPUs" in doubts(topology)


@pytest.mark.parametrize("gfx", [120500, 100300, 0])
def test_links_of_an_unknown_instruction_set_are_of_no_known_product(gfx):
    """The stated bandwidth counts; one copy reaches the same share of it as of others."""
    machine = samples.KfdMachine(cpus=1)
    gpus = [machine.gpu(n << 8, gfx=gfx, device=0x9999, cpu=0) for n in (1, 2, 3)]
    for a, b, most in ((0, 1, 153600), (1, 0, 153600), (0, 2, 0), (2, 0, 0)):
        machine.link(gpus[a], gpus[b], kind=11, weight=15, most=most)
    topology = read(machine.text())
    links = [x for x in topology.links if x.kind is LinkKind.XGMI and "gpu0" in x.ends]
    assert {x.name for x in links} == {"xGMI of unknown generation"}
    flows = [x.flow_bytes_per_s.value for x in links if x.flow_bytes_per_s]
    assert [x.forward_bytes_per_s.value for x in links] == [153.6e9, 50e9]
    assert flows == [pytest.approx(0.72 * 153.6e9), 36e9]
    assert [x.count for x in links] == [1, 1]
    assert not any(device.forwards for device in topology.devices)


def test_hidden_gpus_are_counted():
    text = samples.kfd_mi300x(1).text()
    start = text.index("==> nodes/9/properties")
    end = text.index("==> nodes/9/io_links/0/")
    topology = read(text[:start] + text[end:])
    assert len(topology.devices) == 7
    assert "1 nodes are named but not shown (9)" in doubts(topology)


def test_directions_are_kept():
    machine = samples.KfdMachine(cpus=1)
    a, b = (machine.gpu(n << 8, gfx=90008, device=0x738C, cpu=0) for n in (1, 2))
    machine.link(a, b, kind=11, weight=15, most=46000)
    machine.link(b, a, kind=11, weight=15, most=23000)
    topology = read(machine.text())
    (link,) = (x for x in topology.links if x.kind is LinkKind.XGMI)
    assert (link.forward_bytes_per_s.value, link.backward_bytes_per_s.value) == (46e9, 23e9)


def test_a_property_stated_twice_is_refused():
    text = samples.kfd_mi250x().text()
    damaged = text.replace("weight 30\n", "weight 30\nweight 15\n", 1)
    with pytest.raises(InputError, match="weight is stated twice, as 30 and 15") as caught:
        read(damaged)
    assert caught.value.line is not None


def test_nodes_without_gpus_are_refused():
    with pytest.raises(InputError, match="2 KFD nodes, none of them a GPU"):
        read(samples.KfdMachine(cpus=2).text())
