"""One short sample of our own for every format, and what is read from it, without ../shared.

Written from what the formats' documentation and sources say, none copied from a recorded file.
"""

import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.model.topology import PathClass
from toposeat.topology import read_topologies, read_topology
from toposeat.topology.formats import FORMATS, TREES, format_of
from toposeat.topology.readers.file_text import read_file
from toposeat.topology.topology_file import save_topology


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A file and what is read from it; `beside` is a file that says how the GPUs are joined.

    `links` counts links by kind, but PCIe; `pairs` are GB/s of ordered pairs (the cap of their
    route); `bus` are PCI bus ids, `names` product names, in device order. None is not looked at.
    """

    text: str
    beside: str = ""
    links: dict[str, int] | None = None
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    bus: list[str | None] | None = None
    names: list[str] | None = None
    cpus: list[str | None] | None = None
    nodes: list[int | None] | None = None
    staged: dict[tuple[int, int], bool] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # metadata
    report: str = ""


MATRIX = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\tPIX\t0-7\t0\t\tN/A
GPU1\tSYS\t X \tSYS\t8-15\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:
  X    = Self

NIC Legend:
  NIC0: mlx5_0
"""
BRIDGED = MATRIX.replace("SYS\tPIX", "NV2\tPIX").replace("GPU1\tSYS", "GPU1\tNV2")
SEEDS = Path(__file__).parents[2] / "fuzz/seeds"
UUIDS = ("GPU-00000000-1111-2222-3333-000000000000", "GPU-00000000-1111-2222-3333-000000000001")

