"""Every recorded output of `nvidia-smi topo -m`: what it says, or why it is refused."""

import re
from collections import Counter, namedtuple
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import literals
from tests.topology.readers.recorded import (
    facts_of,
    facts_of_text,
    peers,
    relation,
    relations,
    row_of,
)
from toposeat.errors import InputError
from toposeat.topology import read_topology

Facts = namedtuple("Facts", "gpus nics tokens pairs cpus nodes nic_names doubts")
TABLES = literals(Path(__file__).with_name("recorded_matrices.txt"))
GOLDEN = {name: Facts(*facts) for name, *facts in TABLES["read"]}
REFUSED = {name: refusal for name, *refusal in TABLES["refused"]}


@pytest.fixture(scope="module")
def recorded(shared_dir):
    return shared_dir / "machines" / "nvidia-smi-topo"


def token(matrix, a, b):
    return relation(matrix, row_of(matrix)[a], row_of(matrix)[b])


def test_every_recorded_file_has_expectations(recorded, shared_dir):
    names = {path.name for path in recorded.iterdir()}
    index = (shared_dir / "machines" / "INDEX.tsv").read_text()
    listed = set(re.findall(r"^nvidia-smi-topo/(\S+)\t", index, re.MULTILINE))
    assert names == listed == set(GOLDEN) | set(REFUSED)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_says_what_the_file_says(recorded, name):
    matrix, facts = facts_of(recorded / name), GOLDEN[name]
    gpus = facts.gpus
    assert (len(matrix.devices), len(matrix.nics)) == (gpus, facts.nics)
    between = [word for (_, j), word in relations(matrix).items() if j < gpus]
    assert Counter(between) == facts.tokens
    for pair, expected in facts.pairs.items():
        a, b = pair.split()
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


states = st.sampled_from(["CNS", "DR", "GNS", "NS", "OK", "TNS", "U"])
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
