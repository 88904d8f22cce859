"""Every recorded output of `nvidia-smi topo -m`: what it says, or why it is refused."""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import permutations

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
from toposeat.topology import read_topology
from toposeat.topology.readers.nvidia_smi_topo import MEANINGS


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
