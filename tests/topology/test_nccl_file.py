"""Files for NCCL_TOPO_FILE: what is written is read back by the reader of such files."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import unfolded
from tests.topology.case_files import texts_of
from toposeat.cli.main import main
from toposeat.errors import InputError, UsageError
from toposeat.model.topology import LinkKind, PathClass, Vendor
from toposeat.topology import (
    catalogue_names,
    nccl_xml,
    parse_topology_text,
    read_topologies,
    read_topology,
)

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "machines" / "nccl-xml"
GPUS = (Vendor.NVIDIA, Vendor.AMD)


def machines():
    """Of the catalogue, those of one node whose GPUs NCCL or RCCL can use."""
    found = []
    for name in catalogue_names():
        machine = read_topology(name)
        if len(machine.hosts) == 1 and {d.vendor for d in machine.devices} <= set(GPUS):
            found.append(name)
    return found


def again(machine):
    return parse_topology_text(nccl_xml(machine)[0], Path("topo.xml"))


def bonds(machine):
    """Lanes between GPUs, at switches and at processors, which have other names in a file."""
    kinds = {part.id: part.kind.value for part in machine.components}
    lanes = Counter()
    for link in machine.links:
        ends = sorted(kinds.get(end, end) for end in link.ends)
        of_gpu = any(end.startswith("gpu") for end in link.ends)
        is_fabric = link.kind is LinkKind.XGMI and "numa" in ends  # PCIe to RCCL
        if link.kind in (LinkKind.NVLINK, LinkKind.XGMI, LinkKind.C2C) and of_gpu and not is_fabric:
            lanes[(link.kind.value, *ends)] += link.count
    return lanes


def classes(machine):
    """How near GPUs and NICs are to GPUs; host bridges are not told apart in a file."""
    names = {d.id: d.pci_bus_id for d in machine.devices} | {n.id: n.name for n in machine.nics}
    return {
        (names[a], names[b]): "PHB"
        if route.path_class is PathClass.NODE
        else route.path_class.value
        for (a, b), route in machine.route_of_pair.items()
    }


@pytest.mark.parametrize("name", machines())
def test_machines_of_the_catalogue_come_back(name):
    machine = read_topology(name)
    back = again(machine)
    for mine, other in zip(machine.devices, back.devices, strict=True):
        for member in ("id", "index", "vendor", "pci_bus_id", "numa_node"):
            assert getattr(other, member) == getattr(mine, member), member
    assert bonds(back) == bonds(machine)
    assert [(nic.id, nic.name) for nic in back.nics] == [(n.id, n.name) for n in machine.nics]
    assert [nic.bytes_per_s and nic.bytes_per_s.value for nic in back.nics] == [
        nic.bytes_per_s and nic.bytes_per_s.value for nic in machine.nics
    ]
    assert {part.numa_node: part.cpus for part in back.components if part.cpus} == {
        part.numa_node: part.cpus
        for part in machine.components
        if part.cpus and part.numa_node in {d.numa_node for d in machine.devices}
    }


# What files cannot hold, each said when it is written: (before, after) of pairs of GPU and NIC.
LOST = {
    # switches in a row that are drawn as one
    **{
        name: {("PXB", "PIX")}
        for name in ("dgx-a100", "hgx-h100", "hgx-h200", "hgx-b200", "hgx-b300")
    },
    # NICs behind a GPU's own port, and GPUs at processors that files join in pairs
    "mi250x-8": {("PIX", "PHB"), ("PXB", "PHB")},
    "mi300a-4": {("PHB", "SYS")},
}


@pytest.mark.parametrize("name", machines())
def test_distances_come_back(name):
    machine = read_topology(name)
    before, after = classes(machine), classes(again(machine))
    assert before.keys() == after.keys()
    changed = {(before[pair], after[pair]) for pair in before if before[pair] != after[pair]}
    assert changed == LOST.get(name, set())
    gpus = {device.pci_bus_id for device in machine.devices}
    assert all(before[pair] == after[pair] for pair in before if set(pair) <= gpus)


def stops_of(root, used):
    """What NCCL stops at if its ranks use these GPUs, by bus id, and every NIC of the file.

    It fills in processors above used GPUs from the live node, drops what is below neither a used
    GPU nor a NIC, and then needs of each processor that is left what `ncclTopoAddCpu` reads.
    """
    stops = []
    for cpu in root.findall("cpu"):
        gpus = {pci.get("busid") for pci in cpu.iter("pci") if is_gpu(pci)}
        if gpus & used or not list(cpu.iter("net")):
            continue
        needed = ["numaid", "arch"]
        if cpu.get("arch") == "x86_64":
            needed.append("vendor")
            if cpu.get("vendor") in ("GenuineIntel", "AuthenticAMD"):
                needed += ["familyid", "modelid"]
        stops += [f"{name} of cpu {cpu.get('numaid')}" for name in needed if not cpu.get(name)]
    return stops


def is_gpu(pci):
    return pci.get("class", "").startswith(("0x03", "0x038"))


def recorded():
    return sorted(RECORDED.glob("*.xml")) if RECORDED.is_dir() else []


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_recorded_files_come_back(path):
    try:
        first = read_topology(path)
    except InputError:
        pytest.skip("hints without a GPU")
    back = again(first)
    assert back.devices == first.devices
    assert back.nics == first.nics
    assert back.metadata == first.metadata
    assert back.tells == first.tells
    assert sorted(back.components, key=lambda c: c.id) == sorted(
        first.components, key=lambda c: c.id
    )
    # What an assumed rate between sockets rests on is the fastest function, which may be in a chain
    # that is drawn as one link.
    mine, other = ({x.id: x for x in each.links} for each in (first, back))
    assert mine.keys() == other.keys()
    assert [id for id in mine if mine[id] != other[id] and not id.startswith("smp:")] == []


@pytest.mark.parametrize("source", [*machines(), *recorded()], ids=lambda each: Path(each).stem)
def test_nccl_stops_at_no_processor_whose_gpus_are_unused(source):
    """With the GPUs of each processor in turn, or of none that the file names."""
    try:
        text, _ = nccl_xml(read_topology(source))
    except InputError:
        pytest.skip("hints without a GPU")
    root = ET.fromstring(text)
    for cpu in root.findall("cpu"):
        assert cpu.get("arch") in ("x86_64", "arm64", "ppc64")
        assert cpu.get("vendor") or cpu.get("arch") != "x86_64"
        used = {pci.get("busid") for pci in cpu.iter("pci") if is_gpu(pci)}
        assert stops_of(root, used) == []
    assert stops_of(root, set()) == []
    assert len(list(root.iter())) <= 256  # as many as NCCL keeps


TWO = texts_of("nccl_xml", "a processor that is not named")["node.xml"]


def test_a_processor_that_the_file_left_unnamed_gets_the_words_of_the_others():
    assert stops_of(ET.fromstring(TWO), {"0000:01:00.0"}) == ["arch of cpu 1"]
    text, notes = nccl_xml(parse_topology_text(TWO, Path("topo.xml")))
    told = [
        tuple(cpu.get(name) for name in ("arch", "vendor", "familyid", "modelid"))
        for cpu in ET.fromstring(text).findall("cpu")
    ]
    assert told == [("x86_64", "AuthenticAMD", "25", "17")] * 2
    assert not any("processor" in note for note in notes)


@pytest.mark.parametrize(
    ("lscpu", "told", "is_noted"),
    [
        ("", ("GenuineIntel", "6", "143"), True),
        ("Architecture: x86_64\nVendor ID: AuthenticAMD\n", ("AuthenticAMD", "25", "17"), True),
        ("Architecture: x86_64\nVendor ID: GenuineIntel\nModel name: Intel(R) Xeon(R) Gold 6530\n"
         "CPU family: 6\nModel: 207\n", ("GenuineIntel", "6", "207"), False),
    ],
)  # fmt: skip
def test_what_is_untold_of_a_processor_is_made_up_and_said(lscpu, told, is_noted, tmp_path):
    paths = [tmp_path / "topo.xml", tmp_path / "lscpu.txt"]
    bare = re.sub(r' (arch|vendor|familyid|modelid)="[^"]*"(?=[^<]*>\s*<pci)', "", TWO)
    paths[0].write_text(bare)
    paths[1].write_text(lscpu)
    text, notes = nccl_xml(read_topologies(paths[: 2 if lscpu else 1]))
    for cpu in ET.fromstring(text).findall("cpu"):
        assert tuple(map(cpu.get, ("vendor", "familyid", "modelid"))) == told
    assert any("processor's model is not known" in note for note in notes) == is_noted


def test_recorded_files_are_there_where_shared_is():
    if not RECORDED.parent.is_dir():
        pytest.skip("no ../shared beside the checkout")
    assert len(recorded()) > 30


def test_elements_are_those_that_nccl_reads():
    """NCCL's reader knows these elements, and stops without a width or speed of a PCI function."""
    text, notes = nccl_xml(read_topology("hgx-h100"))
    root = ET.fromstring(text)
    assert root.attrib == {"version": "1"}
    words = "system cpu pci gpu nvlink nic net"
    assert {each.tag for each in root.iter()} == set(words.split())
    functions = list(root.iter("pci"))
    speeds = {"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"}
    assert all(each.get("link_speed") in {f"{s} GT/s PCIe" for s in speeds} for each in functions)
    assert all(int(each.get("link_width", "0")) in (1, 2, 4, 8, 16) for each in functions)
    bridges = [each for each in functions if each.get("class") == "0x060400"]
    for inside in (root.findall("cpu"), bridges):  # NCCL keeps functions below one by bus id
        for each in inside:
            ids = [below.get("busid") for below in each.findall("pci")]
            assert ids == sorted(ids, key=str)
    ports = list(root.iter("nvlink"))
    assert {(port.get("count"), port.get("tclass")) for port in ports} == {("18", "0x068000")}
    cpu = root.findall("cpu")[0]
    assert cpu.get("vendor") == "GenuineIntel"
    assert cpu.get("arch") == "x86_64"
    assert {net.get("speed") for net in root.iter("net")} == {"400000"}
    assert any("is inferred from its socket link" in note for note in notes)
    assert any("NODE becomes PHB" in note for note in notes)


