"""Saved sysfs and KFD trees, written as Linux shows them; the recorded ones: test_recorded.py."""

import os
import tarfile

import pytest

from tests.topology.live.fake_machine import (
    GPU_CLASS,
    NVIDIA,
    FakeSysfs,
    four_mi100,
    kfd_text,
    two_mi300x_in_four_parts,
)
from toposeat.errors import InputError
from toposeat.model.topology import LinkKind
from toposeat.topology import read_topology


def write_nodes(nodes):
    """KFD's nodes of MI250X in this folder."""
    sysfs = FakeSysfs(nodes.parent / "all")
    sysfs.kfd(kfd_text("MI250X"))
    nodes.parent.mkdir(parents=True, exist_ok=True)
    (sysfs.root / "class/kfd/kfd/topology/nodes").rename(nodes)


@pytest.mark.parametrize("below", ["nodes", "topology/nodes", "sys/class/kfd/kfd/topology/nodes"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_kfd_tree_alone(tmp_path, below, packed):
    folder = tmp_path / "frontier"
    write_nodes(folder / below)
    path = folder
    if packed:
        path = tmp_path / "frontier.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            tar.add(folder, arcname=".")
    topology = read_topology(path)
    assert topology.name == "frontier"
    assert len(topology.devices) == 8
    counts = sorted(x.count for x in topology.links if x.name == "xGMI (MI200)")
    assert counts == [1] * 6 + [2] * 2 + [4] * 4


def test_a_whole_tree_takes_the_way_of_live_discovery(tmp_path):
    """KFD, PCI and NUMA of one machine joined by PCI bus id; lists of CPUs may be masks."""
    four_mi100(FakeSysfs(tmp_path / "node7" / "sys"))
    for bus, mask in {10: "0," * 2047 + "ff", 20: "0," * 2048 + "ff", 30: "none"}.items():
        pci = tmp_path / f"node7/sys/bus/pci/devices/0000:{bus}:00.0"
        (pci / "local_cpulist").rename(pci / "local_cpus")
        (pci / "local_cpus").write_text(mask)
    topology = read_topology(tmp_path / "node7")
    assert topology.origin == "saved sysfs"
    assert [d.cpus for d in topology.devices] == ["0-7", None, None, "32-63"]
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
    with pytest.raises(InputError, match="a folder"):
        read_topology(tmp_path)


def test_partitions_of_a_whole_tree_share_bonds_and_pcie(tmp_path):
    """Live discovery's way too."""
    two_mi300x_in_four_parts(FakeSysfs(tmp_path / "sys"))
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
    write_nodes(tmp_path / "nodes")
    (tmp_path / "nodes/11/properties").unlink()
    os.mkfifo(tmp_path / "nodes/11/properties")
    assert len(read_topology(tmp_path).devices) == 7