SAMPLES = {
    "nvidia-smi topo -m and -mp": Sample(
        text=BRIDGED,
        links={"nvlink": 1, "smp": 1},
        cpus=["0-7", "8-15"],
        nodes=[0, 1],
        report="NVLink generation is not stated",
    ),
    "nvidia-smi topo -p2p": Sample(
        text=" \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tOK\tX\t\n",
        beside=MATRIX,
        staged={(0, 1): True, (1, 0): False},
        report="GPU not supported (GNS) for 1 ordered pairs",
    ),
    "nvidia-smi nvlink -s and -L": Sample(
        text=f"GPU 0: Tesla P100-SXM2-16GB (UUID: {UUIDS[0]})\n\t Link 0: 19.531 GB/s\n"
        f"\t Link 1: 19.531 GB/s\nGPU 1: Tesla P100-SXM2-16GB (UUID: {UUIDS[1]})\n"
        "\t Link 0: 19.531 GB/s\n\t Link 1: 19.531 GB/s\n",
        beside=BRIDGED,
        names=["Tesla P100-SXM2-16GB"] * 2,
    ),
    "nvidia-smi -q and -q -x": Sample(
        text="==============NVSMI LOG==============\n\nAttached GPUs                : 2\n"
        + "".join(
            f"GPU 00000000:{bus}:00.0\n    Product Name             : NVIDIA L4\n"
            f"    GPU UUID                 : {uuid}\n    PCI\n"
            f"        Bus Id                   : 00000000:{bus}:00.0\n"
            for bus, uuid in zip(("17", "CA"), UUIDS, strict=True)
        ),
        beside=MATRIX,
        names=["NVIDIA L4"] * 2,
        bus=["0000:17:00.0", "0000:ca:00.0"],
    ),
    "nvidia-smi": Sample(
        text=(SEEDS / "nvidia_smi.txt").read_text(),
        beside=MATRIX,
        names=["NVIDIA L4"] * 2,
        bus=["0000:17:00.0", "0000:ca:00.0"],
    ),
    "nvidia-smi --query-gpu CSV": Sample(
        text="index, name, pci.bus_id\n0, NVIDIA L4, 00000000:17:00.0\n"
        "1, NVIDIA L4, 00000000:CA:00.0\n",
        beside=MATRIX,
        names=["NVIDIA L4"] * 2,
        bus=["0000:17:00.0", "0000:ca:00.0"],
    ),
    "p2pBandwidthLatencyTest": Sample(
        text="P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n"
        "     1\t     1     1\n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
        "   D\\D     0      1\n     0 600.00  21.00\n     1  24.00 600.00\n",
        pairs={(0, 1): 21, (1, 0): 24},
        report="CUDA's numbers only",
    ),
    "nvbandwidth": Sample(
        text="nvbandwidth Version: v0.4\n\n"
        "Device 0: NVIDIA L40S (00000000:17:00)\nDevice 1: NVIDIA L40S (00000000:ca:00)\n\n"
        "Running device_to_device_memcpy_read_ce.\n"
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
        " 0       N/A     26.00\n 1     25.00       N/A\n\n"
        "SUM device_to_device_memcpy_read_ce 51.00\n",
        pairs={(0, 1): 25, (1, 0): 26},  # a read copies from the column's device
        bus=["0000:17:00.0", "0000:ca:00.0"],
        names=["NVIDIA L40S"] * 2,
    ),
    "rocm-bandwidth-test": Sample(
        text="RocmBandwidthTest Version: 2.6.0\n\nDevice: 0,  EPYC\n"
        "Device: 1,  Instinct,  GPU-0000000000000001,  29:0.0\n"
        "Device: 2,  Instinct,  GPU-0000000000000002,  c3:0.0\n\n"
        "Inter-Device Numa Distance\n\nD/D 0 1 2\n\n0 0 20 20\n\n1 20 0 15\n\n2 20 15 0\n\n"
        "Unidirectional copy peak bandwidth GB/s\n\nD/D 0 1 2\n\n0 N/A 25.0 25.0\n\n"
        "1 26.0 800.0 48.0\n\n2 26.0 49.0 800.0\n",
        pairs={(0, 1): 48, (1, 0): 49},
        links={"xgmi": 1},
        bus=["0000:29:00.0", "0000:c3:00.0"],
    ),
    "rocm-smi --showtopo": Sample(
        text="==== Weight between two GPUs ====\n       GPU0   GPU1\nGPU0   0      15\n"
        "GPU1   15     0\n==== Link Type between two GPUs ====\n       GPU0   GPU1\n"
        "GPU0   0      XGMI\nGPU1   XGMI   0\n==== Numa Nodes ====\n"
        "GPU[0]\t: (Topology) Numa Node: 0\nGPU[0]\t: (Topology) Numa Affinity: 0\n"
        "GPU[1]\t: (Topology) Numa Node: 0\nGPU[1]\t: (Topology) Numa Affinity: 0\n",
        links={"xgmi": 1},
        nodes=[0, 0],
    ),
    "amd-smi topology": Sample(
        text="WEIGHT TABLE:\n             0000:03:00.0 0000:0c:00.0\n0000:03:00.0 0            40\n"
        "0000:0c:00.0 40           0\n\nLINK TYPE TABLE:\n"
        "             0000:03:00.0 0000:0c:00.0\n0000:03:00.0 SELF         PCIE\n"
        "0000:0c:00.0 PCIE         SELF\n",
        links={},
        bus=["0000:03:00.0", "0000:0c:00.0"],
    ),
    "xpu-smi topology -m": Sample(
        text="         GPU 0/0  GPU 1/0  CPU Affinity\nGPU 0/0  S        XL8      0-3\n"
        "GPU 1/0  XL8      S        4-7\n",
        links={"xelink": 1},
        cpus=["0-3", "4-7"],
    ),
    "KFD topology text": Sample(
        text="".join(
            f"/sys/class/kfd/kfd/topology/nodes/{node}/properties:{line}\n"
            for node, lines in {
                0: ["cpu_cores_count 8", "simd_count 0"],
                1: ["simd_count 440", "gfx_target_version 90010", "location_id 768", "domain 0"],
                2: ["simd_count 440", "gfx_target_version 90010", "location_id 3072", "domain 0"],
            }.items()
            for line in lines
        )
        + "".join(
            f"/sys/class/kfd/kfd/topology/nodes/{a}/io_links/0/properties:{line}\n"
            for a, b in ((1, 2), (2, 1))
            for line in (
                "type 11", "weight 15", f"node_from {a}", f"node_to {b}", "min_bandwidth 50000",
                "max_bandwidth 100000",
            )
        ),
        links={"xgmi": 1},
        bus=["0000:03:00.0", "0000:0c:00.0"],
    ),
    "NCCL or RCCL topology XML": Sample(
        text='<system version="1">\n<cpu numaid="0" affinity="000000ff" arch="x86_64">\n'
        + "".join(
            f'<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">\n'
            f'<gpu dev="{i}" sm="80" rank="{i}" gdr="1">\n'
            f'<nvlink target="0000:{other}:00.0" count="4" tclass="0x030200"/>\n</gpu>\n</pci>\n'
            for i, (bus, other) in enumerate((("03", "0c"), ("0c", "03")))
        )
        + "</cpu>\n</system>\n",
        links={"nvlink": 1},
        bus=["0000:03:00.0", "0000:0c:00.0"],
        cpus=["0-7", "0-7"],
    ),
    "hwloc XML (versions 1 to 3)": Sample(
        text='<?xml version="1.0"?>\n<topology version="2.0">\n<object type="Machine">\n'
        '<object type="Package" os_index="0" cpuset="0x000000ff" nodeset="0x1">\n'
        '<info name="CPUVendor" value="GenuineIntel"/>\n<info name="CPUFamilyNumber" value="6"/>\n'
        '<info name="CPUModel" value="Intel Xeon"/>\n'
        '<object type="NUMANode" os_index="0" cpuset="0x000000ff" nodeset="0x1"/>\n'
        '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-1f]">\n'
        + "".join(
            f'<object type="PCIDev" pci_busid="0000:{bus}:00.0" pci_type="0302 [10de:20b5]'
            f' [10de:1533] a1" pci_link_speed="31.5">\n'
            f'<object type="OSDev" name="cuda{i}" subtype="CUDA" osdev_type="5"/>\n</object>\n'
            for i, bus in enumerate(("03", "0c"))
        )
        + "</object>\n</object>\n</object>\n</topology>\n",
        links={},
        bus=["0000:03:00.0", "0000:0c:00.0"],
        told={"cpu": "x86_64 GenuineIntel 6", "cpu_name": "Intel Xeon"},
    ),
    "lscpu": Sample(
        text="Architecture:          x86_64\nVendor ID:             AuthenticAMD\n"
        "  Model name:          AMD EPYC 7302  16-Core Processor\n    CPU family:        23\n"
        "    Model:             49\nBIOS Model name: unset\n",
        beside=MATRIX,
        told={
            "cpu": "x86_64 AuthenticAMD 23 49",
            "cpu_name": "AMD EPYC 7302 16-Core Processor",
        },
    ),
    "lspci": Sample(
        text="-+-[0000:80]---01.0-[81]----00.0  NVIDIA Corporation AD104GL [L4]\n"
        " \\-[0000:00]-+-00.0  Intel Corporation Device 09a2\n"
        "             \\-01.0-[01]----00.0  NVIDIA Corporation AD104GL [L4]\n",
        bus=["0000:01:00.0", "0000:81:00.0"],
        names=["NVIDIA L4"] * 2,
        report="the NUMA node of gpu0 is not known",
    ),
    "toposeat topology JSON": Sample(
        text="minsky-4", links={"nvlink": 6, "smp": 1}, names=["Tesla P100-SXM2-16GB"] * 4
    ),
}  # fmt: skip


