"""`toposeat run --reorder` on four nodes of four ranks: places, and bytes between the nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.interposed import compile_c
from tests.support.mpi import FEW_MPI_NAMES, MpiToolchain

PROGRAM = Path(__file__).resolve().parent / "programs" / "exchange.c"
RANKS_PER_NODE = 4
BYTES = 256 * 1024
TIMES = 32  # at least 100 MiB between nodes

pytestmark = pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)


@dataclass(frozen=True)
class Outcome:
    """Where each new rank was, whom it sent to, and what was said."""

    new_rank: list[int]  # of each old one
    host: dict[int, str]  # of each new one
    targets: dict[int, list[int]]
    said: str

    @property
    def links(self) -> int:
        return sum(map(len, self.targets.values()))

    @property
    def between_nodes(self) -> int:
        """Links whose ends are on two nodes."""
        return sum(
            self.host[rank] != self.host[target]
            for rank, targets in self.targets.items()
            for target in targets
        )


def _launch(cluster: Cluster, mpi: MpiToolchain) -> list[str | Path]:
    ranks = RANKS_PER_NODE * len(cluster.nodes)
    if mpi.family == "openmpi":
        hosts = ",".join(f"{node}:{RANKS_PER_NODE}" for node in cluster.nodes)
        by_node = f"ppr:{RANKS_PER_NODE}:node:oversubscribe"
        return [mpi.mpirun, "-n", str(ranks), "--host", hosts, "--map-by", by_node]
    hosts = ",".join(cluster.nodes)
    return [mpi.mpirun, "-n", str(ranks), "-hosts", hosts, "-ppn", str(RANKS_PER_NODE)]


def _start(
    cluster: Cluster,
    mpi: MpiToolchain,
    topology: Sequence[str],
    *,
    reorder: bool,
    times: int = 0,
) -> Outcome:
    program = compile_c(mpi, PROGRAM, cluster.share)
    words = [*_launch(cluster, mpi), program, str(BYTES), str(times), *topology]
    if reorder:
        words = [toposeat(), "run", "--reorder", "--", *words]
    done = cluster.on(LOGIN, words, environment=mpi.env)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == RANKS_PER_NODE * len(cluster.nodes), done.stdout
    by_old = sorted(rows, key=lambda row: int(row[0]))
    return Outcome(
        new_rank=[int(row[1]) for row in by_old],
        host={int(row[1]): row[2] for row in rows},
        targets={int(row[1]): [int(word) for word in row[3:]] for row in rows},
        said=done.stderr,
    )


def _check_bytes(
    cluster: Cluster, mpi: MpiToolchain, topology: Sequence[str], *, reorder: bool
) -> Outcome:
    """What the ports of the nodes carried, an empty run subtracted, is what the places predict."""
    carried = []
    for times in (0, TIMES):
        before = sum(cluster.bytes_sent().values())
        outcome = _start(cluster, mpi, topology, reorder=reorder, times=times)
        carried.append(sum(cluster.bytes_sent().values()) - before)
    predicted = outcome.between_nodes * BYTES * TIMES
    assert predicted >= 100 * 2**20
    assert carried[1] - carried[0] == pytest.approx(predicted, rel=0.03)
    return outcome


def test_a_4x4_grid_is_tiled(cluster: Cluster, mpi: MpiToolchain) -> None:
    grid = ["grid", "4", "4"]
    plain = _check_bytes(cluster, mpi, grid, reorder=False)
    assert (plain.between_nodes, plain.links) == (24, 48)
    assert plain.new_rank == list(range(16))
    tiled = _check_bytes(cluster, mpi, grid, reorder=True)
    assert (tiled.between_nodes, tiled.links) == (16, 48)
    assert tiled.new_rank == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert "16 of 48 neighbour links between nodes, 24 in the order of old ranks" in tiled.said


def test_a_4x2x2_grid_stays(cluster: Cluster, mpi: MpiToolchain) -> None:
    stayed = _start(cluster, mpi, ["grid", "4", "2", "2"], reorder=True)
    assert stayed.new_rank == list(range(16))
    assert "24 of 56 neighbour links between nodes, no better order" in stayed.said


def test_a_sparse_graph_gains_what_the_mapper_predicts(cluster: Cluster, mpi: MpiToolchain) -> None:
    graph = ["graph", "3", "11"]
    plain = _start(cluster, mpi, graph, reorder=False)
    gained = _check_bytes(cluster, mpi, graph, reorder=True)
    assert gained.targets == plain.targets  # of each role, wherever it is
    said = re.search(r"(\d+) of (\d+) edges between nodes, (\d+) in the order", gained.said)
    assert said is not None, gained.said
    assert [int(number) for number in said.groups()] == [
        gained.between_nodes,
        gained.links,
        plain.between_nodes,
    ]
    assert gained.between_nodes < plain.between_nodes
