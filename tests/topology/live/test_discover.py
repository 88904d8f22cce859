"""Live discovery beside other sources: the catalogue, recorded trees, NCCL's words, this machine.

What it finds of machines written to a folder: `cases/live.txt`.
"""

from collections import Counter

import pytest

from tests.topology.case_files import texts_of
from tests.topology.live.fake_machine import FakeSysfs
from tests.topology.live.machine_text import MachineOfText, discovered
from toposeat.errors import UnavailableError
from toposeat.topology import discover_this, nccl_xml, read_topology

DGX1 = texts_of("live", "DGX-1V")["machine"]


def wiring(topology):
    """Lanes and rates of the pairs that device links join."""
    devices = {d.id for d in topology.devices}
    return {
        tuple(sorted(x.ends)): (x.count, x.forward_bytes_per_s.value)
        for x in topology.links
        if set(x.ends) <= devices
    }


@pytest.mark.parametrize("as_bytes", [False, True])
def test_finds_the_dgx_1v_of_the_catalogue(tmp_path, as_bytes):
    nvml = MachineOfText(tmp_path, DGX1).nvml
    nvml.as_bytes = as_bytes
    found, known = discover_this(sysfs=tmp_path, nvml=nvml), read_topology("dgx-1v")
    assert nvml.open == 0
    assert found.report == ()
    assert wiring(found) == wiring(known)
    for ours, theirs in zip(found.devices, known.devices, strict=True):
        for name in ("id", "name", "pci_bus_id", "numa_node", "cpus", "vendor", "memory_bytes"):
            assert getattr(ours, name) == getattr(theirs, name)
    assert [(n.name, n.pci_bus_id) for n in found.nics] == [
        (n.name, n.pci_bus_id) for n in known.nics
    ]
    for pair, route in known.route_of_pair.items():
        same = found.route_of_pair[pair]
        assert same.staged is (same.peer_access is False)
        if same.staged:
            assert not any("nvlink" in link for link in same.links)
            continue
        assert (same.path_class, len(same.links)) == (route.path_class, len(route.links))
    kinds = [Counter(x.kind.value for x in t.links) for t in (found, known)]
    assert kinds[0] == kinds[1]


def test_without_sysfs_its_distances_tell_the_same(tmp_path):
    nvml = MachineOfText(tmp_path / "sys", DGX1).nvml
    found, known = discover_this(sysfs=tmp_path / "none", nvml=nvml), read_topology("dgx-1v")
    assert wiring(found) == wiring(known)
    for pair, route in found.route_of_pair.items():
        assert route.path_class is known.route_of_pair[pair].path_class


@pytest.mark.parametrize(
    ("architecture", "text", "words"),
    [
        (
            "x86_64",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name"
            "\t: Intel(R) Xeon(R)\n\nprocessor\t: 1\nvendor_id\t: Other\n",
            "x86_64 GenuineIntel 6 207",
        ),
        ("x86_64", "vendor_id : AuthenticAMD\ncpu family : \nmodel : 1\n", "x86_64 AuthenticAMD"),
        ("aarch64", "processor\t: 0\nCPU implementer\t: 0x41\n", "arm64"),
        ("ppc64le", "processor\t: 0\ncpu\t\t: POWER9\nmodel\t: 8335-GTG\n", "ppc64"),
        ("x86_64", None, "x86_64"),
    ],
)
def test_the_processor_is_told_in_nccls_words(tmp_path, monkeypatch, architecture, text, words):
    monkeypatch.setattr("platform.machine", lambda: architecture)
    cpuinfo = tmp_path / "cpuinfo"
    if text is not None:
        cpuinfo.write_text(text)
    found = discovered(tmp_path / "sys", DGX1, cpuinfo=cpuinfo)
    assert found.metadata["cpu"] == words
    assert found.metadata.get("cpu_name") == (
        "Intel(R) Xeon(R)" if "model name" in (text or "") else None
    )
    attributes = zip(("arch", "vendor", "familyid", "modelid"), words.split(), strict=False)
    first = nccl_xml(found)[0].split("<cpu")[1].split(">")[0]
    assert all(f'{key}="{value}"' in first for key, value in attributes)


def test_this_machine_answers_or_says_why_not():
    """Whatever this machine is, the real NVML and sysfs must not break."""
    try:
        topology = read_topology("this")
    except UnavailableError as error:
        assert error.message.startswith("no GPU found on this machine (")
        return
    assert topology.devices


def test_recorded_partitions(shared_dir, tmp_path):
    """Partitions of one GPU may share its bus id, which then identifies none of them."""
    recorded = shared_dir / "machines" / "kfd-topology" / "topology-parsing.txt"
    FakeSysfs(tmp_path).kfd(recorded.read_text())
    found = discovered(tmp_path, "absent")
    assert [d.pci_bus_id for d in found.devices] == [None, None]
    assert "share a PCI bus id (0000:19:00.0)" in "\n".join(found.report)


def test_cpx_partitions_of_a_recorded_mi300(shared_dir, tmp_path):
    """The driver writes the partition's number into the function digit: 8 GPUs, 63 partitions."""
    recorded = shared_dir / "machines" / "kfd-topology" / "topo-mi300-cpx.txt"
    FakeSysfs(tmp_path).kfd(recorded.read_text())
    cut = "has current_compute_partition CPX\nhas current_memory_partition NPS4\n"
    boards = ("05", "27", "47", "65", "85", "a7", "c7", "e5")
    lines = [f"pci {board}:00.0 amd accelerator node=0\n{cut}" for board in boards]
    found = discovered(tmp_path, f"{''.join(lines)}absent")
    parents = Counter(d.parent for d in found.devices)
    assert sorted(parents.values()) == [7, 8, 8, 8, 8, 8, 8, 8]
    assert {d.name.rsplit(" ", 1)[-1] for d in found.devices} == {"(CPX/NPS4)"}
    boards = {c.id for c in found.components if c.name.startswith("GPU ")}
    uplinks = [x for x in found.links if x.ends[0] in boards]
    assert len(boards) == len(uplinks) == 8  # one PCIe link per GPU, not per partition
    assert "are hidden" not in "\n".join(found.report)
