"""Live discovery on machines that are written to a folder: what disagrees is reported."""

import re
from collections import Counter
from itertools import combinations

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
from toposeat.errors import UnavailableError
from toposeat.mapping import seat_ranks
from toposeat.model.topology import FactKind, Vendor
from toposeat.topology import discover_this, nccl_xml, read_topology

GPU, CPU, SWITCH = 0, 1, 2  # NVML's remote device types
DGX1_GPUS = ["06", "07", "0a", "0b", "85", "86", "89", "8a"]
DGX1_NICS = ["05", "0c", "84", "8b"]
CPUS = ("0-19,40-59", "20-39,60-79")
TWO_LANES = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
ONE_LANE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))


def bus(number):
    return f"0000:{number}:00.0"


def dgx1_sysfs(root):
    """Two host bridges with two switches each: two GPUs and one NIC below every switch."""
    sysfs = FakeSysfs(root)
    for socket in (0, 1):
        sysfs.numa(socket, CPUS[socket], socket)
    for number in range(4):
        socket = number // 2
        endpoints = [
            *((bus(b), NVIDIA, GPU_CLASS) for b in DGX1_GPUS[2 * number : 2 * number + 2]),
            (bus(DGX1_NICS[number]), MELLANOX, NIC_CLASS),
        ]
        paths = sysfs.switch(
            f"pci0000:{0x80 * socket:02x}/0000:{0x80 * socket:02x}:{number % 2 + 2:02x}.0",
            0x80 * socket + 0x20 + 2 * number,
            endpoints,
            node=socket,
            cpus=CPUS[socket],
        )
        sysfs.adapter("infiniband", f"mlx5_{number}", paths[-1])
        sysfs.adapter("net", f"ib{number}", paths[-1])
    aspeed = "pci0000:00/0000:00:1c.0"
    sysfs.pci(aspeed, vendor="0x1a03", pci_class="0x030000", node=0)  # management controller
    return sysfs


def dgx1_nvml(**options):
    gpus = [
        FakeGpu(pci=bus(b), uuid=f"GPU-0000000{i}-0000-0000-0000-000000000000")
        for i, b in enumerate(DGX1_GPUS)
    ]
    for lanes, pairs in ((2, TWO_LANES), (1, ONE_LANE)):
        for a, b in pairs:
            gpus[a].links += [(gpus[b].pci, GPU)] * lanes
            gpus[b].links += [(gpus[a].pci, GPU)] * lanes

    def distance(i, j):
        return 20 if i // 2 == j // 2 else 30 if i // 4 == j // 4 else 50

    return FakeNvml(gpus, distance=distance, **options)


def wiring(topology):
    devices = {d.id for d in topology.devices}
    return {
        tuple(sorted(x.ends)): (x.count, x.forward_bytes_per_s.value)
        for x in topology.links
        if set(x.ends) <= devices
    }


def doubts(topology):
    return "\n".join(topology.report)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_finds_the_dgx_1v_of_the_catalogue(tmp_path, as_bytes):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml(as_bytes=as_bytes)
    found = discover_this(sysfs=tmp_path, nvml=nvml, host="node07")
    known = read_topology("dgx-1v")
    assert nvml.open == 0
    assert found.report == ()
    assert (found.name, found.hosts) == ("node07", ("node07",))
    assert found.metadata == {"driver": "550.163.01", "nodes_per_socket": "1"}
    assert wiring(found) == wiring(known)
    for ours, theirs in zip(found.devices, known.devices, strict=True):
        for name in ("id", "name", "pci_bus_id", "numa_node", "cpus", "vendor", "memory_bytes"):
            assert getattr(ours, name) == getattr(theirs, name)
    assert found.devices[3].uuid == "GPU-00000003-0000-0000-0000-000000000000"
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
    assert found.route_of_pair["gpu0", "gpu1"].peer_access is True
    assert found.route_of_pair["gpu0", "gpu5"].peer_access is False
    assert found.route_of_pair["gpu0", "nic0"].peer_access is None


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
    dgx1_sysfs(tmp_path)
    cpuinfo = tmp_path / "cpuinfo"
    if text is not None:
        cpuinfo.write_text(text)
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml(), cpuinfo=cpuinfo)
    assert found.metadata["cpu"] == words
    assert found.metadata.get("cpu_name") == (
        "Intel(R) Xeon(R)" if "model name" in (text or "") else None
    )
    attributes = zip(("arch", "vendor", "familyid", "modelid"), words.split(), strict=False)
    first = nccl_xml(found)[0].split("<cpu")[1].split(">")[0]
    assert all(f'{key}="{value}"' in first for key, value in attributes)


