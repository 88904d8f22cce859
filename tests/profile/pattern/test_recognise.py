"""Patterns in words: what is said must be true of the matrix, and recorded runs are known."""

import json
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profile.records.records import write_record
from toposeat.model.traffic import Communicator, MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import merge_records, pattern_traffic
from toposeat.profile.pattern.recognise import percent, with_pattern
from toposeat.profile.records.segment import OPERATIONS

KEY = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)


def describe_pattern(traffic):
    return with_pattern(traffic).metadata.get("pattern", "")


def of_matrix(matrix, communicators=()):
    return Traffic(
        ranks=len(matrix),
        origin="test",
        tables={KEY: PairTable.from_dense(matrix)},
        communicators=communicators,
    )


def halo(shape, periodic=None, *, diagonals=False):
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


def lines(pairs, ranks):
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    for source, target in pairs:
        matrix[source, target] = 100
    return matrix


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("stencil2d:4x4", "2-D 4x4 halo: 100 % of the bytes on 48 directed pairs"),
        ("stencil2d:4x4,wrap", "2-D 4x4 halo, periodic: 100 % of the bytes on 64 directed pairs"),
        (
            "stencil3d:4x5x6,diagonals",
            "3-D 4x5x6 halo with diagonals (27-point): 100 % of the bytes on 1960 directed pairs",
        ),
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
            "random:8,degree=7",
            "all-to-all among all ranks, uneven: 100 % of the bytes on 56 directed pairs",
        ),
        ("alltoall:16", "alltoall among all ranks: 100 % of the bytes"),
        ("alltoall:4x2x2", "alltoall in 4 groups of 4 ranks, 4 apart: 100 % of the bytes"),
        ("ring:12", "ring, each rank to the next: 100 % of the bytes on 12 directed pairs"),
    ],
)
def test_named_patterns(pattern, words):
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
        (lines([(i, (i + 3) % 8) for i in range(8)], 8), "ring, each rank to rank + 3: 100 %"),
        (lines([(i, (i - 1) % 8) for i in range(8)], 8), "ring, each rank to the one before: 100"),
        (lines([(i, i ^ 2) for i in range(8)], 8), "exchange in pairs in 4 groups of 2 ranks, 2 "),
        (
            lines([(i, j) for i in range(16) for j in range(16) if i % 4 == j % 4 and i != j], 16),
            "all-to-all in 4 groups of 4 ranks, 4 apart: 100 % of the bytes on 48 directed pairs",
        ),
        (halo((2, 2), diagonals=True), "all-to-all among all ranks: 100 % of the bytes on 12 "),
        (halo((3,), (True,)), "all-to-all among all ranks: "),
    ],
)
def test_patterns_by_definition(matrix, words):
    assert describe_pattern(of_matrix(matrix)).startswith(words)


@pytest.mark.parametrize("pattern", ["random:16,seed=2,degree=3", "random:64,seed=5,degree=9"])
def test_what_is_no_pattern_is_called_irregular(pattern):
    assert describe_pattern(pattern_traffic(pattern)).startswith("irregular: ")


@pytest.mark.parametrize(("rest", "words"), [(13, "irregular: "), (80, "all-to-all among all ")])
def test_a_full_matrix_that_is_mostly_a_grid_is_no_all_to_all(rest, words):
    """AMG on 8 ranks: every pair is used, and the 24 of 2x2x2 carry 85 % (or nearly half)."""
    matrix = np.maximum(halo((2, 2, 2)), rest)
    np.fill_diagonal(matrix, 0)
    assert describe_pattern(of_matrix(matrix)).startswith(words)


def test_of_two_grids_with_equally_many_pairs_none_is_said():
    """4x6 and 6x4 are both all there, and two heavy pairs that they share make both fit."""
    heavy = 99_900 * lines([(0, 1), (1, 2)], 24)
    assert describe_pattern(of_matrix(halo((4, 6)) + halo((6, 4)) + heavy)).startswith("irregular")
    assert describe_pattern(of_matrix(halo((4, 6)) + heavy)).startswith("2-D 4x6 halo: 100 %")


