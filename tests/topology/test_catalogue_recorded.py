"""Catalogue machines against recordings of the same machine class: hwloc, NCCL, benchmarks."""

import re
from itertools import permutations, product
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.topology.test_catalogue import GB, nvlinks, pair_bandwidth
from toposeat.model.cpu_list import cpu_list_of_mask
from toposeat.model.topology import PathClass
from toposeat.topology import read_topology


def nic_classes(topology, gpu):
    return {
        nic.name: topology.route_of_pair[f"gpu{gpu}", nic.id].path_class.value
        for nic in topology.nics
    }


@pytest.mark.parametrize("file", ["mpibind-coral-lassen.xml", "fluxcore-sierra.xml"])
def test_power9_has_the_devices_of_sierra_and_lassen(shared_dir, file):
    """PCI bus ids, the NUMA node above each, its CPUs, adapters' names and link speed."""
    tree = ElementTree.parse(shared_dir / "machines" / "hwloc-xml" / file)
    recorded = {}
    names = {}
    cpus = {}

    def walk(element, node):
        numa = element.find("./object[@type='NUMANode']")
        inner = numa if numa is not None else element
        if element.get("type") in ("NUMANode", "Package") or numa is not None:
            node = int(inner.get("os_index", "-1"))
            mask = inner.get("complete_cpuset" if "fluxcore" in file else "cpuset") or "0x0"
            words = [int(w or "0", 16) for w in mask.split(",")][::-1]
            cpus[node] = cpu_list_of_mask(words, bits=32)
        bus = element.get("pci_busid")
        if bus and node is not None and element.get("pci_type", "")[:4] in ("0302", "0207"):
            recorded[bus] = node
            ports = [o.get("name", "") for o in element.findall("object")]
            names.update((bus, name) for name in ports if name.startswith("mlx5"))
            speed = float(element.get("pci_link_speed", "0"))
            assert speed == 0 or speed == pytest.approx(15.75, rel=0.01)  # generation 4, 8 lanes
        for child in element.findall("object"):
            walk(child, node)

    root = tree.getroot().find("object")
    assert root is not None
    walk(root, None)
    ours = read_topology("power9-4")
    assert {d.pci_bus_id: d.numa_node for d in (*ours.devices, *ours.nics)} == recorded
    assert {n.pci_bus_id: n.name for n in ours.nics} == names
    if "fluxcore" in file:  # Lassen's recording lacks the CPUs set aside for the system
        assert {d.numa_node: d.cpus for d in ours.devices} == {n: cpus[n] for n in (0, 8)}


def test_power9_adapters_are_as_near_as_recorded(shared_dir):
    path = shared_dir / "machines" / "nvidia-smi-topo" / "4gpu-power9-nv3.txt"
    recorded, ours = read_topology(path), read_topology("power9-4")
    for gpu in range(4):
        assert nic_classes(ours, gpu) == nic_classes(recorded, gpu)


def test_dgx_a100_reaches_the_recorded_rate(shared_dir):
    """NVIDIA's nvbandwidth, copy engine, all pairs: within 1 % of what the model allows alone."""
    text = (shared_dir / "machines/nvbandwidth/8gpu-a100-d2d-write-ce.txt").read_text()
    rows = [line.split()[1:] for line in text.splitlines() if re.match(r"\d\s+\d", line)]
    measured = [[float(cell) for cell in row] for row in rows if len(row) == 8 and "." in row[0]]
    assert len(measured) == 8
    ours = read_topology("dgx-a100")
    for i, j in permutations(range(8), 2):
        assert pair_bandwidth(ours, i, j) / GB == pytest.approx(measured[i][j], rel=0.01)


def test_dgx_a100_pairs_share_a_switch_with_two_nics_as_in_azure(shared_dir):
    tree = ElementTree.parse(shared_dir / "machines" / "nccl-xml" / "azure-ndv4-topo.xml")
    shapes = {
        tuple(sorted(child.get("class", "") for child in bridge))
        for bridge in tree.iterfind("cpu/pci")
    }
    assert shapes == {("0x020700",) * 2 + ("0x030200",) * 2}
    ours = read_topology("dgx-a100")
    switch = {link.ends[0]: link.ends[1] for link in ours.links if "switch" in link.ends[1]}
    below = [v for v, above in switch.items() if above == switch["nic0"]]
    assert sorted(below) == ["gpu0", "gpu1", "nic0", "nic1"]
    assert len({c.numa_node for c in ours.components if c.kind.value == "numa"}) == len(
        tree.findall("cpu")
    )