def test_ranks_get_whole_cores(tmp_path):
    sysfs = dgx1_sysfs(tmp_path)
    for cpu in range(80):  # neighbours are threads of a core, as on some boards
        path = f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        sysfs.write(path, f"{cpu & ~1}-{cpu | 1}")
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml(), host="node07")
    cores = {c.numa_node: c.cores for c in found.components if c.cores}
    assert (cores[0][:2], len(cores[0])) == (("0-1", "2-3"), 20)
    assert cores[1][-1] == "78-79"
    seats = seat_ranks(found, 3, (0, 1, 2))
    assert [seat.cpus for seat in seats.seats] == ["0-13", "14-19,40-47", "48-59"]


def test_pcie_speed_is_that_of_the_slower_end(tmp_path):
    sysfs = FakeSysfs(tmp_path)
    sysfs.numa(0, "0-7", 0)
    port = "pci0000:00/0000:00:01.0"
    sysfs.pci(port, vendor="0x8086", pci_class="0x060400", speed="16.0 GT/s PCIe")
    path = f"{port}/0000:01:00.0"
    sysfs.pci(path, vendor=NVIDIA, pci_class=GPU_CLASS, speed="32.0 GT/s PCIe", width=8)
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml([FakeGpu("0000:01:00.0")]))
    link = next(x for x in found.links if x.ends[0] == "gpu0")
    assert link.forward_bytes_per_s.value == 24e9 / 2  # generation 4, eight lanes
    assert found.report == ()


def test_gpus_hidden_by_a_cgroup_are_reported(tmp_path):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.gpus = nvml.gpus[:2]
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert len(found.devices) == 2
    assert "6 of 8 NVIDIA GPUs are hidden from this process" in doubts(found)


def test_without_nvml_sysfs_lists_the_gpus(tmp_path):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml([], present=False))
    assert [d.pci_bus_id for d in found.devices] == [bus(b) for b in DGX1_GPUS]
    assert "NVLinks are not known" in doubts(found)
    classes = Counter(
        found.route_of_pair[f"gpu{i}", f"gpu{j}"].path_class.value
        for i, j in combinations(range(8), 2)
    )
    assert classes == {"PIX": 4, "PHB": 8, "SYS": 16}


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetTopologyCommonAncestor",
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetCpuAffinity",
        "nvmlDeviceGetNvLinkVersion",
        "nvmlSystemGetDriverVersion",
    ],
)
def test_calls_that_are_not_supported_degrade(tmp_path, function):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml(unsupported=[function]))
    assert doubts(found) == f"NVML did not answer {function}: Not Supported"
    assert wiring(found) == wiring(read_topology("dgx-1v"))


def test_gpus_that_cannot_be_cut_are_no_doubt(tmp_path):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml(unsupported=["nvmlDeviceGetMigMode"]))
    assert found.report == ()


def test_missing_nvlink_calls_mean_no_nvlink(tmp_path):
    dgx1_sysfs(tmp_path)
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml(unsupported=["nvmlDeviceGetNvLinkState"]))
    assert wiring(found) == {}
    assert found.route_of_pair["gpu0", "gpu3"].path_class.value == "PHB"


def test_nvswitch_fabric(tmp_path):
    """Twelve links of each GPU spread over six switches: one crossbar."""
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    for gpu in nvml.gpus:
        gpu.name, gpu.link_version = "NVIDIA A100-SXM4-40GB", 4
        gpu.links = [(bus(f"c{n % 6}"), SWITCH) for n in range(12)]
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert nvlinks(found) == [("nvswitch0", 12, 300e9)] * 8
    assert {r.path_class.value for p, r in found.route_of_pair.items() if "nic" not in p[1]} == {
        "NVL"
    }