def test_links_of_power_and_grace_to_their_processors():
    power = ET.fromstring(nccl_xml(read_topology("power9-4"))[0])
    assert [x.get("count") for x in power.iter("nvlink") if x.get("tclass") == "0x068001"] == [
        "3"
    ] * 4
    assert {cpu.get("arch") for cpu in power.findall("cpu")} == {"ppc64"}
    grace = ET.fromstring(nccl_xml(read_topology("alps-gh200-4"))[0])
    assert all(int(x.get("bw", 0)) * int(x.get("count", 0)) == 450_000 for x in grace.iter("c2c"))
    assert len(list(grace.iter("c2c"))) == 4


def test_rccl_has_its_own_version_and_elements():
    root = ET.fromstring(nccl_xml(read_topology("mi300x-8"))[0])
    assert root.get("version") == "2"
    assert {gpu.get("gcn") for gpu in root.iter("gpu")} == {"942"}
    assert Counter(x.get("count") for x in root.iter("xgmi")) == {"1": 56}


def test_gpus_whose_links_are_untold_are_left_to_nvml():
    """An empty <gpu> would say that there are none."""
    azure = RECORDED / "azure-ndv4-topo.xml"
    if not azure.exists():
        pytest.skip("no ../shared beside the checkout")
    text, notes = nccl_xml(read_topology(azure))
    assert "<gpu" not in text
    assert any("links between GPUs are not known" in note for note in notes)


