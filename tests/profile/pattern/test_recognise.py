"""Patterns in words: what is said must be true of the matrix, and recorded runs are known."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat.model.traffic import Communicator, MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic
from toposeat.profile.pattern.halo import MIN_SHARE, percent
from toposeat.profile.pattern.recognise import recognise, with_pattern

KEY = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)


def describe_pattern(traffic: Traffic) -> str:
    return with_pattern(traffic).metadata["pattern"]


def of_matrix(matrix: np.ndarray, communicators: tuple[Communicator, ...] = ()) -> Traffic:
    return Traffic(
        ranks=len(matrix),
        origin="test",
        tables={KEY: PairTable.from_dense(matrix)},
        communicators=communicators,
    )


def halo(
    shape: tuple[int, ...], periodic: tuple[bool, ...] | None = None, *, diagonals: bool = False
) -> np.ndarray:
    """By the definition, coordinate by coordinate: 100 bytes to each neighbour."""
    ranks = int(np.prod(shape))
    periodic = periodic or (False,) * len(shape)
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    for place in product(*map(range, shape)):
        for step in product((-1, 0, 1), repeat=len(shape)):
            if not any(step) or (sum(map(abs, step)) > 1 and not diagonals):
                continue
            other = [a + b for a, b in zip(place, step, strict=True)]
            for at, extent in enumerate(shape):
                if periodic[at]:
                    other[at] %= extent
            if all(0 <= a < extent for a, extent in zip(other, shape, strict=True)):
                ends = (np.ravel_multi_index(each, shape) for each in (place, tuple(other)))
                matrix[tuple(ends)] = 100
    np.fill_diagonal(matrix, 0)
    return matrix


def lines(pairs: list[tuple[int, int]], ranks: int) -> np.ndarray:
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    for source, target in pairs:
        matrix[source, target] = 100
    return matrix


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
        (
            "stencil3d:8x16x16,wrap",
            "3-D 8x16x16 halo, periodic: 100 % of the bytes on 12288 directed pairs",
        ),
        (
            "alltoall:16",
            "all-to-all among all ranks: 100 % of the bytes on 240 directed pairs",
        ),
        (
            "alltoall:4x2x2",
            "all-to-all in 4 groups of 4 ranks, 4 apart: 100 % of the bytes on 48 directed pairs",
        ),
        ("ring:12", "ring: 100 % of the bytes from each rank to the next, on 12 directed pairs"),
    ],
)
def test_named_patterns(pattern: str, words: str) -> None:
    assert describe_pattern(pattern_traffic(pattern)) == words


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (halo((7,)), "1-D 7 halo: "),
        (halo((7,), (True,)), "1-D 7 halo, periodic: "),
        (halo((4, 5), diagonals=True), "2-D 4x5 halo with diagonals (9-point): "),
        (
            halo((3, 4, 4), (True,) * 3, diagonals=True),
            "3-D 3x4x4 halo with diagonals (27-point), periodic: 100 % of the bytes on 1248 ",
        ),
        (halo((3, 4, 5), (True, False, True)), "3-D 3x4x5 halo, periodic along dimensions 1 and 3"),
        (halo((2, 2, 2, 2, 3)), "5-D 2x2x2x2x3 halo: "),
        (halo((6, 4))[::-1, ::-1], "2-D 6x4 halo: "),  # ranks counted from the end
        (lines([(i, (i + 3) % 8) for i in range(8)], 8), "ring: 100 % of the bytes from each rank"),
    ],
)
def test_patterns_by_definition(matrix: np.ndarray, words: str) -> None:
    assert describe_pattern(of_matrix(matrix)).startswith(words)


@pytest.mark.parametrize("pattern", ["random:16,seed=2,degree=3", "random:64,seed=5,degree=9"])
def test_what_is_no_pattern_is_called_irregular(pattern: str) -> None:
    assert describe_pattern(pattern_traffic(pattern)).startswith("irregular: ")


def test_language_model_groups() -> None:
    words = describe_pattern(pattern_traffic("llm:tp=4,pp=4,dp=2"))
    assert words.startswith("collectives in process groups, 100 % of the bytes: ")
    assert "in 8 groups of 4 consecutive ranks (where tensor parallelism sits)" in words
    assert "in 16 groups of 2 ranks, 4 apart (where data parallelism sits)" in words
    assert "between 4 pipeline stages" in words


def test_a_grid_in_the_order_of_a_communicator() -> None:
    """MPI_Cart_create with reordering: world rank order[i] is rank i of the grid."""
    order = np.random.default_rng(3).permutation(24)
    grid = halo((2, 3, 4), (False, True, True))
    matrix = np.zeros_like(grid)
    matrix[np.ix_(order, order)] = grid
    cart = Communicator(id=1, ranks=tuple(int(r) for r in order), name="cart")
    words = describe_pattern(of_matrix(matrix, (cart,)))
    assert words.startswith("3-D 2x3x4 halo, periodic: 100 % of the bytes on ")
    assert words.endswith("; ranks in the order of communicator cart")
    assert describe_pattern(of_matrix(matrix)).startswith("irregular")


def test_a_grid_among_some_ranks() -> None:
    matrix = np.zeros((12, 12), dtype=np.int64)
    matrix[:9, :9] = halo((3, 3))
    matrix[11, 10] = 3
    cart = Communicator(id=4, ranks=tuple(range(9)))
    words = describe_pattern(of_matrix(matrix, (cart,)))
    assert words.startswith("2-D 3x3 halo: 99.9 % of the bytes on 24 directed pairs")
    assert words.endswith("ranks in the order of the 9 ranks of communicator 4")


def test_small_talk_beside_the_pattern_is_tolerated() -> None:
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[0, 15] = matrix.sum() // 50
    assert describe_pattern(of_matrix(matrix)).startswith("2-D 4x4 halo: 98 %")
    matrix[0, 15] = matrix.sum() // 5
    assert describe_pattern(of_matrix(matrix)).startswith("irregular")


def test_a_missing_neighbour_is_no_halo() -> None:
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[5, 6] = 0
    assert describe_pattern(of_matrix(matrix)).startswith("irregular")


SHAPES = st.lists(st.integers(2, 5), min_size=1, max_size=4).filter(lambda s: 2 < np.prod(s) < 200)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, data=st.data(), seed=st.integers(0, 1000))
def test_noise_does_not_hide_a_grid_nor_change_what_is_said_of_it(
    shape: list[int], data: st.DataObject, seed: int
) -> None:
    """Small talk of up to 3 % on any pairs: the pattern stays, with its real share."""
    periodic = tuple(data.draw(st.booleans()) for _ in shape)
    matrix = halo(tuple(shape), periodic) * 10_000
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 2, matrix.shape) * (matrix == 0)
    np.fill_diagonal(noise, 0)
    noise *= max(1, int(0.03 * matrix.sum() / max(noise.sum(), 1)))
    found = recognise(of_matrix(matrix + noise))
    assert found is not None
    assert found.kind != "irregular"
    check(found.keys, found.share, matrix + noise)
    if found.kind == "halo" and "-D " + "x".join(map(str, shape)) in found.words:
        assert percent(matrix.sum() / (matrix + noise).sum()) in found.words


def check(keys: np.ndarray, share: float, matrix: np.ndarray) -> None:
    """All claimed pairs are used, and carry the share that is claimed."""
    source, target = keys // len(matrix), keys % len(matrix)
    assert len(set(keys.tolist())) == len(keys)
    assert (matrix[source, target] > 0).all()
    assert (source != target).all()
    total = matrix.sum() - np.trace(matrix)
    assert share == pytest.approx(matrix[source, target].sum() / total)


@settings(max_examples=150, deadline=None)
@given(
    ranks=st.integers(6, 40),
    fill=st.floats(0.02, 0.9),
    spread=st.sampled_from([1, 3, 100, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_random_matrices_are_never_taken_for_a_pattern(
    ranks: int, fill: float, spread: int, seed: int
) -> None:
    """What little may be said of a sparse one (a tree, groups) is checked against the matrix."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, spread + 1, (ranks, ranks)) * (rng.random((ranks, ranks)) < fill)
    np.fill_diagonal(matrix, 0)
    found = recognise(of_matrix(matrix))
    if matrix.sum() == 0:
        assert found is None
        return
    assert found is not None
    check(found.keys, found.share, matrix)
    if matrix.astype(bool).sum() > 3 * ranks and fill < 0.8:
        assert found.kind == "irregular", found.words
    if found.kind != "irregular":
        assert found.share >= MIN_SHARE


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 1000), diagonals=st.booleans())
def test_shuffled_ranks_are_not_taken_for_a_grid(
    shape: list[int], seed: int, diagonals: bool
) -> None:
    """Whatever is said of shuffled ranks must be true of the matrix: the words' own pairs."""
    grid = halo(tuple(shape), diagonals=diagonals)
    order = np.random.default_rng(seed).permutation(len(grid))
    matrix = grid[np.ix_(order, order)]
    found = recognise(of_matrix(matrix))
    assert found is not None
    check(found.keys, found.share, matrix)
    if found.kind == "halo":
        said = tuple(map(int, found.words.split()[1].split("x")))
        wrap = (", periodic:" in found.words,) * len(said)
        if "along dimension" not in found.words:
            again = halo(said, wrap)
            assert (np.flatnonzero(again.ravel()) == found.keys).all()