def read(name, folder):
    """A sample as a user would give it."""
    sample, files = SAMPLES[name], []
    for number, text in enumerate((sample.text, sample.beside)):
        if text:
            files.append(folder / f"file{number}")
            files[-1].write_text(text)
    if name.startswith("toposeat"):
        save_topology(read_topology(sample.text), files[0], overwrite=True)
    assert format_of(read_file(files[0])).name == name
    if sample.beside:
        with pytest.raises(InputError, match="says too little to be a machine by itself"):
            read_topology(files[0])
    return read_topologies(files[::-1])


def check(sample, topology):
    """Everything that the sample says."""
    devices = topology.devices
    if sample.links is not None:
        kinds = Counter(link.kind.value for link in topology.links)
        assert kinds.pop("pcie", 0) or sample.links
        assert dict(kinds) == sample.links
    for name, wanted in (
        ("pci_bus_id", sample.bus),
        ("name", sample.names),
        ("cpus", sample.cpus),
        ("numa_node", sample.nodes),
    ):
        if wanted is not None:
            assert [getattr(device, name) for device in devices] == wanted
    for (i, j), gigabytes in sample.pairs.items():
        cap = topology.route_of_pair[devices[i].id, devices[j].id].cap_bytes_per_s
        assert cap is not None
        assert cap.value == pytest.approx(gigabytes * 1e9)
        assert cap.source.value == "measured"
    for (i, j), staged in sample.staged.items():
        assert topology.route_of_pair[devices[i].id, devices[j].id].staged is staged
    assert sample.told.items() <= topology.metadata.items()
    assert sample.report in "\n".join(topology.report)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_every_format(name, tmp_path):
    check(SAMPLES[name], read(name, tmp_path))


@pytest.mark.parametrize("name", [name for name in SAMPLES if not name.startswith("toposeat")])
def test_a_sample_with_the_ends_of_windows(name, tmp_path):
    sample = SAMPLES[name]
    files = [tmp_path / "a", tmp_path / "b"][: 1 + bool(sample.beside)]
    for path, text in zip(files, (sample.text, sample.beside), strict=False):
        path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    check(sample, read_topologies(files[::-1]))


def test_no_format_is_without_a_sample():
    assert {each.name for each in FORMATS} == set(SAMPLES)
    assert [tree.name for tree in TREES] == ["saved sysfs or KFD tree"]  # below


def test_a_saved_tree(tmp_path):
    """Two GPUs below one root port each, in an archive with the links that sysfs has."""
    sysfs = tmp_path / "node" / "sys"
    for i in range(2):
        device = sysfs / f"devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}1:00.0"
        device.mkdir(parents=True)
        for name, text in {"vendor": "0x10de", "class": "0x030200", "numa_node": str(i)}.items():
            (device / name).write_text(text + "\n")
        link = sysfs / f"bus/pci/devices/0000:{i}1:00.0"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../../devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}1:00.0")
    for node in range(2):
        (sysfs / f"devices/system/node/node{node}").mkdir(parents=True)
        (sysfs / f"devices/system/node/node{node}/cpulist").write_text(f"{node}\n")
    with tarfile.open(tmp_path / "node.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "node", arcname="node")
    for path in (tmp_path / "node", tmp_path / "node.tar.gz"):
        topology = read_topology(path)
        assert [d.pci_bus_id for d in topology.devices] == ["0000:01:00.0", "0000:11:00.0"]
        assert [d.numa_node for d in topology.devices] == [0, 1]
        assert topology.route_of_pair["gpu0", "gpu1"].path_class is PathClass.SYS
