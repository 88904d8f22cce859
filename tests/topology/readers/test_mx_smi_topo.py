"""`mx-smi topo -m`: nvidia-smi's matrix with MetaX's links."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.topology.readers.recorded import facts_of, facts_of_text
from toposeat.errors import InputError
from toposeat.model.topology import Vendor
from toposeat.topology import read_topology


@pytest.fixture
def recorded(shared_dir: Path) -> Path:
    return shared_dir / "machines/mx-smi-topo/8gpu-metax.txt"


def test_two_islands_of_four(recorded: Path) -> None:
    facts = facts_of(recorded)
    matrix = facts.relations
    assert matrix is not None
    assert Counter(r.path_class.value for r in matrix.relations.values()) == {"NVL": 12, "NODE": 16}
    assert matrix.relation(0, 3).path_class.value == "NVL"
    assert matrix.relation(3, 4).path_class.value == "NODE"
    assert {d.vendor for d in facts.devices} == {Vendor.UNKNOWN}
    assert {(d.numa_node, d.cpus) for d in facts.devices} == {(0, "0-31,64-95")}
    assert any("12 pairs are joined by MetaXLink" in line for line in facts.report)


def test_becomes_a_graph(recorded: Path) -> None:
    topology = read_topology(recorded)
    assert Counter(r.path_class.value for r in topology.routes) == {"NVL": 24, "NODE": 32}


def test_unknown_relations_stay_unknown() -> None:
    facts = facts_of_text(
        "MetaX System Management Interface\n\tGPU0\tGPU1\nGPU0\tX\tNA\nGPU1\tNA\tX\n"
    )
    assert facts.relations is not None
    assert facts.relations.relation(0, 1).path_class.value == "UNKNOWN"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("GPU3    MX", "GPU3    NODE", 10, "asymmetric: GPU0 -> GPU3 is NV1"),
        ("GPU3    MX", "GPU3    MXX", 10, "unknown relation 'MXX'"),
        ("GPU7    NODE    NODE", "GPU7    NODE", 14, "has 7 of 8 cells"),
    ],
)
def test_refuses(recorded: Path, old: str, new: str, line: int, words: str) -> None:
    text = recorded.read_text()
    assert old in text
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        facts_of_text(text.replace(old, new, 1))
    assert caught.value.line == line
