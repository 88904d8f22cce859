"""Recorded outputs of tools: which are read, and what each says, read off it by eye."""

from collections import Counter
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from tests.topology.case_files import texts_of
from tests.topology.readers.recorded import bonds, facts_of, machine_of, pcie, peers, row_of
from toposeat.errors import InputError
from toposeat.model.topology import LinkKind, PathClass, Vendor
from toposeat.topology import facts_of as open_facts_of
from toposeat.topology import findings_of, parse_topology_text, read_topologies, read_topology

MIB = 1 << 20
HWLOC_WITHOUT_GPUS = {
    "16amd64-4distances.xml",
    "16intel64-manyVFs.xml",
    "32em64t-2n8c+dax+nvme+mic+dimms.xml",
    "40intel64-2g2n4c+pcilocality.xml",
    "64intel64-heteromem.xml",
    "96em64t-4n4d3ca2co-pci.v2.xml",  # a management controller only
    "cxlmem+dax.v3.xml",
    "fakeheterodistances.xml",
    "fakepcilocalities.xml",
    "mpibind-cts1-quartz-smt1.xml",
    "mpibind-knl-snc4-flat-hwloc1.xml",
    "nvidia-dgx-gb10.xml",
}


@pytest.fixture(scope="module")
def machines(shared_dir):
    return shared_dir / "machines"


def kinds(machine, kind):
    """Lanes of each link of a kind."""
    return [link.count for link in machine.links if link.kind is kind]


# ---- hwloc


def test_every_export_of_hwloc_is_read_or_refused_for_a_reason(machines):
    refused = set()
    files = sorted((machines / "hwloc-xml").glob("*.xml"))
    assert len(files) > 20
    for path in files:
        try:
            read_topology(path)
        except InputError as error:
            assert "no GPU in this file" in str(error)
            refused.add(path.name)
    assert refused == HWLOC_WITHOUT_GPUS


@pytest.mark.parametrize("name", ["mpibind-coral-lassen.xml", "mpibind-coral-lassen-hwloc1.xml"])
def test_one_machine_in_two_versions_of_hwloc(machines, name):
    machine = read_topology(machines / "hwloc-xml" / name)
    assert [(d.index, d.pci_bus_id, d.numa_node) for d in machine.devices] == [
        (0, "0004:04:00.0", 0),
        (1, "0004:05:00.0", 0),
        (2, "0035:03:00.0", 8),
        (3, "0035:04:00.0", 8),
    ]
    assert len(machine.nics) == 4


def test_partitions_of_one_gpu_are_devices(machines):
    for mode, count in (("SPX", 4), ("TPX", 12), ("CPX", 24)):
        machine = read_topology(machines / f"hwloc-xml/fluxcore-tuo.{mode}.xml")
        assert len(machine.devices) == count
    assert all(d.vendor is Vendor.AMD for d in machine.devices)
    assert all(d.pci_bus_id is None for d in machine.devices)


def test_four_gpus_fully_joined_by_nvlink(machines):
    machine = read_topology(machines / "hwloc-xml/fluxcore-ipa20.xml")
    assert kinds(machine, LinkKind.NVLINK) == [6] * 6
    assert [d.numa_node for d in machine.devices] == [3, 1, 7, 5]


# ---- NCCL and RCCL


def test_every_file_of_nccl_is_read_or_refused_for_a_reason(machines):
    index = (machines / "INDEX.tsv").read_text().splitlines()
    stated = {r[0]: int(r[3]) for r in (line.split("\t") for line in index) if r[1] == "nccl-xml"}
    assert stated
    refused = []
    for name, gpus in stated.items():
        try:
            assert len(read_topology(machines / name).devices) == gpus, name
        except InputError:
            refused.append(Path(name).name)
    assert refused == ["aws-g5.48xl-topo.xml"]


def test_bonds_and_hives_of_rccl(machines):
    machine = read_topology(machines / "nccl-xml/rccl-topo_8p_90a.xml")
    assert kinds(machine, LinkKind.XGMI) == [1] * 12  # RCCL counts one even inside of a package
    assert all(d.forwards for d in machine.devices)
    machine = read_topology(machines / "nccl-xml/rccl-topo_8p_4nics.xml")
    classes = Counter(r.path_class for r in machine.routes if r.target.startswith("gpu"))
    assert classes[PathClass.NVL] == 2 * 4 * 3  # two complete hives of four
    assert len(machine.nics) == 4


def test_switches_under_one_bridge_share_its_uplink(machines):
    machine = read_topology(machines / "nccl-xml/azure-ndv4-topo.xml")
    first, second, other = (machine.devices[i].id for i in (0, 1, 2))
    assert machine.route_of_pair[first, second].path_class is PathClass.PIX
    assert machine.route_of_pair[first, other].path_class is PathClass.SYS


