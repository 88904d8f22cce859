"""`nvidia-smi topo -p2p`: states, capabilities, asymmetry, damage."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import facts_of, facts_of_text, peers
from toposeat.errors import InputError
from toposeat.topology.readers.nvidia_smi_topo import MEANINGS

GOLDEN = {  # GPUs, peer access of all pairs, words of the report
    "2gpu-5090-gns.txt": (2, False, ("GPU not supported (GNS) for 2 ordered pairs",)),
    "2gpu-l4-cns.txt": (2, False, ("chipset not supported (CNS) for 2 ordered pairs",)),
    "8gpu-h100-ok.txt": (8, True, ()),
    "8gpu-pcie-ok.txt": (8, True, ()),
}
UNSTATED = "which capability was asked for (r, w, n, a, p) is not stated: r assumed"


def test_every_recorded_file_has_expectations(shared_dir: Path) -> None:
    assert {p.name for p in (shared_dir / "machines/nvidia-smi-p2p").iterdir()} == set(GOLDEN)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_says_what_the_file_says(shared_dir: Path, name: str) -> None:
    facts = facts_of(shared_dir / "machines/nvidia-smi-p2p" / name)
    gpus, access, words = GOLDEN[name]
    assert peers(facts) == dict.fromkeys(permutations(range(gpus), 2), access)
    assert facts.report[0] == UNSTATED
    assert [any(w in line for line in facts.report[1:]) for w in words] == [True] * len(words)
    assert len(facts.report) == 1 + len(words)
    assert [d.index for d in facts.devices] == list(range(gpus))


def written(cells: list[list[str]], capability: str = "r") -> str:
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
def test_access_is_what_reading_and_writing_say(cells: list[list[str]], capability: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n", 3, "the row of GPU1 is missing"),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tX\tOK\t\n", 3, "columns are shifted"),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\n", 3, "has 1 of 2 cells"),
        (
            " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tYES\tX\t\n",
            3,
            "unknown word 'YES' between GPU1 and GPU0, but the other way it is 'OK'",
        ),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tPIX\tX\t\n", 3, "'PIX' between GPU1 and GPU0"),
        (" \tGPU0\tNIC0\t\n GPU0\tX\tOK\t\n NIC0\tOK\tX\t\n", 1, "NIC0 is no GPU"),
    ],
)
def test_refuses(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        facts_of_text(text)
    assert caught.value.line == line
    assert caught.value.hint


def test_a_word_of_a_newer_driver_leaves_its_pair_open() -> None:
    cells = [["X", "OK", "QNS"], ["OK", "X", "CNS"], ["QNS", "CNS", "X"]]
    facts = facts_of_text(written(cells))
    assert peers(facts) == {(0, 1): True, (1, 0): True, (1, 2): False, (2, 1): False}
    assert (
        "1 pairs have a word that is not known (QNS), first GPU0 - GPU2 at line 3"
        in (facts.report[0])
    )


def test_words_that_no_driver_could_print_are_damage() -> None:
    with pytest.raises(InputError, match="where a state"):
        facts_of_text(written([["X", "o-k!"], ["OK", "X"]]))
