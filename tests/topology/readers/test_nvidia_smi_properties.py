"""Any matrix, written in any known form, reads back to itself; damage never passes silently."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import UNTOLD, facts_of_text, merged, relation
from tests.topology.readers.render import RENDERERS
from toposeat.errors import InputError

TOKENS = ("NV1", "NV2", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")
CPUS = ("0-15,64-79", "16-31,80-95", "32-47", "48")


@st.composite
def matrices(draw):
    """Symmetric cells, the number of GPUs, CPU lists. Relations need not fit any machine."""
    gpus = draw(st.integers(1, 8))
    count = gpus + draw(st.integers(0, 4))
    cells = [["X"] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        near = TOKENS if j < gpus else TOKENS[4:]
        cells[i][j] = cells[j][i] = draw(st.sampled_from(near))
    return cells, gpus, draw(st.lists(st.sampled_from(CPUS), min_size=gpus, max_size=gpus))


def check(matrix, cells, gpus, cpus):
    count = len(cells)
    assert (len(matrix.devices), len(matrix.devices) + len(matrix.nics)) == (gpus, count)
    for i, j in combinations(range(count), 2):
        assert relation(matrix, i, j) == cells[i][j]
    assert [d.cpus for d in matrix.devices] == cpus


@pytest.mark.parametrize("form", sorted(RENDERERS))
@settings(max_examples=40, deadline=None)
@given(drawn=matrices())
def test_reads_back_what_was_written(form, drawn):
    cells, gpus, cpus = drawn
    check(facts_of_text(RENDERERS[form](cells, gpus, cpus)), cells, gpus, cpus)


@st.composite
def damages(draw, count):
    """Rows, places of cells, and what happens there: what one row alone cannot show is in one."""
    at = st.integers(0, count - 1)
    ways = st.sampled_from(["lost", "fused", "doubled"])
    several = st.lists(st.tuples(at, at, ways), min_size=1, max_size=3)
    return draw(several | st.tuples(at, at, st.just("swapped")).map(lambda each: [each]))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), drawn=matrices())
def test_of_damaged_rows_nothing_wrong_is_read(data, drawn):
    cells, gpus, cpus = drawn
    head, *rows = RENDERERS["spaces_old"](cells, gpus, cpus).splitlines()
    damage = data.draw(damages(len(cells)))
    for row, at, way in damage:
        words = rows[row].split()
        if way == "fused":
            words[at + 1 : at + 3] = ["".join(words[at + 1 : at + 3])]
        else:
            piece = words[at + 1 : at + 3]
            words[at + 1 : at + 3] = {
                "lost": piece[1:], "swapped": piece[::-1], "doubled": [*piece, *piece[1:]]
            }[way]  # fmt: skip
        rows[row] = " ".join(words)
    try:
        matrix = facts_of_text("\n".join([head, *rows]) + "\n")
    except InputError:
        return  # a word of two halves against each other, or no row is whole
    for i, j in combinations(range(len(cells)), 2):
        assert relation(matrix, i, j) in (UNTOLD, cells[i][j])
    assert all(d.cpus in (None, cpu) for d, cpu in zip(matrix.devices, cpus, strict=True))
    if len(damage) == 1 and damage[0][2] in ("lost", "fused") and len(cells) == gpus > 1:
        row, at, _ = damage[0]
        assert (matrix.devices[row].cpus is None) <= (at == row or at + 1 == len(cells))


@settings(max_examples=60, deadline=None)
@given(drawn=matrices())
def test_any_matrix_becomes_a_routed_graph(drawn):
    cells, gpus, cpus = drawn
    matrix = facts_of_text(RENDERERS["tabs_new"](cells, gpus, cpus))
    topology = merged(matrix)
    assert len(topology.routes) == gpus * (len(cells) - 1)
    for route in topology.routes:
        assert route.path_class.value == relation_word(cells, gpus, route.source, route.target) or (
            any("every GPU pair is SYS" in line for line in topology.report)
        )


def relation_word(cells, gpus, source, target):
    column = int(target[3:]) + (gpus if target.startswith("nic") else 0)
    word = cells[int(source[3:])][column]
    return "NVL" if word.startswith("NV") else word


@pytest.mark.parametrize("form", ["tabs_new", "spaces_old", "wrapped", "markdown"])
def test_no_truncation_passes_silently(form):
    """Cut after every character: refused, or nothing lost, or the doubt is reported."""
    cells = [
        ["X", "NV12", "SYS", "PIX", "SYS"],
        ["NV12", "X", "SYS", "PHB", "SYS"],
        ["SYS", "SYS", "X", "SYS", "PXB"],
        ["PIX", "PHB", "SYS", "X", "SYS"],
        ["SYS", "SYS", "PXB", "SYS", "X"],
    ]
    for gpus in (3, 5):
        cpus = ["0-15,64-79"] * gpus
        text = RENDERERS[form](cells, gpus, cpus)
        accepted = 0
        for cut in range(len(text)):
            try:
                matrix = facts_of_text(text[:cut])
            except InputError:
                continue
            accepted += 1
            doubts = "\n".join(matrix.report)
            for i, j in combinations(range(len(cells)), 2):
                stated = relation(matrix, i, j) == cells[i][j]
                untold = relation(matrix, i, j) == UNTOLD
                doubted = i >= gpus and "relations between NICs" in doubts
                assert stated or (untold and (doubted or "nothing is concluded" in doubts))
            for device in matrix.devices:
                assert cpus[0].startswith(device.cpus or "0")
            if [d.cpus for d in matrix.devices] != cpus:
                assert "its end may be cut" in doubts or "affinity cells are empty" in doubts
        assert accepted < len(text)