def nvlinks(found):
    """End, lanes and bytes/s of the NVLinks at switches."""
    ports = [x for x in found.links if x.kind.value == "nvlink"]
    return [(x.ends[1], x.count, x.forward_bytes_per_s.value) for x in ports]


HIDDEN = "fffffff:ffff:ff.f"  # of a switch that a virtual machine does not see


@pytest.mark.parametrize("remote", [(HIDDEN, 255), (HIDDEN, SWITCH), (bus("c0"), SWITCH)])
@pytest.mark.parametrize("refused", [[], ["nvmlDeviceGetNvLinkRemoteDeviceType"]])
def test_an_nvswitch_that_a_virtual_machine_does_not_see(tmp_path, remote, refused):
    """Of Hopper fields tell the state of links, not GetNvLinkState."""
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml(unsupported=refused)
    for gpu in nvml.gpus:
        gpu.name, gpu.capability, gpu.link_version = "NVIDIA H100 80GB HBM3", (9, 0), 6
        gpu.links, gpu.inactive, gpu.virtual = [remote] * 16, 2, 1
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert nvlinks(found) == [("nvswitch0", 16, 400e9)] * 8
    assert {device.inactive_lanes for device in found.devices} == {2}
    assert found.route_of_pair["gpu0", "gpu7"].path_class.value == "NVL"


@pytest.mark.parametrize(
    ("name", "version", "rate"),
    [
        ("NVIDIA H20", 7, 50e9),  # 5.0: NVML's word before the product's
        ("Graphics Device", 6, 25e9),
        ("Graphics Device", 7, 50e9),
        ("NVIDIA RTX A6000", 5, 14.06e9),  # both kinds of 3.1: the product tells
        ("NVIDIA A100-SXM4-40GB", 4, 25e9),
        ("Tesla P100-SXM2-16GB", 1, 20e9),
        ("NVIDIA B200", 0, 50e9),
    ],
)
def test_nvmls_own_link_version_is_before_the_products(tmp_path, name, version, rate):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    for gpu in nvml.gpus:
        gpu.name, gpu.link_version, gpu.links = name, version, [(bus("c0"), SWITCH)] * 2
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert nvlinks(found) == [("nvswitch0", 2, 2 * rate)] * 8


def test_two_nvswitch_boards(tmp_path):
    sysfs = FakeSysfs(tmp_path)
    sysfs.numa(0, "0-7", 0)
    gpus = []
    for i in range(16):
        port = f"pci0000:00/0000:00:{i + 1:02x}.0"
        sysfs.pci(port, vendor="0x8086", pci_class="0x060400")
        address = bus(f"{i + 0x10:02x}")
        sysfs.pci(f"{port}/{address}", vendor=NVIDIA, pci_class=GPU_CLASS)
        links = [(bus(f"{0xA0 + 16 * (i // 8) + n:02x}"), SWITCH) for n in range(6)]
        gpus.append(FakeGpu(address, name="Tesla V100-SXM3-32GB", links=links))
    nvml = FakeNvml(gpus)
    nvml.nvmlDeviceGetP2PStatus = lambda a, b, capability: 0  # through the switches
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    trunk = next(x for x in found.links if x.name == "board to board")
    assert (trunk.count, trunk.forward_bytes_per_s.value) == (48, 1200e9)
    assert len(found.route_of_pair["gpu0", "gpu15"].links) == 3
    assert "assumed to be joined at full bisection" in doubts(found)