def test_bus_ids_are_needed():
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n"
    with pytest.raises(UsageError, match="PCI bus id") as error:
        nccl_xml(parse_topology_text(matrix, Path("topo.txt")))
    assert error.value.hint


@pytest.mark.parametrize(
    ("name", "cause"), [("gb200-nvl72", "18 hosts"), ("aurora-12", "neither of NVIDIA nor of AMD")]
)
def test_what_has_no_such_file(name, cause, capsys):
    assert main(["discover", "-t", name, "--format", "nccl"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert cause in err
    assert "hint:" in err


def test_the_command_writes_the_file(tmp_path, capsys):
    path = tmp_path / "topo.xml"
    command = ["discover", "-t", "dgx-1v", "--format", "nccl", "-o", str(path)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Next: export NCCL_TOPO_FILE={path}" in unfolded(err)
    assert "Note: rates, latencies" in err
    assert main(command) == 2  # is there already
    written = path.read_text()
    assert main([*command, "-f", "--json"]) == 0
    assert path.read_text() == written
    assert capsys.readouterr().out.startswith('{"schema"')
    assert main(["discover", "-t", "dgx-1v", "--format", "nccl"]) == 0
    assert capsys.readouterr().out == path.read_text()
    assert main(["map", "ring:8", "-t", str(path)]) == 0
