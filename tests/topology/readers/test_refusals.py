"""One damage after the other in every format: each refusal names file, line, cause and a hint.

Damage is what a number out of bounds, a lost row or two statements against each other look like.
"""

import pytest

from tests.fuzz.target import SEEDS
from tests.topology.case_files import texts_of
from tests.topology.networks.test_damage import SAMPLES
from toposeat.cli.main import main
from toposeat.errors import InputError
from toposeat.model.files import encode_json
from toposeat.profile import read_traffic
from toposeat.topology import read_network, read_topology
from toposeat.topology.formats import FORMATS, format_of
from toposeat.topology.readers.file_text import read_file
from toposeat.topology.topology_file import TOPOLOGY_SCHEMA

UUID_1 = "GPU-aaaaaaaa-0000-0000-0000-000000000002"
CASES = {  # by file and title; others are seeds of the fuzzing
    "lscpu": ("layout", "nodes of a socket are joined on its die"),
    "lspci": ("lspci", "a device by its number"),
    "rocm-smi": ("rocm_smi", "MI250X"),
    "amd-smi": ("amd_smi", "MI250X"),
    "amd-smi.json": ("amd_smi", "three GCDs in JSON"),
    "kfd": ("kfd", "MI300X"),
    "xpu-smi": ("xpu_smi", "stacks of Max 1550"),
    "nccl.xml": ("nccl_xml", "two GPUs"),
    "hwloc2.xml": ("hwloc_xml", "three GPUs"),
}
NETWORKS = {name: data.decode() for name, data in SAMPLES.items()}
TRAFFIC = {
    "pairs.csv": "# ranks=4\nsource,target,bytes,messages\n0,1,5,2\n2,0,7,1\n",
    "matrix.csv": "0,5,1e3\n7,0,0\n1,2,0\n",
    "run.0.prof": "# POINT TO POINT\nE\t0\t1\t800 bytes\t8 msgs sent\t0,8\n",
    "rank0.json": '{"schemaVersion": 1,\n "distributedInfo":\n  {"rank": 0, "world_size": 2},\n'
    ' "traceEvents": [\n]}\n',
}

