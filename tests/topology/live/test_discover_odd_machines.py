"""Discovery where something is hidden, broken or unusual: a topology with an honest report."""

import pynvml
import pytest

from tests.topology.live.fake_machine import (
    AMD,
    GPU_CLASS,
    MELLANOX,
    NIC_CLASS,
    NVIDIA,
    FakeGpu,
    FakeNvml,
    FakeSysfs,
)
from tests.topology.live.test_discover import bus, dgx1_nvml, dgx1_sysfs, doubts, kfd_node, wiring
from toposeat.errors import UnavailableError
from toposeat.model.topology import LinkLayer, Vendor
from toposeat.topology import discover_this
from toposeat.topology.sources import read_topology


def refusing(function, arguments=None):
    """A DGX-1V whose library loses the GPU in one call (all calls if `arguments` is None)."""
    nvml = dgx1_nvml()
    answer = getattr(nvml, function)

    def call(*given):
        if arguments in (None, given):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return answer(*given)

    setattr(nvml, function, call)
    return nvml


def test_links_to_hidden_gpus_are_no_nvswitch(tmp_path):
    """GPU 0 and GPU 5 have no link, but both have links to GPUs that a cgroup hides."""
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.gpus = [nvml.gpus[0], nvml.gpus[5]]
    nvml.distance = lambda i, j: 50
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert not [x for x in found.links if x.kind.value == "nvlink"]
    assert found.route_of_pair["gpu0", "gpu1"].path_class.value == "SYS"
    assert "12 NVLinks lead to GPUs that this process does not see" in doubts(found)


def test_hidden_gpus_are_known_by_sysfs_where_nvml_is_old(tmp_path):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml(unsupported=["nvmlDeviceGetNvLinkRemoteDeviceType"])
    nvml.gpus = [nvml.gpus[0], nvml.gpus[5]]
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert not [x for x in found.links if x.kind.value == "nvlink"]


def test_all_gpus_hidden_is_no_gpu(tmp_path):
    """Ranks cannot be placed on GPUs that only sysfs shows while NVML answers."""
    dgx1_sysfs(tmp_path)
    with pytest.raises(UnavailableError, match="8 of 8 NVIDIA GPUs are hidden from this process"):
        discover_this(sysfs=tmp_path, nvml=FakeNvml([]))


def test_one_link_that_fails_costs_one_link(tmp_path):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=refusing("nvmlDeviceGetNvLinkState", (0, 1)))
    known = wiring(read_topology("dgx-1v"))
    assert set(wiring(found)) == set(known)
    assert sum(n for n, _ in known.values()) - sum(n for n, _ in wiring(found).values()) == 1
    assert "NVML did not answer nvmlDeviceGetNvLinkState: GPU is lost" in doubts(found)


def test_links_to_nobody_knows_where_are_no_nvswitch(tmp_path):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=refusing("nvmlDeviceGetNvLinkRemotePciInfo"))
    assert not [x for x in found.links if x.kind.value == "nvlink"]
    assert "48 NVLinks lead to where NVML does not tell: left out" in doubts(found)


@pytest.mark.parametrize("answer", ["", "garbage", "00000000:06:00.0"])
def test_bus_ids_that_are_none_or_repeated(tmp_path, answer):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    answers = nvml.nvmlDeviceGetPciInfo

    def pci_info(handle):
        info = answers(handle)
        if handle == 3:
            info.busId = answer
        return info

    nvml.nvmlDeviceGetPciInfo = pci_info
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert len(found.devices) == 7
    assert "NVML cannot open GPU 3: it is left out" in doubts(found)


@pytest.mark.parametrize("lost", [(), (7,)])
def test_gpus_of_two_vendors(tmp_path, lost):
    """A Ryzen's own graphics beside NVIDIA boards; a lost board leaves a gap in the numbers."""
    sysfs = dgx1_sysfs(tmp_path)
    sysfs.pci("pci0000:00/0000:00:08.1/0000:f1:00.0", vendor=AMD, pci_class="0x030000", node=0)
    kfd_node(sysfs, 0, {"simd_count": 0}, [])
    kfd_node(sysfs, 1, {"simd_count": 4, "location_id": 0xF1 << 8, "domain": 0}, [])
    nvml = refusing("nvmlDeviceGetPciInfo", (0,)) if lost else dgx1_nvml()
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [d.index for d in found.devices] == list(range(bool(lost), 9))
    assert found.devices[-1].vendor is Vendor.AMD
    assert "GPUs of two vendors" in doubts(found)