def test_language_model_groups():
    words = describe_pattern(pattern_traffic("llm:tp=4,pp=4,dp=2"))
    assert words == (
        "point-to-point between 4 pipeline stages of 8 ranks: 3 % of the bytes on 48 directed"
        " pairs; collectives in 8 groups of 4 consecutive ranks: 91 %; collectives in 16 groups of"
        " 2 ranks, 4 apart: 6 %"
    )


def test_a_grid_in_the_order_of_a_communicator():
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


def test_a_grid_among_some_ranks():
    matrix = np.zeros((12, 12), dtype=np.int64)
    matrix[:9, :9] = halo((3, 3))
    matrix[11, 10] = 3
    cart = Communicator(id=4, ranks=tuple(range(9)))
    words = describe_pattern(of_matrix(matrix, (cart,)))
    assert words.startswith("2-D 3x3 halo: 99.9 % of the bytes on 24 directed pairs")
    assert words.endswith("ranks in the order of the 9 ranks of communicator 4")


def test_small_talk_beside_the_pattern_is_tolerated():
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[0, 15] = matrix.sum() // 50
    assert describe_pattern(of_matrix(matrix)).startswith("2-D 4x4 halo: 98 %")
    matrix[0, 15] = matrix.sum() // 5
    assert describe_pattern(of_matrix(matrix)).startswith("irregular")


def test_a_missing_neighbour_is_no_halo():
    matrix = pattern_traffic("stencil2d:4x4").mapped_table().dense_bytes(16)
    matrix[5, 6] = 0
    assert describe_pattern(of_matrix(matrix)).startswith("irregular")


SHAPES = st.lists(st.integers(2, 5), min_size=1, max_size=4).filter(lambda s: 2 < np.prod(s) < 200)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, data=st.data(), seed=st.integers(0, 1000))
def test_noise_does_not_hide_a_grid_nor_change_what_is_said_of_it(shape, data, seed):
    """Small talk of up to 3 % on any pairs: the pattern stays, with its real share."""
    periodic = tuple(data.draw(st.booleans()) for _ in shape)
    matrix = halo(tuple(shape), periodic) * 10_000
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 2, matrix.shape) * (matrix == 0)
    np.fill_diagonal(noise, 0)
    noise *= max(1, int(0.03 * matrix.sum() / max(noise.sum(), 1)))
    words = describe_pattern(of_matrix(matrix + noise))
    assert not words.startswith("irregular")
    check(words, matrix + noise)
    if f"-D {'x'.join(map(str, shape))} halo" in words:
        assert percent(matrix.sum() / (matrix + noise).sum()) in words


def check(words, matrix):
    """All claimed pairs are used, and carry the share that is claimed: 95 % of the bytes or more.

    The pairs are found again by the definition of what the words name.
    """
    ranks = len(matrix)
    claimed = np.zeros_like(matrix)
    if grid := re.match(
        r"\d-D ([\dx]+) halo( with diagonals)?[^,:]*(?:, periodic([^:]*))?:", words
    ):
        shape = tuple(map(int, grid[1].split("x")))
        along = [int(number) - 1 for number in re.findall(r"\d+", grid[3] or "")]
        everywhere = grid[3] == ""
        periodic = tuple(everywhere or at in along for at in range(len(shape)))
        claimed = halo(shape, periodic, diagonals=bool(grid[2]))
        assert np.count_nonzero(claimed) < ranks * (ranks - 1)
    elif ring := re.match(r"ring, each rank to (the next|the one before|rank \+ (\d+)):", words):
        step = {"the next": 1, "the one before": ranks - 1}.get(ring[1]) or int(ring[2])
        claimed = lines([(rank, (rank + step) % ranks) for rank in range(ranks)], ranks)
    elif groups := re.search(r" in (\d+) groups of (\d+) (?:consec\w+ )?ranks(?:, (\d+))?", words):
        number, size, step = (int(each or 1) for each in groups.groups())
        assert number * size == ranks
        label = np.arange(ranks) // (size * step) * step + np.arange(ranks) % step
        claimed = (label[:, None] == label) & ~np.eye(ranks, dtype=bool)
    elif words.startswith("all-to-all among all ranks"):
        claimed = ~np.eye(ranks, dtype=bool)
    else:
        assert words.startswith("irregular: ")
        return
    on = claimed > 0
    assert (matrix[on] > 0).all()
    share = matrix[on].sum() / (matrix.sum() - np.trace(matrix))
    assert share >= 0.95
    assert f": {percent(share)} of the bytes on {np.count_nonzero(on)} directed pairs" in words


