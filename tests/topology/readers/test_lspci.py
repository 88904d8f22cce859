"""lspci: trees with and without names, capabilities, lists; alone and beside other sources."""

import re
from collections.abc import Callable
from functools import partial

import pytest

from tests.topology.readers.recorded import machine_of
from toposeat.errors import InputError
from toposeat.model.topology import ComponentKind, PathClass, PcieState, Topology
from toposeat.topology import facts_of, findings_of, read_topologies

Read = Callable[..., Topology]
CARD = "NVIDIA Corporation GA102 [GeForce RTX 3090]"
TREE = rf"""-+-[0000:80]-+-00.0  Advanced Micro Devices, Inc. [AMD] Starship Root Complex
 |           +-01.1-[81-88]----00.0-[82-88]--+-00.0-[83]----00.0  {CARD}
 |           |                               +-04.0-[84]--+-00.0  {CARD}
 |           |                               |            \-00.1  {CARD[:25]} Audio Controller
 |           |                               \-08.0-[85]--+-00.0  Mellanox MT28908 [ConnectX-6]
 |           |                                            \-00.1  Mellanox MT28908 [ConnectX-6]
 |           \-03.1-[89]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Cezanne
 \-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Starship Root Complex
             +-01.1-[01-03]----00.0-[02-03]----00.0-[03]----00.0  {CARD}
             \-05.0-[04-05]----00.0-[05]----00.0  ASPEED Technology, Inc. ASPEED Graphics
"""
LIST = f"""\
00:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Starship GPP Bridge [1022:1483]
\tNUMA node: 0
\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-

01:00.0 VGA compatible controller [0300]: {CARD} [10de:2204] (rev a1) (prog-if 00 [VGA controller])
\tNUMA node: 0
\tIOMMU group: 30
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x4 (downgraded)
\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s
01:00.1 Audio device [0403]: NVIDIA Corporation GA102 High Definition Audio Controller [10de:1aef]
80:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Starship GPP Bridge [1022:1483]
\tNUMA node: 1
\tBus: primary=80, secondary=81, subordinate=83, sec-latency=0
81:00.0 VGA compatible controller [0300]: {CARD} [10de:2204] (rev a1)
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16
\t\tLnkSta:\tSpeed 16GT/s, Width x16
83:00.0 VGA compatible controller [0300]: ASPEED Technology, Inc. ASPEED Graphics [1a03:2000]
"""
MATRIX = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tSYS\t0-15\t0
GPU1\tSYS\t X \tPIX\t16-31\t1
GPU2\tSYS\tPIX\t X \t16-31\t1
"""


@pytest.fixture
def read(tmp_path):
    return partial(machine_of, tmp_path)


def classes(machine):
    ids = [device.id for device in machine.devices]
    return {
        f"{i}{j}": machine.route_of_pair[ids[i], ids[j]].path_class.value
        for i in range(len(ids))
        for j in range(i + 1, len(ids))
    }


def test_a_tree_with_names_is_a_machine(read):
    found = read(TREE)
    assert [d.pci_bus_id for d in found.devices] == ["0000:03:00.0", "0000:83:00.0", "0000:84:00.0"]
    assert {d.name for d in found.devices} == {"NVIDIA GeForce RTX 3090"}
    assert classes(found) == {"01": "NODE", "02": "NODE", "12": "PIX"}
    assert [f.code for f in findings_of(found) if f.code != "reader"] == ["links-untold"]


def test_capabilities_tell_widths_nodes_and_access_control(read):
    found = read(LIST)
    told = PcieState(generation=1, width=4, max_generation=4, max_width=16)
    assert [d.pcie for d in found.devices] == [
        told, PcieState(generation=4, width=16, max_generation=4, max_width=16)
    ]  # fmt: skip
    assert [d.numa_node for d in found.devices] == [0, 1]
    assert classes(found) == {"01": "SYS"}
    codes = [(f.code, f.subject) for f in findings_of(found)]
    assert ("pcie-width", "D0") in codes
    assert any("ACSCtl ReqRedir+) of 0000:00:01.1" in line for line in found.report)
    link = next(x for x in found.links if x.ends[0] == "gpu0")
    assert link.forward_bytes_per_s.value == 25e9 / 4


def test_without_root_capabilities_are_untold(read):
    lines = [line for line in LIST.splitlines(keepends=True) if "Lnk" not in line]
    found = read("".join(lines).replace("\t\tACSCtl", "\tCapabilities: <access denied>\n\t\t#"))
    assert [d.pcie for d in found.devices] == [None, None]
    assert any("to root alone" in line for line in found.report)


def test_beside_a_matrix_the_tree_is_that_of_lspci(read):
    """GPUs of the matrix are in the order of bus ids, and tell the nodes of the host bridges."""
    bare = re.sub(r".*(?:03\.1|05\.0|08\.0)-.*|  [A-Z].*", "", TREE)
    for tree in (TREE, bare):
        found = read(MATRIX, tree)
        switches = [c for c in found.components if c.kind is ComponentKind.SWITCH]
        assert [c.pci_bus_id for c in switches] == ["0000:81:00.0"]
        nodes = {c.numa_node: c.cpus for c in found.components if c.kind is ComponentKind.NUMA}
        assert nodes == {0: "0-15", 1: "16-31"}
        assert classes(found) == {"01": "SYS", "02": "SYS", "12": "PIX"}


def test_a_list_without_bridges_names_the_gpus_of_a_matrix(read):
    listed = "".join(f"{bus}:00.0 3D controller: {CARD} (rev a1)\n" for bus in ("03", "83", "84"))
    with pytest.raises(InputError, match="says too little"):
        read(listed)
    found = read(MATRIX, listed)
    assert [d.pci_bus_id for d in found.devices] == ["0000:03:00.0", "0000:83:00.0", "0000:84:00.0"]
    assert found.route_of_pair["gpu0", "gpu1"].path_class is PathClass.SYS


def test_more_gpus_than_a_job_sees(read):
    pair = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n"
    found = read(pair, TREE)
    assert len(found.devices) == 2
    assert any("lspci lists 3 GPUs, and other sources 2" in line for line in found.report)
    query = "index, name, pci.bus_id\n0, L4, 00000000:83:00.0\n1, L4, 00000000:84:00.0\n"
    found = read(pair, query, TREE)
    assert [d.pci_bus_id for d in found.devices] == ["0000:83:00.0", "0000:84:00.0"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2941] (rev a1)", "GB200"),
        ("01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)", "H100 SXM"),
        ("01:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram"
         " [Instinct MI300X]", "AMD Instinct MI300X"),
        ("01:00.0 Display controller: Intel Corporation Ponte Vecchio XT"
         " [Data Center GPU Max 1550]", "Intel Data Center GPU Max 1550"),
    ],
)  # fmt: skip
def test_names(read, line, name):
    (device,) = read(f"{line}\n").devices
    assert name in device.name


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("rocm-smi-topo/2gpu-mi100-pcie-minimal.txt",
         "Advanced Micro Devices, Inc. [AMD/ATI] Arcturus GL-XL [Instinct MI100]"),
        ("xpu-smi-topo/2gpu-max1100-xl24.txt",
         "Intel Corporation Ponte Vecchio XL (1 Tile) [Data Center GPU Max 1100]"),
    ],
)  # fmt: skip
def test_it_settles_the_product(read, shared_dir, table, name):
    """The command that a fact names has an output that is read, whoever made the GPUs."""
    text = (shared_dir / "machines" / table).read_text()
    (open_fact,) = [fact for fact in facts_of(read(text)) if fact.what == "the product"]
    assert open_fact.settle == "lspci -tv"
    tree = "".join(f"+-[0000:{bus}]-+-00.0-[{bus[0]}1]----00.0  {name}\n" for bus in ("20", "90"))
    assert not [f for f in facts_of(read(text, f"-{tree}")) if f.what == open_fact.what]


@pytest.mark.parametrize(
    "text",
    [
        "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 770\n00:1c.0 PCI bridge:"
        " Intel Corporation\n\tBus: primary=00, secondary=01\n",
        "05:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family\n",
        "01:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)\n",
    ],
)
def test_what_is_no_gpu(read, text):
    with pytest.raises(InputError, match="no GPU among"):
        read(text)


def test_published_pastes(shared_dir):
    case = shared_dir / "cases/topology/37-lspci-and-lstopo-text"
    if not case.is_dir():
        pytest.skip("no such cases in ../shared")
    tree = read_topologies([case / "lspci-t.txt"])
    below = {d.pci_bus_id for d in tree.devices}
    assert below >= {"0000:01:00.0", "0000:02:00.0", "0000:63:00.0", "0000:64:00.0"}
    assert "0000:61:00.0" in [c.pci_bus_id for c in tree.components]
    found = findings_of(read_topologies([case / "lspci-vv.txt"]))
    assert [(f.code, f.subject) for f in found if f.code != "reader"] == [("pcie-width", "D0")]
