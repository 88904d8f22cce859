"""Every recorded output of `nvidia-smi topo -m`: what it says, or why it is refused."""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import (
    facts_of,
    facts_of_text,
    matrix_of_text,
    peers,
    relation,
    relations,
    row_of,
)
from toposeat.errors import InputError
from toposeat.topology import parse_topology_text, read_topology
from toposeat.topology.merge import merge_topologies
from toposeat.topology.readers.nvidia_smi_topo import MEANINGS
from toposeat.topology.relation import UNKNOWN


@dataclass(frozen=True)
class Facts:
    """What a file must say, read off it by eye."""

    gpus: int
    nics: int = 0
    tokens: dict[str, int] = field(default_factory=dict)  # GPU pairs by relation
    pairs: dict[tuple[str, str], str] = field(default_factory=dict)
    cpus: tuple[str | None, str | None] = (None, None)  # first and last GPU
    nodes: tuple[int | None, int | None] = (None, None)
    nic_names: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # words of the reader's report


_DGX = {"NV1": 8, "NV2": 8, "SYS": 12}
_DGX_PAIRS = {
    ("GPU0", "GPU3"): "NV2",
    ("GPU0", "GPU4"): "NV2",
    ("GPU2", "GPU6"): "NV1",
    ("GPU3", "GPU4"): "SYS",
}
_MLX4 = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
_DGX_4NIC = Facts(
    8, 4, _DGX,
    {**_DGX_PAIRS, ("GPU0", "mlx5_0"): "PIX", ("GPU7", "mlx5_2"): "PHB"},
    ("0-19,40-59", "20-39,60-79"), nic_names=_MLX4,
)  # fmt: skip

GOLDEN = {
    "1gpu-new.txt": Facts(1, cpus=("0-31", "0-31"), nodes=(0, 0)),
    "1gpu-soc-legend.txt": Facts(1, cpus=("0-7", "0-7")),
    "2gpu-nv2-numa-na.txt": Facts(
        2, 0, {"NV2": 1}, cpus=("0-23", "0-23"), doubts=("NUMA affinity is N/A",)
    ),
    "2gpu-p100-soc.txt": Facts(2, 0, {"SYS": 1}, cpus=("0-5", "6-11")),
    "2gpu-phb-numa-na.txt": Facts(
        2, 0, {"PHB": 1}, cpus=("0-11", "0-11"), doubts=("NUMA affinity is N/A",)
    ),
    "2gpu-puget-wrx90.txt": Facts(
        2, 2, {"PHB": 1}, {("GPU0", "NIC1"): "NODE", ("NIC0", "NIC1"): "PIX"},
        ("0-23", "0-23"), (0, 0), ("mlx5_0", "mlx5_1"),
    ),
    "2gpu-v100-nv1-phb-nic.txt": Facts(
        2, 1, {"NV1": 1}, {("GPU1", "mlx5_0"): "PHB"}, ("0-7", "0-7"), nic_names=("mlx5_0",)
    ),
    "4gpu-3090-nvlink-pairs-cross.txt": Facts(
        4, 0, {"NV4": 2, "PHB": 2, "NODE": 2},
        {("GPU0", "GPU2"): "NV4", ("GPU1", "GPU3"): "NV4", ("GPU0", "GPU1"): "PHB"},
        ("0-23", "0-23"), (0, 0),
    ),
    "4gpu-a4000-node.txt": Facts(4, 0, {"NODE": 6}, cpus=("0-31", "0-31"), nodes=(0, 0)),
    "4gpu-gb300-azure.md": Facts(
        4, 4, {"NV18": 6}, {("GPU0", "NIC1"): "NODE", ("GPU3", "NIC0"): "SYS"},
        nic_names=("", "", "", ""), doubts=("no rows for NICs", "no NIC legend"),
    ),
    "4gpu-phb-soc.txt": Facts(
        4, 0, {"PHB": 2, "SYS": 4}, {("GPU2", "GPU3"): "PHB"}, ("0-9,20-29", "10-19,30-39")
    ),
    "4gpu-power9-nv3.txt": Facts(
        4, 4, {"NV3": 2, "SYS": 4}, {("GPU0", "mlx5_1"): "NODE", ("mlx5_2", "mlx5_3"): "PIX"},
        ("0-63", "64-127"), nic_names=_MLX4,
    ),
    "4gpu-rtx6000ada-esc8000a.txt": Facts(
        4, 4, {"NODE": 2, "SYS": 4}, {("GPU3", "NIC3"): "NODE"},
        ("0-31", "32-63"), (0, 1), _MLX4,
    ),
    "4gpu-v100-p3-like.txt": Facts(
        4, 1, {"NV1": 3, "NV2": 3}, {("GPU0", "GPU3"): "NV2", ("GPU0", "mlx5_0"): "SYS"},
        ("0-15", "0-15"), nic_names=("mlx5_0",),
    ),
    "6gpu-old-soc.txt": Facts(6, 0, {"PIX": 3, "PHB": 4, "SYS": 8}, {("GPU4", "GPU5"): "PIX"}),
    "8gpu-4090-sys-nic-phb.txt": Facts(
        8, 2, {"SYS": 28}, {("GPU6", "NIC0"): "PHB", ("GPU5", "NIC0"): "SYS"},
        ("0-55,112-167", "56-111,168-223"), (0, 1), ("", ""), ("no NIC legend",),
    ),
    "8gpu-all-sys.txt": Facts(
        8, 0, {"SYS": 28}, cpus=("0-15,32-47", "16-31,48-63"), nodes=(0, 1)
    ),
    "8gpu-dgx1v-4nic.txt": _DGX_4NIC,
    "8gpu-h100-nv18-nonic.txt": Facts(
        8, 0, {"NV18": 28}, cpus=("0-51,104-155", "52-103,156-207"), nodes=(0, 1)
    ),
    "8gpu-h200-gke-a3ultra.txt": Facts(
        8, 8, {"NV18": 28}, {("GPU0", "NIC1"): "PIX", ("GPU2", "NIC0"): "NODE"},
        ("0-55,112-167", "56-111,168-223"), (0, 1), tuple(f"mlx5_{i}" for i in range(8)),
    ),
    "8gpu-v100-dgx1v-1nic.txt": Facts(
        8, 1, _DGX, {**_DGX_PAIRS, ("GPU2", "mlx5_0"): "PIX", ("GPU0", "mlx5_0"): "NODE"},
        ("0-11,24-35", "12-23,36-47"), nic_names=("mlx5_0",),
    ),
    "hostile-crlf-bom.txt": _DGX_4NIC,
    "hostile-nbsp.txt": _DGX_4NIC,
    "hostile-prompt-and-logs.txt": _DGX_4NIC,
    "hostile-wrapped-80.txt": _DGX_4NIC,
}  # fmt: skip