def test_nvlink_to_the_cpu(tmp_path):
    """POWER9: GPUs of two sockets talk over NVLink, X-bus, NVLink."""
    sysfs = FakeSysfs(tmp_path)
    gpus = []
    for i, domain in enumerate(("0004", "0035")):
        sysfs.numa(8 * i, f"{88 * i}-{88 * i + 87}", 8 * i)
        sysfs.numa(255 - i, "", 0)  # the GPU's own memory: a node without CPUs
        port = f"pci{domain}:00/{domain}:00:00.0"
        sysfs.pci(port, vendor="0x1014", pci_class="0x060400", node=8 * i)
        address = f"{domain}:04:00.0"
        sysfs.pci(f"{port}/{address}", vendor=NVIDIA, pci_class=GPU_CLASS, node=8 * i)
        gpus.append(FakeGpu(address, links=[(f"{domain}:00:00.1", CPU)] * 3))
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml(gpus))
    route = found.route_of_pair["gpu0", "gpu1"]
    assert [found.link_of_id[x].kind.value for x in route.links] == ["nvlink", "smp", "nvlink"]
    assert route.path_class.value == "SYS"
    assert {c.numa_node for c in found.components if c.kind.value == "numa"} == {0, 8}


def box_of_nodes(tmp_path, nodes):
    """A GPU on each of these memory nodes, of which two make a socket; of -1 nothing is told."""
    sysfs = FakeSysfs(tmp_path)
    gpus = []
    for at, node in enumerate(nodes):
        if node >= 0:
            sysfs.numa(node, f"{8 * node}-{8 * node + 7}", node // 2)
        port = f"pci0000:{32 * at:02x}/0000:{32 * at:02x}:01.0"
        sysfs.pci(port, vendor="0x1022", pci_class="0x060400", node=node)
        address = bus(f"{32 * at + 1:02x}")
        sysfs.pci(f"{port}/{address}", vendor=NVIDIA, pci_class=GPU_CLASS, node=node)
        gpus.append(FakeGpu(address))
    return discover_this(sysfs=tmp_path, nvml=FakeNvml(gpus))


def test_a_node_that_is_not_told_is_no_socket(tmp_path):
    found = box_of_nodes(tmp_path, (0, 1, 2, 3, -1))
    assert {c.id for c in found.components if c.kind.value == "package"} == {"package0", "package1"}
    assert len(found.route_of_pair["gpu0", "gpu4"].links) == 6


def test_numa_nodes_of_a_socket_meet_on_its_die(tmp_path):
    found = box_of_nodes(tmp_path, range(4))
    smp = [set(x.ends) for x in found.links if x.kind.value == "smp"]
    assert {"package0", "package1"} in smp
    assert len(smp) == 5
    assert len(found.route_of_pair["gpu0", "gpu1"].links) == 6
    assert len(found.route_of_pair["gpu0", "gpu2"].links) == 7


def test_mig_inactive_and_lopsided_links_are_reported(tmp_path):
    dgx1_sysfs(tmp_path)
    nvml = dgx1_nvml()
    nvml.gpus[0].mig = True
    nvml.gpus[1].inactive = 1
    nvml.gpus[2].links.pop()
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    report = doubts(found)
    assert "GPU 0 (0000:06:00.0) is in MIG mode without slices" in report
    assert [(d.index, d.inactive_lanes) for d in found.devices][:3] == [(1, 1), (2, 0), (3, 0)]
    assert "gpu1 has 1 inactive NVLinks beside 6 active ones" in report
    assert re.search(r"gpu2 counts \d links to gpu\d, gpu\d counts \d back", report) or (
        re.search(r"gpu\d counts \d links to gpu\d", report)
    )


def test_gpus_that_sysfs_does_not_show_are_drawn_by_distance(tmp_path):
    sysfs = FakeSysfs(tmp_path)
    sysfs.pci("pci0000:00/0000:00:03.0", vendor=MELLANOX, pci_class=NIC_CLASS)
    sysfs.adapter("infiniband", "mlx5_0", "pci0000:00/0000:00:03.0")
    found = discover_this(sysfs=tmp_path, nvml=dgx1_nvml())
    known = read_topology("dgx-1v")
    assert [d.id for d in found.devices] == [d.id for d in known.devices]
    assert wiring(found) == wiring(known)
    classes = [
        {
            pair: route.path_class
            for pair, route in machine.route_of_pair.items()
            if "gpu" in pair[1]
        }
        for machine in (found, known)
    ]
    assert classes[0] == classes[1]
    kinds = Counter(component.kind.value for component in found.components)
    assert (kinds["numa"], kinds["host_bridge"]) == (2, 2)
    assert found.nics == ()
    assert FactKind.NICS not in found.tells
    assert "sysfs shows none of the 8 GPUs" in doubts(found)
    assert "adapters are left out, whose place nothing tells (mlx5_0)" in doubts(found)


def test_a_hidden_tree_whose_distances_are_all_alike_is_no_tree(tmp_path):
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml(dgx1_nvml().gpus))
    assert found.metadata["relations"] == "information-free"
    assert "SYS" not in {route.path_class.value for route in found.routes}


