"""One damage after the other in every format: each refusal names file, line, cause and a hint.

Damage is what a number out of bounds, a lost row or two statements against each other look like.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.target import SEEDS
from tests.topology.networks.test_damage import SAMPLES
from tests.topology.readers import amd_samples as amd
from tests.topology.readers import test_nccl_xml
from toposeat.cli.main import main
from toposeat.errors import InputError
from toposeat.model.files import encode_json
from toposeat.profile import read_traffic
from toposeat.topology import read_network, read_topology
from toposeat.topology.formats import FORMATS, format_of
from toposeat.topology.readers.file_text import read_file
from toposeat.topology.topology_file import TOPOLOGY_SCHEMA

BUS = amd.MI250X_BUS[:3]


def _kind(i: int, j: int) -> str:
    return "XGMI" if (i, j) in ((0, 1), (1, 0)) else "PCIE"


def _number(i: int, j: int) -> float:
    return 10.0 + 10 * i + j


TEXTS = {
    "rocm-smi.txt": amd.rocm_smi_mi250x(),
    "amd-smi.txt": amd.amd_smi_mi250x(),
    "amd-smi.json": amd.amd_smi_json(BUS, amd.mi250x_weight, _kind),
    "transferbench.txt": amd.transferbench(2, 3, _number),
    "transferbench.csv": amd.transferbench(1, 2, _number, csv=True, read=True),
    "xpu-smi.txt": amd.xpu_smi(2, 2, amd.max1550, ["0-15", "16-31"]),
    "kfd.txt": amd.kfd_mi300a(1).text(),
    "nccl.xml": test_nccl_xml.SAMPLE,
    "lscpu.txt": "CPU(s): 8\nModel name:   AMD EPYC\n",
}
NETWORKS = {name: data.decode() for name, data in SAMPLES.items()}
TRAFFIC = {
    "pairs.csv": "# ranks=4\nsource,target,bytes,messages\n0,1,5,2\n2,0,7,1\n",
    "matrix.csv": "0,5,1e3\n7,0,0\n1,2,0\n",
    "treematch.mat": "0 1000 1e3\n1000 0 10.0\n1 2 0\n",
    "run.0.prof": "# POINT TO POINT\nE\t0\t1\t800 bytes\t8 msgs sent\t0,8\n",
    "rank0.json": '{"schemaVersion": 1,\n "distributedInfo":\n  {"rank": 0, "world_size": 2},\n'
    ' "traceEvents": [\n]}\n',
}

# What is replaced (its first occurrence) by what, words of the cause, and how many lines below the
# damage is the one that is named: what is missing is missed further on. None: the cause says where.
Damage = tuple[str, str, str, int | None]
DAMAGE: dict[str, tuple[Damage, ...]] = {
    "nvbandwidth.txt": (
        ("24.61", "1000000", "not within", 0),
        ("19.71", "-19.71", "where a number", 0),
        ("19.71", "nan", "add up to", 3),
        (" 1     18.02       N/A\n", "", "add up to", 1),
        ("GPU(column) bandwidth (GB/s)", "GPU(column) bandwidth (GiB/s)", "unknown unit", 0),
    ),
    "nvbandwidth.json": (
        ("19.71", "1000000", "device_to_device_memcpy_read_ce: the bandwidth of", None),
        ('"19.71"', '"-19.71"', "found '-19.71'", None),
        ('["18.02", "N/A"]', '["18.02"]', "rows of different lengths", None),
        ('"GPU Device list": ["0:', '"GPU Device list": ["5:', "has gaps", 0),
    ),
    "lscpu.txt": (("AMD EPYC", "-", "names the processor", None),),
    "rocm-smi.txt": (
        ("0            15 ", "0            1e9", "weight of GPU0 to GPU1: expected a number", 0),
        ("0            15 ", "0            16 ", "asymmetric", 1),
        ("XGMI         XGMI", "7            XGMI", "unknown", 0),
    ),
    "amd-smi.txt": (
        ("0            15 ", "0            16 ", "asymmetric", 1),
        ("0            15 ", "0            -1 ", "expected a number", 0),
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
    "kfd.txt": (
        ("weight 32", "weight -1", "weight", 0),
        ("node_to 1", "node_to x", "node_to", 0),
    ),
    "rocm_bandwidth_test.txt": (
        ("28.311", "1000000", "not within", 0),
        ("28.311", "-28.311", "number", 0),
        ("28.311", "nan", "number", 0),
        ("          3         1         1         1         1\n", "", "row", -1),
    ),
    "transferbench.txt": (
        ("32.00", "1000000.00", "not within", 0),
        ("32.00", "-32.00", "where a number", 0),
        ("     34.00", "", "4 of 5 cells", 0),
        ("  GPU 01  ->     40.00     41.00     42.00     43.00     44.00\n", "", "of GPU 01", 0),
    ),
    "transferbench.csv": (("21.00", "1e30", "not within", 0),),
    "p2p_bandwidth_latency.txt": (
        ("21.70", "2170000.0", "not within", 0),
        ("     1  20.90 781.30\n", "", "is truncated", 0),
        ("20.90 781.30", "20.90", "1 of 2 cells", 0),
    ),
    "nvidia_smi_query.csv": (
        ("24576 MiB", "-24576 MiB", "memory", 0),
        (", 4, 16, 16, [N/A]", ", 4, 999, 16, [N/A]", "999", 0),
        ("00000000:B1:00.0", "00000000:31:00.0", "31:00.0", 0),
    ),
    "nvidia_smi_query.txt": (
        ("Max                       : 4", "Max                       : 400", "400", -12),
        ("24576 MiB", "-1 MiB", "-1", -19),
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
    ),
    "nvidia_smi_L.txt": (("Device  1:", "Device  0:", "stated twice", 0),),
    "topo_m.txt": (
        ("GPU1\tNV4", "GPU1\tNV2", "asymmetric", 0),
        ("GPU1\tNV4\t X \tSYS\tPXB\t0-15,32-47\t0\t\tN/A\n", "", "GPU1", 0),
        ("NV4\tSYS\tPIX\t0-15", "NV400000\tSYS\tPIX\t0-15", "NV400000", 0),
    ),
    "topo_p2p.txt": ((" GPU1\tOK\tX\tTNS\t\n", "", "GPU1", 0),),
    "xpu-smi.txt": (
        ("MDF      XL16", "MDF      XL8 ", "asymmetric", 2),
        ("GPU 1/1  XL*      XL16     MDF      S        16-31\n", "", "truncated", 0),
        ("0-15", "15-0", "affinity", 0),
    ),
    "nccl.xml": (
        ('count="4"', 'count="-4"', "count", 0),
        ('numaid="0"', 'numaid="x"', "numaid", 0),
        ('busid="0000:0f:00.0"', 'busid="0000:07:00.0"', "twice", 0),
    ),
    "hwloc3.xml": (
        ('pci_link_speed="31.507692"', 'pci_link_speed="-1"', "speed", 0),
        ("0000:04:00.0", "0000:03:00.0", "two GPUs have", 0),
    ),
    "machine.json": (
        ('"index": 1', '"index": -1', "index", 0),
    ),
}  # fmt: skip


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def machine_text(name: str) -> str:
    if name == "machine.json":
        return encode_json(read_topology("minsky-4"), schema=TOPOLOGY_SCHEMA)
    return TEXTS[name] if name in TEXTS else (SEEDS / name).read_text()


def damaged(text: str, damage: Damage) -> tuple[str, str]:
    """The damaged text, and how the line is to be named."""
    old, new, _, further = damage
    assert old in text, old
    line = "" if further is None else f"{text.count(chr(10), 0, text.index(old)) + 1 + further}:"
    return text.replace(old, new, 1), line


def check(error: InputError, path: Path, line: str, words: str) -> None:
    assert str(error).startswith(f"{path}:{line} "), f"{error}, not line {line}"
    assert words in error.message
    assert error.hint
    assert "\n" not in str(error) + error.hint


MACHINE_CASES = [(name, damage) for name, each in DAMAGE.items() for damage in each]


def _short(value: object) -> str:
    return value if isinstance(value, str) else str(value)[:40]


@pytest.mark.parametrize(("name", "damage"), MACHINE_CASES, ids=_short)
def test_machines(name: str, damage: Damage, tmp_path: Path) -> None:
    text, line = damaged(machine_text(name), damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_topology(path)
    check(caught.value, path, line, damage[2])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("# to 0\t\tto 1\t\t\n0.0e+00\t1.05e+04\t\n1.05e+04\t0.0e+00\t\n", "StarPU"),
        ("# GPU\tCPU0\tCPU1\n0\t1\t0\n", "StarPU"),
        ("# Current configuration\n4 # Number of CPUs\n", "StarPU"),
        ('<?xml version="1.0"?>\n<platform version="4"><AS id="a"/></platform>\n', "SimGrid"),
        ("cpu_to_gpu0_by_dma_under_numa0 26.2\ngpu0_to_gpu1_write_by_sm 20\n", "SuperBench"),
        ("gpu0_and_gpu1_read_by_sm 10\n", "SuperBench"),
        ("        GPU0    GPU1\nGPU0    X       MX\nGPU1    MX      X\n", "mx-smi"),
        (
            '{"system": {"(Topology) Weight between DRM devices 0 and 1": "15"}}',
            "JSON of rocm-smi",
        ),
        ("# ours\nHost,rack,row\nn[1,2],1,a\n", "hosts and switches"),
        ("node\tleaf\nn1\tl1\n", "hosts and switches"),
        ("0: SLURM_TOPOLOGY_ADDR=s0.s1.n1\n", "addresses of Slurm"),
        ('# Mock NVML\nsystem:\n  name: "NVIDIA A100"\n', "mock of NVML"),
    ],
)
def test_what_is_known_and_not_read_says_what_to_give_instead(
    text: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"this is .*{what}.*: not read") as caught:
        read_topology(written(tmp_path, "FILE", text))
    assert "toposeat " in caught.value.hint


NETWORK_DAMAGE: dict[str, tuple[Damage, ...]] = {
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
    "graph.json": (('"id": "b", ', "", "`id` - at `$.instances[1]`", None),),
    "model.yaml": (("switch: s2", "switch: []", "`$.blocks[0].switch`", None),),
}  # fmt: skip
TRAFFIC_DAMAGE: dict[str, tuple[Damage, ...]] = {
    "pairs.csv": (
        ("ranks=4", "ranks=2", "need 3", 0),
        ("2,0,7,1", "2,0,-7,1", "-7", 0),
        ("2,0,7,1", "2,0,7", "", 0),
        ("2,0,7,1", "2,0,x,1", "is no line", 0),
    ),
    "matrix.csv": (("7,0,0", "7,0", "", 0), ("1e3", "nan", "", 0), ("1e3", "-1e3", "", 0)),
    "treematch.mat": (("1e3", "1e99", "", 0), ("1000 0 10.0\n", "1000 0\n", "", 0)),
    "run.0.prof": (("800 bytes", "-800 bytes", "", 0),),
    "rank0.json": (('"rank": 0', '"rank": 2', "rank 2 of 2", 0),),
}  # fmt: skip
OTHER_CASES = [
    (name, damage)
    for table in (NETWORK_DAMAGE, TRAFFIC_DAMAGE)
    for name, each in table.items()
    for damage in each
]


@pytest.mark.parametrize(("name", "damage"), OTHER_CASES, ids=_short)
def test_networks_and_traffic(name: str, damage: Damage, tmp_path: Path) -> None:
    texts, read = (NETWORKS, read_network) if name in NETWORKS else (TRAFFIC, read_traffic)
    text, line = damaged(texts[name], damage)
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read(path)
    check(caught.value, path, line, damage[2])


@pytest.mark.parametrize("name", DAMAGE)
def test_the_command_line_prints_place_and_hint(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line = damaged(machine_text(name), DAMAGE[name][0])
    path = written(tmp_path, name, text)
    assert main(["discover", "-t", str(path)]) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"error: {path}:{line} ")
    assert "\nhint: " in err


def test_every_format_of_machines_is_damaged(tmp_path: Path) -> None:
    found = {
        format_of(read_file(written(tmp_path, name, machine_text(name)))).name for name in DAMAGE
    }
    assert {each.name for each in FORMATS} <= found