# ---- nvidia-smi -q

INVENTORIES = {  # name, MiB, generation now and at best, width now and at best, bus ids, report
    "qx-a100.xml": ("NVIDIA A100-SXM4-40GB", 40960, (4, 4), (16, 16), ["0000:06:00.0"], ()),
    "qx-b200.xml": (
        "NVIDIA B200", 183359, (5, 5), (16, 16),
        [f"0000:{b}:00.0" for b in ("8f", "90", "96", "97", "c4", "c5", "cb", "cc")], (),
    ),
    "qx-gb300.xml": (
        "NVIDIA GB300", 284208, (6, 6), (16, 16),
        ["0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0"], (),
    ),
    "qx-l40s.xml": (
        "NVIDIA L40S", 46068, (4, 4), (8, 16), ["0000:30:00.0"],
        ("GPU0 has a PCIe link of x8, x16 is possible",),
    ),
    "qx-t4.xml": (
        "Tesla T4", 15360, (3, 3), (8, 16), ["0000:00:1e.0"],
        ("GPU0 has a PCIe link of x8, x16 is possible",),
    ),
}  # fmt: skip


def test_inventories(machines):
    folder = machines / "nvidia-smi-q-xml"
    assert {p.name for p in folder.iterdir()} == set(INVENTORIES)
    for file, (product, mib, generation, width, buses, report) in INVENTORIES.items():
        facts = facts_of(folder / file)
        assert [d.pci_bus_id for d in facts.devices] == buses
        assert [d.index for d in facts.devices] == list(range(len(buses)))
        for d in facts.devices:
            assert (d.name, d.memory_bytes) == (product, mib * MIB)
            assert (pcie(d).generation, pcie(d).max_generation) == generation
            assert (pcie(d).width, pcie(d).max_width) == width
        assert len({d.uuid for d in facts.devices}) == len(buses)
        assert facts.report == report


def test_text_of_a_part_of_the_inventory(machines):
    """`nvidia-smi -q -d PAGE_RETIREMENT` on Azure: nothing but PCI bus ids."""
    facts = facts_of(machines / "nvidia-smi-q/azure-nvsmi8.txt")
    assert [d.pci_bus_id for d in facts.devices] == [f"000{i}:00:00.0" for i in range(1, 9)]
    assert [d.index for d in facts.devices] == list(range(8))
    assert "only part of the inventory was printed (-d)" in facts.report[0]


def test_csv_of_a_query(machines):
    facts = facts_of(machines / "nvidia-smi-query-csv/4gpu-a4000.csv")
    assert [(d.index, d.name, d.memory_bytes) for d in facts.devices] == [
        (i, "NVIDIA RTX A4000", 16376 * MIB) for i in range(4)
    ]
    assert "known by number only" in facts.report[0]


def test_an_inventory_beside_a_matrix(machines):
    sources = ("nvidia-smi-topo/1gpu-new.txt", "nvidia-smi-q-xml/qx-l40s.xml")
    (device,) = read_topologies([machines / name for name in sources]).devices
    assert (device.name, device.pci_bus_id) == ("NVIDIA L40S", "0000:30:00.0")
    assert (pcie(device).width, pcie(device).max_width) == (8, 16)


def test_a_part_of_the_gpus_is_joined_by_their_numbers(machines):
    """A cut `nvlink -s`: seven of eight GPUs, some lanes inactive."""
    sources = ("nvidia-smi-topo/8gpu-dgx1v-4nic.txt", "nvidia-smi-nvlink/8gpu-v100-inactive.txt")
    machine = read_topologies([machines / name for name in sources])
    assert len(machine.devices) == 8
    assert machine.devices[3].uuid == "GPU-50b1bd2e-77ee-2731-fd2f-17c44103b7b9"
    assert machine.devices[7].uuid is None
    assert any("7 of 8 GPUs are joined by index" in line for line in machine.report)
    assert any("2 of 6 NVLinks of GPU 3 are inactive" in line for line in machine.report)


# ---- benchmarks


def test_nvbandwidth(machines):
    facts = facts_of(machines / "nvbandwidth/8gpu-a100-d2d-write-ce.txt")
    (write,) = facts.numbers
    assert write.values[6, 0] == pytest.approx(274.89e9)
    assert write.values[0, 6] == pytest.approx(276.55e9)
    assert np.isnan(np.diag(write.values)).all()  # 0.00 in that version
    assert len(peers(facts)) == 56
    assert all(peers(facts).values())
    # Its first matrix was edited by the authors of a test: three columns, one GPU listed.
    with pytest.raises(InputError, match="2 rows and 3 columns, but the list of devices has 1 GPU"):
        facts_of(machines / "nvbandwidth/1gpu-gh200.txt")
    with pytest.raises(InputError, match="nested too deeply"):
        parse_topology_text('{"nvbandwidth": ' + "[" * 200_000, Path("run.json"))