def test_unknown_pci_position_is_reported(tmp_path):
    nvml = dgx1_nvml(unsupported=["nvmlDeviceGetTopologyCommonAncestor"])
    found = discover_this(sysfs=tmp_path, nvml=nvml)
    assert "gpu7 (0000:8a:00.0): not in sysfs" in doubts(found)
    assert len(found.devices) == 8
    assert found.route_of_pair["gpu0", "gpu3"].path_class.value == "NVL"


@pytest.mark.parametrize("present", [False, True])
def test_no_gpu_says_what_to_do(tmp_path, present):
    with pytest.raises(UnavailableError, match="no GPU found on this machine") as caught:
        discover_this(sysfs=tmp_path, nvml=FakeNvml([], present=present))
    assert caught.value.hint == (
        "give a saved one with -t FILE; make it on the GPU node with: toposeat discover -o FILE"
    )


def test_this_machine_answers_or_says_why_not():
    """Whatever this machine is, the real NVML and sysfs must not break."""
    try:
        topology = read_topology("this")
    except UnavailableError as error:
        assert error.message.startswith("no GPU found on this machine (")
        return
    assert topology.devices


def kfd_node(sysfs, node, properties, links):
    base = f"class/kfd/kfd/topology/nodes/{node}"
    sysfs.write(f"{base}/properties", "\n".join(f"{k} {v}" for k, v in properties.items()))
    sysfs.write(f"{base}/name", "aldebaran" if properties["simd_count"] else "")
    for number, text in enumerate(links):
        sysfs.write(f"{base}/io_links/{number}/properties", text)


def test_amd_gpus_by_kfd(tmp_path):
    """One CPU, three GCDs in a chain of direct xGMI links; the outer two are 30 apart."""
    sysfs = FakeSysfs(tmp_path)
    sysfs.numa(0, "0-15", 0)
    kfd_node(sysfs, 0, {"simd_count": 0}, [])
    for i in range(3):
        port = f"pci0000:00/0000:00:{i + 1:02x}.0"
        sysfs.pci(port, vendor="0x1022", pci_class="0x060400", node=0)
        sysfs.pci(f"{port}/{bus(f'c{i}')}", vendor=AMD, pci_class="0x038000", node=0, cpus="0-15")
        links = [
            f"type 11\nnode_from {i + 1}\nnode_to {j + 1}\nweight {15 * abs(i - j)}"
            f"\nmax_bandwidth {50000 if {i, j} == {0, 1} else 0}"
            for j in range(3)
            if j != i
        ]
        properties = {
            "simd_count": 440, "location_id": (0xC0 + i) << 8, "domain": 0,
            "unique_id": 0xABC + i, "gfx_target_version": 90010,
        }  # fmt: skip
        kfd_node(sysfs, i + 1, properties, links)
    found = discover_this(sysfs=tmp_path, nvml=FakeNvml([], present=False))
    assert [(d.pci_bus_id, d.vendor, d.cpus) for d in found.devices] == [
        (bus(f"c{i}"), Vendor.AMD, "0-15") for i in range(3)
    ]
    assert found.devices[0].uuid == "GPU-0000000000000abc"
    assert set(wiring(found)) == {("gpu0", "gpu1"), ("gpu1", "gpu2")}
    assert len(found.route_of_pair["gpu0", "gpu2"].links) == 2
    assert "does not state the bandwidth of 1 xGMI links" in doubts(found)
    assert "1 more xGMI pairs without a link of their own" in doubts(found)