REFUSED = {  # line of the cause, words of the message
    "8gpu-h800-nv8-truncated.txt": (10, "row NIC0 has no column: the header is cut"),
    "hostile-asymmetric.txt": (6, "asymmetric: GPU0 -> GPU4 is NV2, but GPU4 -> GPU0 is PHB"),
    "hostile-empty.txt": (None, "the file is empty"),
    "hostile-error-only.txt": (1, "nvidia-smi failed: NVIDIA-SMI has failed because"),
    "hostile-missing-gpu-rows.txt": (5, "the rows of GPU3, GPU6 are missing"),
    "hostile-unknown-token.txt": (
        6,
        "unknown word 'NV?' between GPU4 and GPU0, but the other way it is 'NV2'",
    ),
}


@pytest.fixture(scope="module")
def recorded(shared_dir):
    return shared_dir / "machines" / "nvidia-smi-topo"


def read(path):
    return matrix_of_text(path.read_bytes().decode(), path)


def token(matrix, a, b):
    return relation(matrix, row_of(matrix)[a], row_of(matrix)[b]).token


def test_every_recorded_file_has_expectations(recorded, shared_dir):
    names = {path.name for path in recorded.iterdir()}
    index = (shared_dir / "machines" / "INDEX.tsv").read_text()
    listed = set(re.findall(r"^nvidia-smi-topo/(\S+)\t", index, re.MULTILINE))
    assert names == listed == set(GOLDEN) | set(REFUSED)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_says_what_the_file_says(recorded, name):
    matrix, facts = read(recorded / name), GOLDEN[name]
    gpus = facts.gpus
    assert (len(matrix.devices), len(matrix.nics)) == (gpus, facts.nics)
    between = [r.token for (_, j), r in relations(matrix).items() if j < gpus]
    assert Counter(between) == facts.tokens
    for (a, b), expected in facts.pairs.items():
        assert token(matrix, a, b) == token(matrix, b, a) == expected
    assert (matrix.devices[0].cpus, matrix.devices[-1].cpus) == facts.cpus
    assert (matrix.devices[0].numa_node, matrix.devices[-1].numa_node) == facts.nodes
    assert tuple(n.name for n in matrix.nics) == facts.nic_names
    assert len(matrix.report) == len(facts.doubts)
    for words in facts.doubts:
        assert any(words in line for line in matrix.report)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refuses_damage_with_its_line(recorded, name):
    line, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        read_topology(recorded / name)
    where = f"{recorded / name}:{line}: " if line else f"{recorded / name}: "
    assert str(caught.value).startswith(where)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_routes_every_pair_with_numbers_that_are_not_measured(recorded, name):
    topology = read_topology(recorded / name)
    ends = [d.id for d in topology.devices] + [n.id for n in topology.nics]
    for source in topology.devices:
        for target in ends:
            assert (source.id == target) != ((source.id, target) in topology.route_of_pair)
    sources = {link.forward_bytes_per_s.source.value for link in topology.links}
    assert sources <= {"nominal", "assumed"}
    assert all(route.peer_access is None for route in topology.routes)


