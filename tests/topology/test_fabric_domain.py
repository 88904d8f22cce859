"""NVLink domains over hosts: what GPUs say of their fabric, and which hosts that joins."""

from dataclasses import replace

import pytest

from tests.topology.live.fake_machine import FakeGpu, FakeNvml, FakeSysfs
from toposeat.topology import discover_this, network_of_hosts, read_topology, with_told_domains
from toposeat.topology.fabric_domain import DOMAIN
from toposeat.topology.topology_file import parse_topology, topology_text

UUID = "5f0c3b7e-1f6a-4f2f-9c55-7be000d4a001"  # with a byte of zeros inside
ZEROS = "00000000-0000-0000-0000-000000000000"
SENTINEL = 32766  # a clique that unrelated racks share


def discovered(folder, fabrics, **options):
    sysfs = FakeSysfs(folder)
    gpus = []
    for number, fabric in enumerate(fabrics, start=1):
        bus = f"0000:{number:02x}:00.0"
        sysfs.pci(f"pci0000:{number:02x}/{bus}", vendor="0x10de", pci_class="0x030200", node=0)
        gpus.append(FakeGpu(bus, name="NVIDIA GB200", fabric=fabric, uuid=f"GPU-{number:036d}"))
    return discover_this(sysfs=folder, nvml=FakeNvml(gpus, **options), host="tray")


@pytest.mark.parametrize(
    ("fabrics", "domain"),
    [
        ([(UUID, 7, 3, 0)] * 4, f"{UUID}.7"),
        ([(UUID, 0, 3, 0)] * 2, f"{UUID}.0"),  # the first clique
        ([(ZEROS, SENTINEL, 3, 0)] * 2, None),  # a single node with its own NVSwitches
        ([(UUID, 7, 2, 0)] * 2, None),  # registration goes on
        ([(UUID, 7, 3, 999)] * 2, None),  # it has failed
        ([(UUID, 7, 3, 0), (UUID, 8, 3, 0)], None),  # a node in two parts
        ([(UUID, 7, 3, 0), None], None),
        ([None] * 2, None),
    ],
)
def test_nvml_tells_it(tmp_path, fabrics, domain):
    found = discovered(tmp_path, fabrics)
    assert found.metadata.get(DOMAIN) == domain
    assert not any("Fabric" in line for line in found.report)
    saved = parse_topology(topology_text(found), tmp_path / "node.json")
    assert saved.metadata.get(DOMAIN) == domain


def test_older_drivers_and_bindings_tell_it_by_the_older_call(tmp_path):
    fabrics = [(UUID, 7, 3, 0)] * 2
    found = discovered(tmp_path, fabrics, unsupported=["nvmlDeviceGetGpuFabricInfoV"])
    assert found.metadata[DOMAIN] == f"{UUID}.7"


def test_hosts_of_one_cluster_and_clique_are_one_domain():
    tray = read_topology("dgx-a100")
    said = [f"{UUID}.1", f"{UUID}.2", "", f"{UUID}.1", "", f"{UUID.replace('5', '6')}.1"]
    nodes = [replace(tray, metadata={DOMAIN: each} if each else {}) for each in said]
    network = network_of_hosts(None, [f"n{at}" for at in range(6)], in_slurm=False)
    level = with_told_domains(network, nodes).domain
    assert level is not None
    assert level.group_of_host == (0, 1, 2, 0, 3, 4)
    assert with_told_domains(network, nodes[1:3]).domain is None  # nobody shares one
    assert with_told_domains(network, []).domain is None
    stated = replace(network, domain=replace(level, group_of_host=(0, 0, 0, 1, 1, 1)))
    assert with_told_domains(stated, nodes) is stated