def test_recorded_applications(shared_dir: Path) -> None:
    def said(name: str, kind: str = "p2p_send") -> str:
        run = json.loads((shared_dir / "traffic" / f"{name}.json").read_text())
        return describe_pattern(of_matrix(np.array(run["kinds"][kind]["bytes"])))

    assert said("lammps_lj_8").startswith("3-D 2x2x2 halo: 100 % of the bytes on 24 directed pairs")
    assert said("lammps_lj_16").startswith("3-D ")
    assert said("lammps_pppm_16").startswith("irregular: ")  # halo and transposes
    assert said("gromacs_pme_8").startswith("irregular: ")
    assert said("stencil3d_16").startswith("3-D 4x2x2 halo, periodic: ")


def test_many_ranks_in_little_time() -> None:
    words = describe_pattern(pattern_traffic("stencil3d:16x32x32,wrap"))
    assert words.startswith("3-D 16x32x32 halo, periodic: 100 % of the bytes on 98304 ")
    assert describe_pattern(pattern_traffic("random:16384,degree=6")).startswith("irregular")


def test_a_few_pairs_of_very_many_ranks_are_looked_at_in_bounded_memory() -> None:
    """Found by fuzzing: the pairs of a band of 250 000 ranks' width were to be written down."""
    n = 1_000_000
    table = PairTable.from_pairs([0, 5], [n // 4 - 1, 9], [1000, 1], [1, 1])
    traffic = Traffic(ranks=n, origin="test", tables={KEY: table})
    assert "band" not in describe_pattern(traffic)
