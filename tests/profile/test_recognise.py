from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic
from toposeat.profile.recognise import describe_pattern

KEY = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)


def of_matrix(matrix: np.ndarray) -> Traffic:
    return Traffic(ranks=len(matrix), origin="test", tables={KEY: PairTable.from_dense(matrix)})


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("stencil2d:4x4", "2-D 4x4 halo: 100 % of the bytes on 48 directed pairs"),
        ("stencil2d:4x4,wrap", "2-D 4x4 halo, periodic: 100 % of the bytes on 64 directed pairs"),
        ("stencil2d:8x2", "2-D 8x2 halo: 100 % of the bytes on 44 directed pairs"),
        (
            "stencil3d:2x2x4,weight=3",
            "3-D 2x2x4 halo: 100 % of the bytes on 56 directed pairs; per pair along the dimensions"
            " 3 : 1 : 1",
        ),
        ("alltoall:16", "all-to-all among all ranks"),
    ],
)
def test_patterns_are_named(pattern: str, words: str) -> None:
    assert describe_pattern(pattern_traffic(pattern)) == words


@pytest.mark.parametrize("pattern", ["random:16,seed=2,degree=3", "alltoall:4x2x2"])
def test_what_is_no_grid_has_no_name(pattern: str) -> None:
    assert describe_pattern(pattern_traffic(pattern)) == ""


def test_a_chain_and_a_closed_ring() -> None:
    chain = np.zeros((7, 7), dtype=np.int64)
    for i in range(6):
        chain[i, i + 1] = chain[i + 1, i] = 10
    assert describe_pattern(of_matrix(chain)).startswith("1-D 7 halo: ")
    chain[0, 6] = chain[6, 0] = 10
    assert describe_pattern(of_matrix(chain)).startswith("1-D 7 halo, periodic: ")


def test_small_talk_beside_the_pattern_is_tolerated() -> None:
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[0, 15] = matrix.sum() // 50
    assert describe_pattern(of_matrix(matrix)).startswith("2-D 4x4 halo: 98 %")
    matrix[0, 15] = matrix.sum() // 5
    assert describe_pattern(of_matrix(matrix)) == ""


def test_a_missing_neighbour_is_no_halo() -> None:
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[5, 6] = 0
    assert describe_pattern(of_matrix(matrix)) == ""


@given(
    shape=st.lists(st.integers(2, 4), min_size=1, max_size=3).filter(lambda s: np.prod(s) > 2),
    seed=st.integers(0, 1000),
)
def test_shuffled_ranks_are_not_taken_for_a_grid(shape: list[int], seed: int) -> None:
    """Whatever is said of shuffled ranks must be true of the matrix."""
    ranks = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(ranks)
    number = np.arange(ranks).reshape(shape)
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    for axis in range(len(shape)):
        a = np.take(number, range(shape[axis] - 1), axis).ravel()
        b = np.take(number, range(1, shape[axis]), axis).ravel()
        matrix[a, b] = matrix[b, a] = 100
    words = describe_pattern(of_matrix(matrix[np.ix_(order, order)]))
    if words:
        pairs = int(words.split(" on ")[1].split()[0]) if " on " in words else ranks * (ranks - 1)
        assert pairs == np.count_nonzero(matrix)


def test_recorded_applications(shared_dir: Path) -> None:
    lammps = json.loads((shared_dir / "traffic" / "lammps_lj_8.json").read_text())
    words = describe_pattern(of_matrix(np.array(lammps["kinds"]["p2p_send"]["bytes"])))
    assert words.startswith("3-D 2x2x2 halo: 100 % of the bytes on 24 directed pairs")
    gromacs = json.loads((shared_dir / "traffic" / "gromacs_pme_8.json").read_text())
    assert describe_pattern(of_matrix(np.array(gromacs["kinds"]["p2p_send"]["bytes"]))) == ""