def test_mi300x_is_fully_connected_like_a_recorded_gfx940_node(shared_dir):
    tree = ElementTree.parse(shared_dir / "machines" / "nccl-xml" / "rccl-topo_4p_940.xml")
    assert {len(gpu.findall("xgmi")) for gpu in tree.iter("gpu")} == {3}
    wiring = nvlinks(read_topology("mi300x-8"))
    assert len(wiring) == 28
    assert set(wiring.values()) == {1}


# Published outputs of nvidia-smi topo (sources are named in each machine): adapters by class.
@pytest.mark.parametrize(
    ("name", "gpu", "near"),
    [
        ("dgx-2", 0, {"mlx5_0": "PIX", "mlx5_1": "PXB", "mlx5_2": "NODE", "mlx5_3": "NODE"}),
        ("dgx-2", 6, {"mlx5_0": "NODE", "mlx5_1": "NODE", "mlx5_2": "PXB", "mlx5_3": "PIX"}),
        ("dgx-2", 8, {"mlx5_6": "PIX", "mlx5_7": "PXB", "mlx5_8": "NODE", "mlx5_9": "NODE"}),
        ("dgx-2", 14, {"mlx5_6": "NODE", "mlx5_7": "NODE", "mlx5_8": "PXB", "mlx5_9": "PIX"}),
        ("dgx-a100", 1, {"mlx5_0": "PXB", "mlx5_1": "PXB"}),
        ("dgx-a100", 2, {"mlx5_2": "PXB", "mlx5_3": "PXB"}),
        ("dgx-a100", 4, {"mlx5_6": "PXB", "mlx5_7": "PXB"}),
        ("hgx-h100", 1, dict.fromkeys(("mlx5_0", "mlx5_4", "mlx5_5"), "NODE") | {"mlx5_3": "PXB"},),
        ("hgx-h100", 7, dict.fromkeys(("mlx5_6", "mlx5_9", "mlx5_10"), "NODE")
         | {"mlx5_11": "PXB"}),
    ],
)  # fmt: skip
def test_adapters_are_as_near_as_published(name, gpu, near):
    """Those not named are across the sockets."""
    found = nic_classes(read_topology(name), gpu)
    assert {nic: near.get(nic, "SYS") for nic in found} == found
    assert set(near) <= set(found)


@pytest.mark.parametrize("name", ["dgx-a100", "hgx-h100"])
def test_inside_one_switch_chip_a_flow_has_the_full_rate(name):
    topology = read_topology(name)
    route = topology.route_of_pair["gpu0", "nic0"]
    assert route.path_class is PathClass.PXB
    assert len(route.links) == 2
    assert route.cap_bytes_per_s is None


def test_mi300a_is_a_node_of_tuolumne(shared_dir):
    """Bus ids, NUMA nodes and CPUs of GPUs and adapters."""
    recorded = read_topology(shared_dir / "machines/hwloc-xml/fluxcore-tuo.SPX.xml")
    ours = read_topology("mi300a-4")
    assert [(d.pci_bus_id, d.numa_node, d.cpus) for d in ours.devices] == [
        (d.pci_bus_id, d.numa_node, d.cpus) for d in recorded.devices
    ]
    assert {(n.name, n.pci_bus_id, n.numa_node) for n in ours.nics} == {
        (n.name, n.pci_bus_id, n.numa_node) for n in recorded.nics
    }


@pytest.mark.parametrize(
    ("name", "file"),
    [("mi100-8", "rccl-topo_8p_rome_4nics.xml"), ("mi60-8", "rccl-topo_4p2h_2nic.xml")],
)
def test_hives_are_those_that_amd_dumped(shared_dir, name, file):
    """Devices, adapters, hives, and the relation of each device to every device and adapter."""
    recorded = read_topology(shared_dir / "machines/nccl-xml" / file)
    ours = read_topology(name)
    assert nvlinks(ours) == nvlinks(recorded)
    for mine, theirs in ((ours.devices, recorded.devices), (ours.nics, recorded.nics)):
        assert [(v.pci_bus_id, v.numa_node) for v in mine] == [
            (v.pci_bus_id, v.numa_node) for v in theirs
        ]
    assert [d.cpus for d in ours.devices] == [d.cpus for d in recorded.devices]
    assert [(n.name, n.bytes_per_s) for n in ours.nics] == [
        (n.name, n.bytes_per_s) for n in recorded.nics
    ]
    for pair, route in ours.route_of_pair.items():
        assert route.path_class is recorded.route_of_pair[pair].path_class, pair