def doubts(topology):
    return "\n".join(topology.report)


def test_reports_what_carries_no_information(recorded):
    topology = read_topology(recorded / "8gpu-all-sys.txt")
    assert "every GPU pair is SYS, which says nothing" in doubts(topology)
    assert [d.numa_node for d in topology.devices] == [0] * 4 + [1] * 4
    assert topology.route_of_pair["gpu0", "gpu1"].path_class.value == "NODE"
    assert topology.route_of_pair["gpu0", "gpu4"].path_class.value == "SYS"


def test_only_the_stated_gpu_is_near_the_nics(recorded):
    topology = read_topology(recorded / "8gpu-4090-sys-nic-phb.txt")
    near = {
        d.id for d in topology.devices
        if topology.route_of_pair[d.id, "nic0"].path_class.value == "PHB"
    }  # fmt: skip
    assert near == {"gpu6"}
    assert len([link for link in topology.links if link.kind.value == "smp"]) == 1


def test_infers_pcie_pairs_below_nvlink_from_nics(recorded):
    """DGX-1V: GPU0 and GPU1 are NV1, but share a switch with mlx5_0; GPU0 and GPU5 go over it."""
    topology = read_topology(recorded / "8gpu-dgx1v-4nic.txt")
    uplinks = {
        device: next(x for x in topology.links if x.kind.value == "pcie" and x.ends[0] == device)
        for device in ("gpu0", "gpu1", "gpu2")
    }
    assert uplinks["gpu0"].ends[1] == uplinks["gpu1"].ends[1] != uplinks["gpu2"].ends[1]
    far = [topology.link_of_id[x] for x in topology.route_of_pair["gpu0", "gpu5"].links]
    assert [x.kind.value for x in far].count("smp") == 1
    assert far[0] == uplinks["gpu0"]


def test_affinity_masked_by_the_job_is_not_trusted():
    text = (
        "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tPIX\tSOC\t0-3\t0\n"
        "GPU1\tPIX\t X \tSOC\t0-3\t0\n"
        "GPU2\tSOC\tSOC\t X \t0-3\t0\n"
    )
    topology = merge_topologies([matrix_of_text(text)], "masked")
    assert "affinity contradicts relations" in doubts(topology)
    assert [d.numa_node for d in topology.devices] == [None] * 3
    assert topology.route_of_pair["gpu0", "gpu2"].path_class.value == "SYS"


def test_reports_relations_that_fit_no_tree():
    text = (
        "        GPU0    GPU1    GPU2\n"
        "GPU0     X      PIX     SYS\n"
        "GPU1    PIX      X      PIX\n"
        "GPU2    SYS     PIX      X\n"
    )
    topology = merge_topologies([matrix_of_text(text)], "odd")
    assert "relations fit no tree: gpu0 and gpu2 are SYS" in doubts(topology)
    assert topology.route_of_pair["gpu0", "gpu2"].path_class.value == "SYS"


def test_takes_names_uuids_and_bus_ids_from_other_output_in_the_file():
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)\n\n"
        "| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4 |\n"
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |       0 |\n"
        "|   1  NVIDIA H100 80GB HBM3          On  |   00000000:43:00.0 Off |       0 |\n"
        "\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\t0-55\t0\t\tN/A\nGPU1\tNV18\t X \t0-55\t0\t\tN/A\n"
    )
    devices = parse_topology_text(text, Path("node.txt")).devices
    assert [d.name for d in devices] == ["NVIDIA H100 80GB HBM3"] * 2
    assert [d.pci_bus_id for d in devices] == ["0000:1b:00.0", "0000:43:00.0"]
    assert [d.uuid for d in devices] == ["GPU-01234567-89ab-cdef-0123-456789abcdef", None]