def test_no_peer_access_is_known_and_no_number_invented(machines):
    facts = facts_of(machines / "rocm-bandwidth-test/2gpu-mi50-noP2P.txt")
    assert [(d.pci_bus_id, d.numa_node) for d in facts.devices] == [
        ("0000:19:00.0", 0),
        ("0000:67:00.0", 0),
    ]
    assert dict(peers(facts)) == {(0, 1): False, (1, 0): False}
    (uni,) = facts.numbers  # the other direction has numbers of host copies only
    assert isnan(uni.values[0, 1])
    assert isnan(uni.values[1, 0])
    # The program counts a copied byte as read and written.
    assert uni.values[0, 0] == pytest.approx(696.717e9 / 2)
    # Row is source: the CPU writes 13.750 GB/s into GPU 0, which sends 14.280 back.
    host = {row_of(facts)[h.device]: (h.to_device, h.from_device) for h in facts.host_copies}
    assert host == {
        0: (pytest.approx(13.750e9), pytest.approx(14.280e9)),
        1: (pytest.approx(13.769e9), pytest.approx(14.280e9)),
    }
    assert bonds(facts) == {}


def test_what_rocm_bandwidth_test_tells_of_devices(machines):
    folder = machines / "rocm-bandwidth-test"
    facts = facts_of(folder / "2gpu-7900xtx-noP2P.txt")
    assert {d.name for d in facts.devices} == {"Radeon RX 7900 XTX"}
    assert [d.uuid for d in facts.devices] == [None, None]  # "GPU-XX" twice
    assert [d.pci_bus_id for d in facts.devices] == ["0000:83:00.0", "0000:03:00.0"]
    facts = facts_of(folder / "4gpu-mi100-xgmi-hive.txt")
    assert [d.numa_node for d in facts.devices] == [1, 1, 1, 1]
    assert len(bonds(facts)) == 6
    assert facts.numbers == ()
    facts = facts_of(folder / "4gpu-nps4-distances.txt")  # of empty names
    assert [(d.numa_node, d.pci_bus_id) for d in facts.devices] == [
        (0, "0000:c9:00.0"), (1, "0000:87:00.0"), (2, "0000:49:00.0"), (3, "0000:09:00.0")
    ]  # fmt: skip
    assert len(bonds(facts)) == 6  # distance 15 is xGMI though no link table was printed
    assert all(peers(facts).values())


# ---- AMD and Intel


def test_rocm_smi(machines):
    facts = facts_of(machines / "rocm-smi-topo/2gpu-mi100-pcie-minimal.txt")
    assert [(d.id, d.numa_node) for d in facts.devices] == [("GPU0", None), ("GPU1", None)]
    assert bonds(facts) == {}
    assert any("memory node" in line for line in facts.report)
    files = sorted((machines / "rocm-smi-topo").iterdir())
    assert files
    assert all(facts_of(path).devices for path in files)


def test_amd_smi_and_kfd_agree_on_capacities():
    smi, kfd = (
        parse_topology_text(next(iter(texts_of(name, "MI250X").values())), Path("node.txt"))
        for name in ("amd_smi", "kfd")
    )
    rates = [
        {
            link.ends: link.forward_bytes_per_s
            for link in machine.links
            if link.kind is LinkKind.XGMI and link.ends[1].startswith("gpu")
        }
        for machine in (smi, kfd)
    ]
    assert len(rates[0]) == 12
    assert rates[0] == rates[1]


def test_a_bridge_of_24_xe_links(machines):
    facts = facts_of(machines / "xpu-smi-topo/2gpu-max1100-xl24.txt")
    assert [(d.id, d.parent, d.cpus) for d in facts.devices] == [
        ("GPU 0/0", None, "0-143"),  # one tile each
        ("GPU 1/0", None, "0-143"),
    ]
    assert {d.vendor for d in facts.devices} == {Vendor.INTEL}
    (link,) = bonds(facts).values()
    assert (link.kind, link.count) == (LinkKind.XELINK, 24)
    assert link.bytes_per_s == pytest.approx(318e9)  # stated by the source of the file


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("rocm-smi-topo/2gpu-mi100-pcie-minimal.txt",
         "Advanced Micro Devices, Inc. [AMD/ATI] Arcturus GL-XL [Instinct MI100]"),
        ("xpu-smi-topo/2gpu-max1100-xl24.txt",
         "Intel Corporation Ponte Vecchio XL (1 Tile) [Data Center GPU Max 1100]"),
    ],
)  # fmt: skip
def test_lspci_settles_the_product(machines, table, name, tmp_path):
    """The command that a fact names has an output that is read, whoever made the GPUs."""
    text = (machines / table).read_text()
    facts = open_facts_of(machine_of(tmp_path, text))
    (open_fact,) = [fact for fact in facts if fact.what == "the product"]
    assert open_fact.settle == "lspci -tv"
    tree = "".join(f"+-[0000:{bus}]-+-00.0-[{bus[0]}1]----00.0  {name}\n" for bus in ("20", "90"))
    facts = open_facts_of(machine_of(tmp_path, text, f"-{tree}"))
    assert not [fact for fact in facts if fact.what == open_fact.what]