def test_max1100_is_the_pair_of_a_published_listing(shared_dir):
    recorded = read_topology(shared_dir / "machines/xpu-smi-topo/2gpu-max1100-xl24.txt")
    ours = read_topology("max1100-2")
    assert [d.cpus for d in ours.devices] == [d.cpus for d in recorded.devices]
    (mine,) = (link for link in ours.links if link.kind.value == "xelink")
    (theirs,) = (link for link in recorded.links if link.kind.value == "xelink")
    assert (mine.count, mine.forward_bytes_per_s) == (theirs.count, theirs.forward_bytes_per_s)


def test_gb300_tray_as_recorded(shared_dir):
    """Names, bus ids and memory of nvidia-smi -q -x; adapters as near as on Azure."""
    folder = shared_dir / "machines"
    tree = ElementTree.parse(folder / "nvidia-smi-q-xml/qx-gb300.xml")
    ours = read_topology("gb300-nvl72")
    tray = [d for d in ours.devices if d.host == "tray07"]
    for device, gpu in zip(tray, tree.iterfind("gpu"), strict=True):
        assert gpu.findtext("product_name") == device.name
        assert gpu.get("id", "").lower().removeprefix("0000") == device.pci_bus_id
        memory = int(gpu.findtext("fb_memory_usage/total", "0").split()[0])
        assert device.memory_bytes == pytest.approx(memory << 20, rel=0.01)
    recorded = read_topology(folder / "nvidia-smi-topo/4gpu-gb300-azure.md")
    nics = [n.id for n in ours.nics if n.host == "tray07"]
    for (i, device), (j, nic) in product(enumerate(tray), enumerate(nics)):
        mine = ours.route_of_pair[device.id, nic]
        assert mine.path_class is recorded.route_of_pair[f"gpu{i}", f"nic{j}"].path_class


@pytest.mark.parametrize(("name", "file"), [("hgx-b200", "qx-b200.xml"), ("l40s-8", "qx-l40s.xml")])
def test_gpus_are_those_of_a_recorded_query(shared_dir, name, file):
    """Name, PCIe generation, and memory less what error correction takes."""
    gpu = ElementTree.parse(shared_dir / "machines/nvidia-smi-q-xml" / file).find("gpu")
    assert gpu is not None
    ours = read_topology(name)
    assert ours.devices[0].name == gpu.findtext("product_name")
    generations = {e.text for e in gpu.iter("max_device_link_gen")}
    assert generations == {ours.metadata["pcie_generation"]}
    memory = int(gpu.findtext("fb_memory_usage/total", "0").split()[0]) << 20
    assert 0.93 < memory / (ours.devices[0].memory_bytes or 1) <= 1


def test_mi300x_packages_are_joined_each_to_each_as_in_kfd(shared_dir):
    """A node in CPX: eight packages at our bus ids, each two joined by one link of our rate."""
    recorded = read_topology(shared_dir / "machines/kfd-topology/topo-mi300-cpx.txt")
    ours = read_topology("mi300x-8")
    assert {d.pci_bus_id for d in ours.devices} == {d.parent for d in recorded.devices}

    def wiring(topology, names):
        return {
            tuple(sorted(names[end] for end in link.ends)): link.forward_bytes_per_s.value
            for link in topology.links
            if link.kind.value == "xgmi" and set(link.ends) <= set(names)
        }

    packages = {f"package-{d.parent}": str(d.parent) for d in recorded.devices}
    devices = {d.id: str(d.pci_bus_id) for d in ours.devices}
    assert wiring(ours, devices) == wiring(recorded, packages)
    assert len(wiring(ours, devices)) == 28


def test_hgx_h200_has_the_processors_of_a_recorded_one(shared_dir):
    recorded = read_topology(shared_dir / "machines/nvidia-smi-topo/8gpu-h200-gke-a3ultra.txt")
    ours = read_topology("hgx-h200")
    assert [(d.numa_node, d.cpus) for d in ours.devices] == [
        (d.numa_node, d.cpus) for d in recorded.devices
    ]