@settings(max_examples=150, deadline=None)
@given(
    ranks=st.integers(6, 40),
    fill=st.floats(0.02, 0.9),
    spread=st.sampled_from([1, 3, 100, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_random_matrices_are_never_taken_for_a_pattern(ranks, fill, spread, seed):
    """What little may be said of a sparse one (a tree, groups) is checked against the matrix."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, spread + 1, (ranks, ranks)) * (rng.random((ranks, ranks)) < fill)
    np.fill_diagonal(matrix, 0)
    words = describe_pattern(of_matrix(matrix))
    if matrix.sum() == 0:
        assert words == ""
        return
    check(words, matrix)
    if matrix.astype(bool).sum() > 3 * ranks and fill < 0.8:
        assert words.startswith("irregular")


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 1000), diagonals=st.booleans())
def test_shuffled_ranks_are_not_taken_for_a_grid(shape, seed, diagonals):
    """Whatever is said of shuffled ranks must be true of the matrix: the words' own pairs."""
    grid = halo(tuple(shape), diagonals=diagonals)
    order = np.random.default_rng(seed).permutation(len(grid))
    matrix = grid[np.ix_(order, order)]
    check(describe_pattern(of_matrix(matrix)), matrix)


CODE = {name: code for code, name in OPERATIONS.items()}
P2P, EXACT, PUT = 0, 1, 2  # kinds of a record's pairs


def recorded(folder, ranks, pairs=(), collectives=(), apart=()):
    """What is said of a record on one node.

    `pairs` are messages by kind; `collectives` operation, bytes, calls, and of which group a rank
    is: of all ranks (0), or of those as many `apart`.
    """
    steps = [0, *apart]
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        write_record(
            folder,
            rank,
            ranks,
            pairs=[
                (kind, 0, int(peer), int(matrix[rank, peer]), 1)
                for kind, matrix in pairs
                for peer in np.flatnonzero(matrix[rank])
            ],
            events=[
                (steps.index(step), CODE[name], 0, -1, size, calls)
                for name, size, calls, step in collectives
            ],
            communicators=[
                (0, [(rank % step if step else 0, step or 1, ranks // (step or 1))])
                for step in steps
            ],
            header={"library": b"Open MPI v4.1.4, package: x"},
        )
    return describe_pattern(merge_records(folder))


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_the_edges_of_an_allreduce_are_no_grid(ranks, tmp_path):
    words = recorded(tmp_path, ranks, collectives=[("allreduce", 8, 50, 0)])
    assert words == "allreduce among all ranks: 100 % of the bytes"


@pytest.mark.parametrize("calls", [0, 1, 8, 20, 100])
def test_reductions_beside_a_halo_hide_nothing(calls, tmp_path):
    """4x4 ranks: each reduction of 8 bytes by recursive doubling moves 16 x 4 x 8 bytes."""
    own, reductions = 48 * 100, calls * 16 * 4 * 8
    words = recorded(
        tmp_path, 16, [(P2P, halo((4, 4)))], [("allreduce", 8, calls, 0)] if calls else []
    )
    share = percent(own / (own + reductions))
    expected = f"2-D 4x4 halo: {share} of the bytes on 48 directed pairs"
    if calls:
        expected += f"; allreduce among all ranks: {percent(reductions / (own + reductions))}"
    assert words == expected


@pytest.mark.parametrize("kind", [P2P, EXACT, PUT])
def test_messages_that_are_known_are_judged_whatever_call_sent_them(kind, tmp_path):
    """Sends, alltoallv and neighbour collectives, puts; a rank's own bytes are no pair."""
    matrix = halo((2, 4)) + 5_000_000 * np.eye(8, dtype=np.int64)
    words = recorded(tmp_path, 8, [(kind, matrix)], [("bcast", 8, 1, 0)])
    assert words.startswith("2-D 2x4 halo: 97 % of the bytes on 20 directed pairs; bcast among all")


def test_what_is_off_the_grid_is_said(tmp_path):
    matrix = 49 * halo((4, 4))
    matrix[0, 15] = matrix[15, 0] = 2400
    words = recorded(tmp_path, 16, [(P2P, matrix)])
    assert words == "2-D 4x4 halo: 98 % of the bytes on 48 directed pairs, 2 % elsewhere"


def test_stages_of_a_pipeline_send_messages(tmp_path):
    """Ranks 4 apart, beside allreduces in groups of 2: by puts they would be something else."""
    apart = lines([(a, b) for a in range(16) for b in range(16) if abs(a - b) == 4], 16)
    groups = [("allreduce", 4096, 2, 8), ("bcast", 64, 1, 0)]
    words = recorded(tmp_path / "sent", 16, [(P2P, apart)], groups, [8])
    assert words.startswith("point-to-point between 4 pipeline stages of 4 ranks: ")
    assert "; allreduce in 8 groups of 2 ranks, 8 apart: " in words
    put = recorded(tmp_path / "put", 16, [(PUT, apart)], groups, [8])
    alone = recorded(tmp_path / "alone", 16, [(P2P, apart)], groups[1:])
    assert "irregular: " in put
    assert "irregular: " in alone


def test_the_least_of_many_collectives_are_one(tmp_path):
    names = ("allreduce", "allgather", "bcast", "alltoall", "reduce")
    words = recorded(tmp_path, 4, collectives=[(name, 1000, 1, 0) for name in names])
    assert re.fullmatch(
        r"al\w+ among all ranks: \d+ % of the bytes; al\w+ among all ranks: \d+ %;"
        r" al\w+ among all ranks: \d+ %; other collectives: \d+ %",
        words,
    )


def test_recorded_applications(shared_dir):
    def said(name, kind="p2p_send"):
        run = json.loads((shared_dir / "traffic" / f"{name}.json").read_text())
        return describe_pattern(of_matrix(np.array(run["kinds"][kind]["bytes"])))

    assert said("lammps_lj_8").startswith("3-D 2x2x2 halo: 100 % of the bytes on 24 directed pairs")
    assert said("lammps_lj_16").startswith("3-D ")
    assert said("lammps_pppm_16").startswith("irregular: ")  # halo and transposes
    assert said("gromacs_pme_8").startswith("irregular: ")
    assert said("stencil3d_16").startswith("3-D 4x2x2 halo, periodic: ")


def test_many_ranks_in_little_time():
    words = describe_pattern(pattern_traffic("stencil3d:16x32x32,wrap"))
    assert words.startswith("3-D 16x32x32 halo, periodic: 100 % of the bytes on 98304 ")
    assert describe_pattern(pattern_traffic("random:16384,degree=6")).startswith("irregular")


def test_a_few_pairs_of_very_many_ranks_are_looked_at_in_bounded_memory():
    """Found by fuzzing: the pairs of a band of 250 000 ranks' width were to be written down."""
    n = 1_000_000
    table = PairTable.from_pairs([0, 5], [n // 4 - 1, 9], [1000, 1], [1, 1])
    traffic = Traffic(ranks=n, origin="test", tables={KEY: table})
    assert "band" not in describe_pattern(traffic)