# What is replaced (its first occurrence) by what, words of the cause, and how many lines below the
# damage is the one that is named: what is missing is missed further on. None: the cause says where.
Damage = tuple[str, str, str, int | None]
DAMAGE = {
    "nvbandwidth.txt": (
        ("24.61", "1000000", "not within", 0),
        ("19.71", "-19.71", "where a number", 0),
        ("19.71", "nan", "add up to", 3),
        (" 1     18.02       N/A\n", "", "add up to", 1),
        ("19.71", "91.71", "add up to 109.73, not to the 37.73 stated", 3),
        ("(GB/s)", "(MB/s)", "bandwidths in MB/s: unknown unit", 0),
        ("Device 1: NV", "Process 1 (node7): device 1: NV", "several hosts", 0),
    ),
    "nvbandwidth.json": (
        ("19.71", "1000000", "device_to_device_memcpy_read_ce: the bandwidth of", None),
        ('"19.71"', '"-19.71"', "found '-19.71'", None),
        ('"19.71"', '"1_971"', "found '1_971'", None),
        ('"19.71"', "true", "got `bool` - at", None),
        ("37.73", "39.73", "add up to 37.73, not to the 39.73 stated", None),
        ("37.73", "9" * 400, "is out of range", None),
        ("(GB/s)", "(GiB/s)", "bandwidths in GiB/s: unknown unit", None),
        ('["18.02", "N/A"]', '["18.02"]', "rows of different lengths", None),
        ('"GPU Device list": ["0:', '"GPU Device list": ["5:', "has gaps", 0),
    ),
    "lscpu": (
        ("0-15,64-79\n", "0-15x\n", "not a CPU list", 0),
    ),
    "lspci": (
        ("NVIDIA Corporation Device 2330", "ASPEED Graphics", "no GPU among", 0),
    ),
    "rocm-smi": (
        ("0            15 ", "0            1e9", "weight of GPU0 to GPU1: expected a number", 0),
        ("0            15 ", "0            16 ", "asymmetric", 1),
        ("XGMI         XGMI", "7            XGMI", "unknown", 0),
        ("GPU3   XGMI", "GPU2   XGMI", "row GPU2 appears twice", 0),
        ("GPU4   30           30", "GPU4   30", "7 of 8 cells", 0),
        ("GPU5   XGMI", "GPU5   HYPER", "between GPU5 and GPU0, but the other way", 0),
        ("GPU[1]\t\t: (Topology) Numa Node: 3", "GPU[0]\t\t: (Topology) Numa Node: 1", "two", 0),
    ),
    "amd-smi": (
        ("0            15 ", "0            16 ", "asymmetric", 1),
        ("0            15 ", "0            -1 ", "expected a number", 0),
        ("50000-200000", "50000to200000", "expected MIN-MAX", 0),
        ("0000:c6:00.0 ENABLED", "0000:c6:00.0 PERHAPS", "expected True or False", 0),
        ("WEIGHT TABLE:\n             0000:c1", "WEIGHT TABLE:\n 0000:aa", "no column", 2),
    ),
    "amd-smi.json": (
        ('"weight": 15', '"weight": -1', "0000:c6:00.0: expected a number, found '-1'", None),
        ('"weight": 15', '"weight": 16', "asymmetric", None),
        ("50000-50000", "50000-99999999999", "MIN-MAX", None),
        ('"gpu": 0', '"gpu": -1', "has no number", None),
        ('"gpu": 0', '"gpu": "0"', "Expected `int`, got `str` - at `$[0].gpu`", None),
        ('"bdf": "0000:c6:00.0"', '"bdf": "0000:77:00.0"', "0000:c1:00.0 does not have a", None),
        ('"bdf": "0000:c1:00.0"', '"bdf": "c1"', "not a PCI bus id: 'c1'", None),
    ),
    "kfd": (
        ("weight 32", "weight -1", "weight", 0),
        ("node_to 1", "node_to x", "node_to", 0),
    ),
    "rocm_bandwidth_test.txt": (
        ("28.311", "1000000", "not within", 0),
        ("28.311", "-28.311", "number", 0),
        ("28.311", "nan", "number", 0),
        ("          3         1         1         1         1\n", "", "row", -1),
        ("48.870", "fast", "'fast' where a number or N/A belongs", 0),
        ("GB/s", "GiB/s", "bandwidths in GiB/s: unknown unit", 0),
        ("c3:0.0", "29:0.0", "appears twice", None),
        ("Device: 1,", "Device: 7,", "not numbered from 0", -1),
        ("Device: 0,  AMD", "Device: 0,  AMD,  GPU-a,  11:0.0,", "CPUs do not come", 0),
    ),
    "p2p_bandwidth_latency.txt": (
        ("21.70", "2170000.0", "not within", 0),
        ("     1  20.90 781.30\n", "", "is truncated", 0),
        ("20.90 781.30", "20.90", "1 of 2 cells", 0),
        ("GB/s", "MB/s", "bandwidth in MB/s: unknown unit", 0),
        ("(P2P Writes) Matrix (us)", "(P2P Writes) Matrix (ms)", "latency in ms", 0),
        ("pciBusID: b1", "pciBusID: 31", "appears twice", None),
        ("Device: 1, NV", "Device: 9, NV", "device 9 is listed", 0),
        ("     1\t     1     1", "     1\t     1     7", "no matrix of 0 and 1", -2),
    ),
    "nvidia_smi.txt": (
        ("CA:00.0", "17:00.0", "bus id 0000:17:00.0 is that of line 7 already", 0),
        ("|   1  NV", "|   0  NV", "index 0 is that of line 7 already", 0),
    ),
    "nvidia_smi_query.csv": (
        ("24576 MiB", "-24576 MiB", "memory", 0),
        (", 4, 16, 16, [N/A]", ", 4, 999, 16, [N/A]", "999", 0),
        ("00000000:B1:00.0", "00000000:31:00.0", "31:00.0", 0),
        (", 4, 4, 16, 16, [N/A]", "", "the row has 5 of 10 cells", 0),
        ("\n1, ", "\n0, ", "index 0 is that of line 2 already", 1),
        ("\n1, ", "\nx, ", "'x' is no index", 1),
        ("00000000:B1:00.0", "B1", "damaged PCI bus id", 0),
    ),
    "nvidia_smi_query.txt": (
        ("Max                       : 4", "Max                       : 400", "400", -12),
        ("24576 MiB", "-1 MiB", "-1", -19),
        ("24576 MiB", "many", "damaged memory size", -19),
        ("Current                   : 8x", "Current : 0x", "PCIe width: '0x'", -17),
        ("GPU-aaaa", "CPU", "damaged UUID", -5),
        (":31:00.0\n", ":B1:00.0\n", "pci bus id 0000:b1:00.0 is that of line 9", 22),
    ),
    "nvidia_smi_query.xml": (
        ("<current_link_width>8x<", "<current_link_width>800x<", "800", -17),
        ("</gpu>", "", "mismatched", 14),
    ),
    "nvlink_s.txt": (
        ("Link 0: 25.781 GB/s", "Link 0: 2578100 GB/s", "damaged", 0),
        ("Link 0: 25.781 GB/s", "Link 0: -25 GB/s", "damaged line", 0),
        ("Link 1: 25.781", "Link 0: 25.781", "stated twice", 0),
        ("GPU 1: Tesla", "GPU 0: Tesla", "different machines", 0),
        ("Link 0: 25.781 GB/s", "Link 0: 206 Gb/s", "damaged line: 'Link 0: 206 Gb/s'", 0),
        ("Link 0: 25.781 GB/s", "Link 0: 0 GB/s", "or impossible", 0),
        ("Link 1: 25.781 GB/s", "Link 99: 1 GB/s", "or impossible", 0),
        ("0002)", "0001)", "GPU 1 has the UUID of GPU 0", 0),
        (f"(UUID: {UUID_1})", "", "damaged heading", 0),
        (f"GPU 1: Tesla V100-SXM2-16GB (UUID: {UUID_1})", "...", "without its GPU above it", 1),
        ("\t Link 2: <inactive>", "  MIG 1g.10gb  Device 0: (UUID: ", "damaged line", 0),
    ),
    "nvidia_smi_L.txt": (("Device  1:", "Device  0:", "stated twice", 0),),
    "topo_m.txt": (
        ("GPU1\tNV4", "GPU1\tNV2", "asymmetric", 0),
        ("GPU1\tNV4\t X \tSYS\tPXB\t0-15,32-47\t0\t\tN/A\n", "", "GPU1", 0),
        ("NV4\tSYS\tPIX\t0-15", "NV400000\tSYS\tPIX\t0-15", "NV400000", 0),
        ("\tGPU0\tGPU1", "\tGPU0\tGPU0", "column GPU0 appears twice", 0),
        ("16-31,48-63", "31-16", "CPU affinity of GPU2 is damaged", 0),
    ),
    "topo_p2p.txt": (
        (" GPU1\tOK\tX\tTNS\t\n", "", "the row of GPU1 is missing", 0),
        ("\tTNS", "\tPIX", "unknown word 'PIX' between GPU1 and GPU2, but the other way", 0),
        ("\tTNS", "\to-k!", "where a state", 0),
    ),
    "xpu-smi": (
        ("MDF      XL16", "MDF      XL8 ", "asymmetric", 2),
        ("GPU 1/1  XL*      XL16     MDF      S        16-31\n", "", "truncated", 0),
        ("0-15", "15-0", "affinity", 0),
        ("GPU 1/1  XL*", "GPU 1/1  XQ4", "unknown word 'XQ4'", 0),
        ("GPU 0/1  MDF", "GPU 0/0  MDF", "has its S in the columns of GPU 0/1", 0),
    ),
    "nccl.xml": (
        ('count="4"', 'count="-4"', "count", 0),
        ('numaid="0"', 'numaid="x"', "numaid", 0),
        ('busid="0000:0f:00.0"', 'busid="0000:07:00.0"', "twice", 0),
        ("</system>", "", "bad XML", 1),
        ("<system", "<!DOCTYPE s [<!ENTITY a 'b'>]><system", "entity", 0),
        ('busid="0000:07:00.0"', 'busid="zz"', "not a PCI bus id", 0),
        ('class="0x020700"', 'class="netz"', "hexadecimal", 0),
        ('link_width="8"', 'link_width="-8"', "expected 0 to 32", 0),
    ),
    "hwloc3.xml": (
        ('pci_link_speed="31.507692"', 'pci_link_speed="-1"', "speed", 0),
        ("0000:04:00.0", "0000:03:00.0", "two GPUs have", 0),
    ),
    "hwloc2.xml": (
        ('pci_busid="0000:03:00.0"', 'pci_busid="3"', "not a PCI bus id", 0),
        ('cpuset="0x0000ff00"', 'cpuset="0xzz"', "is no mask", 0),
        ('nbobjs="3"', 'nbobjs="4"', "a distance matrix of 4 objects names 3", 0),
        ("50000 0", "50000 x", "not only numbers", -3),
        ("50000 0", "50000", "has 8 values", -3),
        # found by fuzzing: the encoding of a second declaration was looked up
        ("<object", '<?xml version="1.0" encoding="UTF-9"?><object', "bad XML", 0),
    ),
    "machine.json": (
        ('"index": 1', '"index": -1', "index", 0),
    ),
}  # fmt: skip


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def machine_text(name):
    if name == "machine.json":
        return encode_json(read_topology("minsky-4"), schema=TOPOLOGY_SCHEMA)
    if name in CASES:
        *_, text = texts_of(*CASES[name]).values()
        return text
    return (SEEDS / name).read_text()