def test_published_pastes_of_lspci(shared_dir):
    case = shared_dir / "cases/topology/37-lspci-and-lstopo-text"
    if not case.is_dir():
        pytest.skip("no such cases in ../shared")
    tree = read_topologies([case / "lspci-t.txt"])
    below = {d.pci_bus_id for d in tree.devices}
    assert below >= {"0000:01:00.0", "0000:02:00.0", "0000:63:00.0", "0000:64:00.0"}
    assert "0000:61:00.0" in [c.pci_bus_id for c in tree.components]
    found = findings_of(read_topologies([case / "lspci-vv.txt"]))
    assert [(f.code, f.subject) for f in found if f.code != "reader"] == [("pcie-width", "D0")]


# ---- saved trees


def test_power9_with_gpu_memory_as_numa_nodes(machines):
    machine = read_topology(machines / "hwloc-fsroot/nvidiagpunumanodes.tar.bz2")
    assert machine.name == "c685f8n02"  # as hwloc noted it
    assert machine.origin == "saved sysfs"
    assert {d.vendor for d in machine.devices} == {Vendor.NVIDIA}  # its driver's /proc says so
    # Nodes 250 to 255 are the memories of the GPUs: no CPU is near them.
    assert [d.numa_node for d in machine.devices] == [0, 0, 0, 8, 8, 8]
    assert [d.cpus for d in machine.devices] == ["0-15"] * 3 + ["88-103"] * 3
    assert {c.cpus for c in machine.components if c.kind.value == "numa"} == {"0-87", "88-175"}
    assert machine.route_of_pair["gpu0", "gpu5"].path_class is PathClass.SYS
    assert any("PCI tree is not shown" in line for line in machine.report)
    assert any("a saved tree has none" in line for line in machine.report)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("40intel64-4n10c+pci-conflicts.tar.bz2", "no GPU that its files show"),
        ("nvidia-dgx-gb10.tar.bz2", "the tree has no PCI devices"),
    ],
)
def test_trees_without_gpus_are_refused(machines, name, reason):
    path = machines / "hwloc-fsroot" / name
    with pytest.raises(InputError, match=reason) as caught:
        read_topology(path)
    assert caught.value.hint


def test_cpx_shows_63_of_64_partitions_that_share_the_links_of_their_package(machines):
    machine = read_topology(machines / "kfd-topology/topo-mi300-cpx.txt")
    assert len(machine.devices) == 63
    parents = Counter(d.parent for d in machine.devices)
    assert sorted(parents.values()) == [7, 8, 8, 8, 8, 8, 8, 8]
    report = "\n".join(machine.report)
    assert "0000:e5:00.0 shows 7 partitions where others show 8" in report
    assert {d.name for d in machine.devices} == {"AMD Instinct MI300X"}
    assert [d.pci_bus_id for d in machine.devices[:2]] == ["0000:05:00.0", "0000:05:00.1"]
    assert Counter(d.numa_node for d in machine.devices) == {0: 32, 1: 31}
    links = Counter((x.kind, x.name, x.forward_bytes_per_s.value) for x in machine.links)
    assert links[LinkKind.XGMI, "in the package", 819.2e9] == 63  # stated: weight 13
    assert links[LinkKind.XGMI, "xGMI (MI300)", 64e9] == 28  # one for each two packages: weight 41
    assert "does not state the bandwidth of 28 xGMI links: 64 GB/s assumed" in report
    one = machine.route_of_pair["gpu0", "gpu8"]
    other = machine.route_of_pair["gpu1", "gpu9"]
    assert len(set(one.links) & set(other.links)) == 1  # the link between the two packages
    assert len(machine.route_of_pair["gpu0", "gpu1"].links) == 2
    assert {r.path_class for r in machine.routes} == {PathClass.NVL}


def test_a_tree_that_contradicts_itself(machines):
    machine = read_topology(machines / "kfd-topology/topology-parsing.txt")
    assert [d.pci_bus_id for d in machine.devices] == [None, None]
    report = "\n".join(machine.report)
    assert "several GPUs claim the PCI bus id 0000:19:00.0" in report
    assert "a link listed under node 2 says it starts at node 1" in report
    assert {d.memory_bytes for d in machine.devices} == {17163091968}
    assert kinds(machine, LinkKind.XGMI) == []