def test_recorded_partitions(shared_dir, tmp_path):
    """Partitions of one GPU may share its bus id, which then identifies none of them."""
    sysfs = FakeSysfs(tmp_path)
    sysfs.kfd((shared_dir / "machines" / "kfd-topology" / "topology-parsing.txt").read_text())
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml([], present=False))
    assert [d.pci_bus_id for d in found.devices] == [None, None]
    assert "share a PCI bus id (0000:19:00.0)" in doubts(found)


def one_gpu(root):
    sysfs = FakeSysfs(root)
    sysfs.numa(0, "0-7", 0)
    sysfs.pci("pci0000:00/0000:00:01.0", vendor="0x8086", pci_class="0x060400", node=0)
    gpu = "pci0000:00/0000:00:01.0/0000:01:00.0"
    sysfs.pci(gpu, vendor=NVIDIA, pci_class=GPU_CLASS, node=0)
    return sysfs, FakeNvml([FakeGpu(bus("01"))])


def test_virtual_functions_are_left_out(tmp_path):
    sysfs, nvml = one_gpu(tmp_path)
    physical = "pci0000:00/0000:00:02.0/0000:02:00.0"
    sysfs.pci(physical, vendor=MELLANOX, pci_class=NIC_CLASS, node=0)
    sysfs.adapter("infiniband", "mlx5_0", physical)
    for number in range(1, 5):
        virtual = f"pci0000:00/0000:00:02.0/0000:02:00.{number}"
        sysfs.pci(virtual, vendor=MELLANOX, pci_class=NIC_CLASS, node=0)
        (tmp_path / "devices" / virtual / "physfn").symlink_to("../0000:02:00.0")
        sysfs.adapter("infiniband", f"mlx5_{number}", virtual)
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [n.name for n in found.nics] == ["mlx5_0"]
    assert "4 virtual functions of network adapters are left out" in doubts(found)


def test_a_virtual_function_alone_is_a_nic(tmp_path):
    """In a container or a virtual machine the physical function is not there."""
    sysfs, nvml = one_gpu(tmp_path)
    virtual = "pci0000:00/0000:00:02.0/0000:02:00.4"
    sysfs.pci(virtual, vendor=MELLANOX, pci_class=NIC_CLASS, node=0)
    (tmp_path / "devices" / virtual / "physfn").symlink_to("../0000:02:00.0")
    sysfs.adapter("infiniband", "mlx5_4", virtual)
    assert [n.name for n in discover_this(sysfs=tmp_path, nvml=nvml).nics] == ["mlx5_4"]


def test_ports_tell_state_rate_and_what_they_speak(tmp_path):
    sysfs, nvml = one_gpu(tmp_path)
    ports = {  # state, rate, link layer of each port
        "mlx5_0": [("4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand")],
        "mlx5_1": [("1: DOWN", "10 Gb/sec (4X SDR)", "InfiniBand")],
        "mlx5_2": [("1: DOWN", "40 Gb/sec", "InfiniBand"), ("4: ACTIVE", "25 Gb/sec", "Ethernet")],
        "mlx5_3": [("4: ACTIVE", "100 Gb/sec", "Unspecified")],
    }
    for number, (name, states) in enumerate(ports.items()):
        path = f"pci0000:00/0000:00:02.0/0000:02:00.{number}"
        sysfs.pci(path, vendor=MELLANOX, pci_class=NIC_CLASS, node=0)
        sysfs.adapter("infiniband", name, path)
        for port, texts in enumerate(states, start=1):
            folder = f"devices/{path}/infiniband/{name}/ports/{port}"
            for file, text in zip(("state", "rate", "link_layer"), texts, strict=True):
                sysfs.write(f"{folder}/{file}", text)
    nics = discover_this(sysfs=tmp_path, nvml=nvml).nics
    told = [(n.active, n.bytes_per_s and n.bytes_per_s.value, n.link_layer) for n in nics]
    assert told == [
        (True, 50e9, LinkLayer.INFINIBAND),
        (False, None, LinkLayer.INFINIBAND),
        (True, 3.125e9, LinkLayer.ETHERNET),
        (True, 12.5e9, None),
    ]