def damaged(text, damage):
    """The damaged text, and how the line is to be named."""
    old, new, _, further = damage
    assert old in text, old
    line = "" if further is None else f"{text.count(chr(10), 0, text.index(old)) + 1 + further}:"
    return text.replace(old, new, 1), line


def check(error, path, line, words):
    assert str(error).startswith(f"{path}:{line} "), f"{error}, not line {line}"
    assert words in error.message
    assert error.hint
    assert "\n" not in str(error) + error.hint


MACHINE_CASES = [(name, damage) for name, each in DAMAGE.items() for damage in each]


def _short(value):
    return value if isinstance(value, str) else str(value)[:40]


@pytest.mark.parametrize(("name", "damage"), MACHINE_CASES, ids=_short)
def test_machines(name, damage, tmp_path):
    text, line = damaged(machine_text(name), damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    check(caught.value, path, line, damage[2])


NETWORK_DAMAGE = {
    "topology.conf": (
        ("SwitchName=s2 Nodes=c[5-6]", "SwitchName=s2 Nodes=c[6-5]", "c[6-5]", 0),
        ("SwitchName=s2", "SwitchName=s1", "s1", 0),
    ),
    "blocks.conf": (("BlockSizes=4,8", "BlockSizes=-4", "block sizes are", None),),
    "topology.yaml": (
        ("[2, 4]", "[-2, 4]", "block sizes are", None),
        ("n[1-2]", "n[1-2]\x07", "not allowed", 0),
    ),
    "fabric": (('[2] "S-3"[1]', '[2] "T-4"[1]', "T-4 is not described", 0),),
    "ports": (("SW 2 3 0x3", "SW 2 3 ", "unknown line", 0),),
}  # fmt: skip
TRAFFIC_DAMAGE = {
    "pairs.csv": (
        ("ranks=4", "ranks=2", "need 3", 0),
        ("2,0,7,1", "2,0,-7,1", "-7", 0),
        ("2,0,7,1", "2,0,7", "", 0),
        ("2,0,7,1", "2,0,x,1", "is no line", 0),
    ),
    "matrix.csv": (("7,0,0", "7,0", "", 0), ("1e3", "nan", "", 0), ("1e3", "-1e3", "", 0)),
    "run.0.prof": (("800 bytes", "-800 bytes", "", 0),),
    "rank0.json": (('"rank": 0', '"rank": 2', "rank 2 of 2", None),),
}  # fmt: skip
OTHER_CASES = [
    (name, damage)
    for table in (NETWORK_DAMAGE, TRAFFIC_DAMAGE)
    for name, each in table.items()
    for damage in each
]


@pytest.mark.parametrize(("name", "damage"), OTHER_CASES, ids=_short)
def test_networks_and_traffic(name, damage, tmp_path):
    texts, read = (NETWORKS, read_network) if name in NETWORKS else (TRAFFIC, read_traffic)
    text, line = damaged(texts[name], damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read(path)
    check(caught.value, path, line, damage[2])


@pytest.mark.parametrize("name", DAMAGE)
def test_the_command_line_prints_place_and_hint(name, tmp_path, capsys):
    text, line = damaged(machine_text(name), DAMAGE[name][0])
    path = written(tmp_path, name, text)
    assert main(["discover", "-t", str(path)]) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"error: {path}:{line} ")
    assert "\nhint: " in err


def test_every_format_of_machines_is_damaged(tmp_path):
    found = {
        format_of(read_file(written(tmp_path, name, machine_text(name)))).name for name in DAMAGE
    }
    assert {each.name for each in FORMATS} <= found