def test_one_blank_between_numa_node_and_gpu_numa_id():
    text = "  GPU0  CPU Affinity  NUMA Affinity  GPU NUMA ID\nGPU0  X  0-3  1 N/A\n"
    assert matrix_of_text(text).devices[0].numa_node == 1


def test_escapes_around_the_header_and_tabs_behind_nic_rows():
    text = (
        "\x1b[4mGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tPIX\t0-47\t0\t\tN/A\nNIC0\tPIX\t X \t\t\t\t\n"
        "\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n"
    )
    matrix = matrix_of_text(text)
    assert [n.name for n in matrix.nics] == ["mlx5_bond_0"]
    assert ([d.numa_node for d in matrix.devices], matrix.report) == ([0], ())


def test_lower_case_x_and_empty_affinities():
    matrix = matrix_of_text("GPU0 GPU1 CPU Affinity\nGPU0 x PHB\nGPU1 PHB x\n")
    assert [d.cpus for d in matrix.devices] == [None, None]
    assert "affinity cells are empty" in matrix.report[0]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", 2, "unknown word 'OK' between GPU0"),
        ("\tGPU0\tGPU1\nGPU0\tX\tMX\nGPU1\tMX\tX\n", 2, "unknown word 'MX' between GPU0 and GPU1"),
        ("\tGPU0\tGPU1\n", 1, "a header but no rows"),
        ("\tGPU0\nGPU0\tX\nGPU1\tPIX\tX\n", 3, "row GPU1 has no column"),
        ("hello GPU0 world\n", None, "no matrix of nvidia-smi topo -m found"),
    ],
)
def test_refuses(text, line, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        matrix_of_text(text, "f.txt")
    assert caught.value.line == line


HEADER = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"


@pytest.mark.parametrize(
    ("rests", "cpus", "nodes"),
    [
        (("\t0\t\tN/A", "0-15\t1\t\tN/A"), [None, "0-15"], [0, 1]),
        (("\t\tN/A\t\tN/A", "\t1\t\tN/A"), [None, None], [None, 1]),
        (("0-7\t\tN/A\t\tN/A", "8-15\t\t\t"), ["0-7", "8-15"], [None, None]),
        (("0-71\t0,3-9\t\t2", "72-143\t1,11-17\t\t10"), ["0-71", "72-143"], [0, 1]),
        (("0-71\t0,2-9\t\tN/A", "0-71\t0-8\t\t1"), ["0-71", "0-71"], [0, 0]),
        (("0-31\t0-1\t\tN/A", "0-31\t0,2\t\tN/A"), ["0-31", "0-31"], [None, None]),
    ],
)
@pytest.mark.parametrize("mark", ["", "    "])
def test_empty_cells_between_tabs_are_untold_and_shift_nothing(mark, rests, cpus, nodes):
    """CPU lists are empty where a job may use none of them; Grace lists its GPUs' own nodes too."""
    rows = f"{mark}GPU0\t X \tNV4\t{rests[0]}\n{mark}GPU1\tNV4\t X \t{rests[1]}\n"
    matrix = matrix_of_text(mark + HEADER + rows)
    assert [d.cpus for d in matrix.devices] == cpus
    assert [d.numa_node for d in matrix.devices] == nodes
    untold = None in cpus or "\t\t\t" in rests[1]
    assert any("affinity cells are empty" in line for line in matrix.report) == untold


@pytest.mark.parametrize(
    ("rest", "node"),
    [("0               N/A", 0), ("0-15            N/A", None), ("N/A", None)],
    ids=["only CPUs are ever empty", "not a memory node", "two are missing"],
)
def test_an_empty_cell_among_blanks_is_that_of_cpus_or_the_row_is_untold(rest, node):
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        f"GPU0     X      SYS                     {rest}\n"
        "GPU1    SYS      X      16-31           1               N/A\n"
    )
    matrix = matrix_of_text(text)
    assert [(d.cpus, d.numa_node) for d in matrix.devices] == [(None, node), ("16-31", 1)]
    assert any("affinity cells are empty" in line for line in matrix.report)