def test_polaris_as_in_its_user_guide():
    """Argonne's table: CPUs and NUMA node of each GPU, and which adapter is PHB to which."""
    ours = read_topology("polaris-4")
    assert [(d.cpus, d.numa_node) for d in ours.devices] == [
        ("24-31,56-63", 3),
        ("16-23,48-55", 2),
        ("8-15,40-47", 1),
        ("0-7,32-39", 0),
    ]
    near = {3: {"mlx5_0": "PHB"}, 1: {"mlx5_1": "PHB"}}
    for gpu in range(4):
        far = {"mlx5_0": "SYS", "mlx5_1": "SYS"}
        assert nic_classes(ours, gpu) == far | near.get(gpu, {})
    assert set(nvlinks(ours).values()) == {4}


def test_summits_adapters_inject_what_its_user_guide_states():
    topology = read_topology("summit-6")
    fabric = [x for x in topology.links if x.name == "on-die fabric"]
    assert sum(x.forward_bytes_per_s.value for x in fabric) == pytest.approx(23 * GB, rel=0.1)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hgx-h200", "8gpu-h200-gke-a3ultra.txt"),
        ("gb200-nvl72", "4gpu-gb300-azure.md"),  # the next GPU in the same tray
    ],
)
def test_nvlink_ports_as_recorded(shared_dir, name, file):
    """All pairs over NVLink, with as many links from every GPU."""
    recorded = read_topology(shared_dir / "machines/nvidia-smi-topo" / file)
    ours = read_topology(name)
    counts = {link.count for link in recorded.links if link.kind.value == "nvlink"}
    assert {link.count for link in ours.links if link.kind.value == "nvlink"} == counts == {18}
    pairs = permutations(range(len(recorded.devices)), 2)
    assert all(
        recorded.route_of_pair[f"gpu{i}", f"gpu{j}"].path_class is PathClass.NVL
        and ours.route_of_pair[f"gpu{i}", f"gpu{j}"].path_class is PathClass.NVL
        for i, j in pairs
    )


def test_k40_pairs_are_those_measured_on_sirocco(shared_dir):
    """Class means against single pairs: within 7 %. Row and column 0 are the host, in MB/s."""
    measured = np.loadtxt(shared_dir / "machines/starpu-bus/sirocco.bandwidth")
    ours = read_topology("k40-4")
    for i, j in permutations(range(4), 2):
        assert pair_bandwidth(ours, i, j) == pytest.approx(
            measured[i + 1, j + 1] * 1e6, rel=0.07
        ), (i, j)


@pytest.mark.parametrize(
    ("name", "pair", "gigabytes"),
    [
        ("perlmutter-4", (0, 3), 91.6),  # four NVLink 3 at 22.9, as NV12 on A100 measures
        ("summit-6", (0, 2), 48.3),  # two NVLink 2: published for V100
        ("summit-6", (0, 3), 29),
        ("minsky-4", (0, 1), 35.3),
        ("minsky-4", (0, 2), 20.3),
        ("minsky-4", (2, 0), 24.75),
        ("c2050-8", (0, 1), 6.63),
        ("c2050-8", (0, 2), 5.29),
        ("c2050-8", (0, 4), 3.08),
        ("c2050-8", (4, 0), 3.80),
        ("aurora-12", (0, 3), 15),
        ("aurora-12", (0, 1), 196),
    ],
)
def test_lone_flows_are_as_published(name, pair, gigabytes):
    found = pair_bandwidth(read_topology(name), *pair)
    assert found / GB == pytest.approx(gigabytes, rel=0.1)


def test_auroras_tiles_of_other_planes_are_reached_by_way_of_a_sibling():
    topology = read_topology("aurora-12")
    planes = [{0, 3, 4, 6, 8, 11}, {1, 2, 5, 7, 9, 10}]
    for i, j in permutations(range(12), 2):
        kinds = [topology.link_of_id[x].name for x in
                 topology.route_of_pair[f"gpu{i}", f"gpu{j}"].links]  # fmt: skip
        if i // 2 == j // 2:
            assert kinds == ["Multi-Die Fabric"]
        elif any({i, j} <= plane for plane in planes):
            assert kinds == ["Xe Link"]
        else:
            assert sorted(kinds) == ["Multi-Die Fabric", "Xe Link"]