def test_a_bond_is_one_nic(tmp_path):
    sysfs, nvml = one_gpu(tmp_path)
    for number in range(3):
        path = f"pci0000:00/0000:00:03.0/0000:03:00.{number}"
        sysfs.pci(path, vendor="0x8086", pci_class="0x020000", node=0)
        sysfs.adapter("net", f"ens{number}", path)
        sysfs.write(f"devices/{path}/net/ens{number}/operstate", "up")
    for number in (0, 1):
        path = f"devices/pci0000:00/0000:00:03.0/0000:03:00.{number}/net/ens{number}"
        (tmp_path / path / "master").symlink_to(tmp_path / "devices/virtual/net/bond0")
    for file, text in (("operstate", "up"), ("speed", "50000"), ("bonding/slaves", "ens0 ens1")):
        sysfs.write(f"devices/virtual/net/bond0/{file}", text)
    (tmp_path / "class/net/bond0").symlink_to("../../devices/virtual/net/bond0")
    nics = discover_this(sysfs=tmp_path, nvml=nvml).nics
    told = [(n.name, n.pci_bus_id, n.bytes_per_s and n.bytes_per_s.value) for n in nics]
    assert told == [("bond0", "0000:03:00.0", 6.25e9), ("ens2", "0000:03:00.2", None)]


@pytest.mark.parametrize("rdma", [False, True])
def test_management_interfaces_are_no_nics_beside_rdma(tmp_path, rdma):
    sysfs, nvml = one_gpu(tmp_path)
    ethernet = "pci0000:00/0000:00:03.0/0000:03:00.0"
    sysfs.pci(ethernet, vendor="0x8086", pci_class="0x020000", node=0)
    sysfs.adapter("net", "eno1", ethernet)
    if rdma:
        path = "pci0000:00/0000:00:02.0/0000:02:00.0"
        sysfs.pci(path, vendor=MELLANOX, pci_class=NIC_CLASS, node=0)
        sysfs.adapter("infiniband", "mlx5_0", path)
        sysfs.adapter("infiniband", "mlx5_1", path)  # two ports, one function
        sysfs.adapter("net", "ib0", path)
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [n.name for n in found.nics] == (["mlx5_0", "mlx5_1"] if rdma else ["eno1"])
    assert ("1 network interfaces without RDMA are left out: eno1" in doubts(found)) is rdma


def test_other_pci_domains_and_nodes_without_cpus(tmp_path):
    """GH200: each superchip has a PCI domain; GPU memory is a row of nodes without CPUs."""
    sysfs = FakeSysfs(tmp_path)
    gpus = []
    for chip in (0, 1):
        sysfs.numa(chip, f"{72 * chip}-{72 * chip + 71}", chip)
        domain = ("0009", "10019")[chip]
        port = f"pci{domain}:00/{domain}:00:00.0"
        sysfs.pci(port, vendor=NVIDIA, pci_class="0x060400", node=chip)
        sysfs.pci(f"{port}/{domain}:01:00.0", vendor=NVIDIA, pci_class=GPU_CLASS, node=chip)
        gpus.append(FakeGpu(f"{domain}:01:00.0", name="NVIDIA GH200 480GB"))
    for node in range(2, 18):
        sysfs.numa(node, "", 0)
    nvml = FakeNvml(gpus)
    nvml.nvmlDeviceGetPciInfo = lambda handle: type("Info", (), {"busId": gpus[handle].pci})()
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert [d.numa_node for d in found.devices] == [0, 1]
    assert {c.numa_node for c in found.components if c.kind.value == "numa"} == {0, 1}
    assert found.route_of_pair["gpu0", "gpu1"].path_class.value == "SYS"
    assert found.report == ()


def test_numa_node_minus_one_on_a_machine_of_two(tmp_path):
    sysfs, nvml = one_gpu(tmp_path)
    sysfs.numa(1, "8-15", 1)
    sysfs.write("devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node", "-1")
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert found.devices[0].numa_node is None
    assert "the NUMA node of gpu0 is not known" in doubts(found)