def test_an_empty_cell_of_a_pair_is_told_by_the_other_half_or_not_at_all():
    head = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\t\nGPU1\t\tX\tSYS\n"
    matrix = matrix_of_text(head + "GPU2\tPHB\tSYS\tX\n")
    assert [token(matrix, "GPU0", "GPU1"), token(matrix, "GPU0", "GPU2")] == ["NV4", "PHB"]
    assert not matrix.report
    matrix = matrix_of_text(head + "GPU2\t\tSYS\tX\n")
    assert relation(matrix, 0, 2) == UNKNOWN
    assert merge_topologies([matrix], "untold").route_of_pair["gpu0", "gpu1"].path_class == "NVL"
    assert "1 pairs have empty cells, first GPU0 - GPU2" in doubts(matrix)


def test_gpus_of_a_table_that_is_cut_in_the_rows_of_nics():
    text = (
        "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n"
        "GPU0\t X \tPIX\tPIX\tSYS\t0-7\nGPU1\tPIX\t X \tPHB\tSYS\t0-7\n"
        "NIC0\tPIX\tPHB\t X \tSYS\t\nNIC1\tSYS\tSY"
    )
    matrix = matrix_of_text(text)
    assert [token(matrix, "GPU0", name) for name in ("GPU1", "NIC0", "NIC1")] == [
        "PIX", "PIX", "SYS",
    ]  # fmt: skip
    assert "1 of 2 rows of NICs are missing or cut" in doubts(matrix)


@pytest.mark.parametrize("glued", ["NV12NV4", "NV12 NV4", "NV12\tNV4"])
def test_known_words_that_ran_together_are_cut_apart(glued):
    text = (
        "      GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
        f"GPU0   X  {glued} SYS 0-7\nGPU1 NV12 X SYSNODE 0-7\n"
        "GPU2 NV4SYS X PIX 0-7\nGPU3 SYS NODE PIXX 0-7\n"
    )
    matrix = matrix_of_text(text)
    words = [token(matrix, "GPU0", "GPU1"), token(matrix, "GPU0", "GPU2")]
    assert words + [token(matrix, "GPU1", "GPU3")] == ["NV12", "NV4", "NODE"]
    assert [d.cpus for d in matrix.devices] == ["0-7"] * 4


def damaged(*rows):
    """A table of four GPUs of which these rows are as here."""
    lines = (
        "      GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity\n"
        "GPU0   X  NV12 SYS PIX 0-7 0\nGPU1 NV12 X NODE PXB 0-7 0\n"
        "GPU2 SYS NODE X PHB 8-15 1\nGPU3 PIX PXB PHB X 8-15 1\n"
    ).splitlines(keepends=True)
    for at, row in rows:
        lines[at + 1] = f"GPU{at} {row}\n"
    return matrix_of_text("".join(lines))


MENDED = "damaged rows that are mended, since one reading is left: "


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([(2, "SYS NODEXPHB 8-15 1")], "GPU2 in line 4"),
        ([(2, "SYS X PHB 8-15 1")], "GPU2 in line 4"),
        ([(2, "NODE X PHB8-15 1")], "GPU2 in line 4"),
        ([(0, "NV12SYSPIX 0-7 0"), (1, "NV12XNODEPXB0-7 0")], "GPU1 in line 3"),
        ([(1, "X NODE PXB 0-7 0"), (2, "SYS NODE X 8-15 1")], "GPU1 in line 3, GPU2 in line 4"),
    ],
    ids=["three fused", "one lost", "lost, and fused with CPUs", "beside another", "two rows"],
)
def test_a_damaged_row_with_one_reading_is_mended(rows, named):
    matrix, whole = damaged(*rows), damaged()
    assert relations(matrix) == relations(whole)
    assert f"{MENDED}{named}" in matrix.report
    for row, device in enumerate(whole.devices):
        if f"GPU{row} in" in named:
            assert matrix.devices[row] == device


@pytest.mark.parametrize("row", ["SYS X NODE PHB 8-15 1", "SYS", "SYS NODE X PHB 8-15 1 2"])
def test_a_damaged_row_without_one_reading_is_untold_and_others_tell_its_pairs(row):
    """The diagonal's mark moved; a row that is cut; one cell more than columns."""
    matrix = damaged((2, row))
    assert relations(matrix) == relations(damaged())
    assert (matrix.devices[2].cpus, matrix.devices[2].numa_node) == (None, None)
    assert matrix.report[0] == "damaged rows that are untold: GPU2 in line 4"


def test_of_two_readings_none_is_taken():
    """The cell of GPU2 and GPU3 is lost in both rows, or another one in each."""
    matrix = damaged((2, "SYS SYS X 8-15 1"), (3, "SYS SYS X 8-15 1"))
    assert relation(matrix, 2, 3) == UNKNOWN
    assert matrix.report[0] == "damaged rows that are untold: GPU2 in line 4, GPU3 in line 5"
    assert "1 pairs have empty cells, first GPU2 - GPU3" in doubts(matrix)


def test_a_table_without_a_whole_row_is_refused():
    rows = [(0, "X"), (1, "X"), (2, "X"), (3, "X")]
    with pytest.raises(InputError, match="row GPU0 has 1 of 4 cells") as caught:
        damaged(*rows)
    assert caught.value.line == 2


P2P = {  # GPUs, peer access of all pairs, words of the report
    "2gpu-5090-gns.txt": (2, False, ("GPU not supported (GNS) for 2 ordered pairs",)),
    "2gpu-l4-cns.txt": (2, False, ("chipset not supported (CNS) for 2 ordered pairs",)),
    "8gpu-h100-ok.txt": (8, True, ()),
    "8gpu-pcie-ok.txt": (8, True, ()),
}
UNSTATED = "which capability was asked for (r, w, n, a, p) is not stated: r assumed"


def test_every_recorded_p2p_has_expectations(shared_dir):
    assert {p.name for p in (shared_dir / "machines/nvidia-smi-p2p").iterdir()} == set(P2P)


@pytest.mark.parametrize("name", sorted(P2P))
def test_p2p_says_what_the_file_says(shared_dir, name):
    facts = facts_of(shared_dir / "machines/nvidia-smi-p2p" / name)
    gpus, access, words = P2P[name]
    assert peers(facts) == dict.fromkeys(permutations(range(gpus), 2), access)
    assert facts.report[0] == UNSTATED
    assert [any(w in line for line in facts.report[1:]) for w in words] == [True] * len(words)
    assert len(facts.report) == 1 + len(words)
    assert [d.index for d in facts.devices] == list(range(gpus))


def written(cells, capability="r"):
    """As nvidia-smi prints it: rows indented by one blank, a tab at the end."""
    names = [f"GPU{i}" for i in range(len(cells))]
    rows = [
        " " + "\t".join([name, *("X" if i == j else c for j, c in enumerate(row))]) + "\t"
        for i, (name, row) in enumerate(zip(names, cells, strict=True))
    ]
    head = f"$ nvidia-smi topo -p2p {capability}\n" if capability else ""
    return head + " \t" + "\t".join(names) + "\t\n" + "\n".join(rows) + "\n"


states = st.sampled_from(sorted(MEANINGS))
matrices = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.lists(states, min_size=n, max_size=n), min_size=n, max_size=n)
)


@settings(max_examples=60, deadline=None)
@given(cells=matrices, capability=st.sampled_from(["r", "w", "rw", "n", "a", "p"]))
def test_access_is_what_reading_and_writing_say(cells, capability):
    if all(cell == "U" for i, row in enumerate(cells) for j, cell in enumerate(row) if i != j):
        cells[0][1] = "OK"
    facts = facts_of_text(written(cells, capability))
    decides = capability[0] in "rw"
    for i, j in permutations(range(len(cells)), 2):
        state = cells[i][j]
        if state == "OK":
            assert peers(facts)[i, j] is True
        elif decides and state != "U":
            assert peers(facts)[i, j] is False
        else:  # NVLink may not serve a pair that PCIe serves
            assert (i, j) not in peers(facts)
    torn = any(cells[i][j] != cells[j][i] for i, j in permutations(range(len(cells)), 2))
    assert torn == any("asymmetric" in line for line in facts.report)
    assert not any("not stated" in line for line in facts.report)


def test_a_word_of_a_newer_driver_leaves_its_pair_open():
    cells = [["X", "OK", "QNS"], ["OK", "X", "CNS"], ["QNS", "CNS", "X"]]
    facts = facts_of_text(written(cells))
    assert peers(facts) == {(0, 1): True, (1, 0): True, (1, 2): False, (2, 1): False}
    assert (
        "1 pairs have a word that is not known (QNS), first GPU0 - GPU2 at line 3"
        in (facts.report[0])
    )


def test_p2p_of_nics_is_refused():
    with pytest.raises(InputError, match="NIC0 is no GPU"):
        facts_of_text(" \tGPU0\tNIC0\t\n GPU0\tX\tOK\t\n NIC0\tOK\tX\t\n")
