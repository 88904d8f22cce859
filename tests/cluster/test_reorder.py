"""`toposeat run --reorder` on four nodes of four ranks: places, and bytes between the nodes."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, toposeat
from tests.support.interposed import compile_c
from tests.support.mpi import FEW_MPI_NAMES
from toposeat.installed import native_path
from toposeat.model.result_file import parse_run
from toposeat.model.runs import SeatVerdict

PROGRAM = Path(__file__).resolve().parent / "programs" / "exchange.c"
RANKS_PER_NODE = 4
BYTES = 256 * 1024
TIMES = 32  # at least 100 MiB between nodes
_EMULATION = ("TOPOSEAT_EMULATED_MACHINE", "TOPOSEAT_EMULATOR_QUIET", "LD_LIBRARY_PATH")

pytestmark = pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)


@dataclass(frozen=True)
class Outcome:
    """Where each new rank was, whom it sent to, and what was said."""

    new_rank: list[int]  # of each old one
    host: dict[int, str]  # of each new one
    targets: dict[int, list[int]]
    said: str

    @property
    def links(self):
        return sum(map(len, self.targets.values()))

    @property
    def between_nodes(self):
        """Links whose ends are on two nodes."""
        return sum(
            self.host[rank] != self.host[target]
            for rank, targets in self.targets.items()
            for target in targets
        )


def _launch(cluster, mpi, *, emulated):
    ranks = RANKS_PER_NODE * len(cluster.nodes)
    if mpi.family == "openmpi":
        hosts = ",".join(f"{node}:{RANKS_PER_NODE}" for node in cluster.nodes)
        by_node = f"ppr:{RANKS_PER_NODE}:node:oversubscribe"
        carried = [word for name in _EMULATION if emulated for word in ("-x", name)]
        return [mpi.mpirun, "-n", str(ranks), "--host", hosts, "--map-by", by_node, *carried]
    hosts = ",".join(cluster.nodes)
    return [mpi.mpirun, "-n", str(ranks), "-hosts", hosts, "-ppn", str(RANKS_PER_NODE)]


def _start(cluster, mpi, topology, *, reorder, times=0, placement=None, environment=None):
    program = compile_c(mpi, PROGRAM, cluster.share)
    launch = _launch(cluster, mpi, emulated=environment is not None)
    words = [*launch, program, str(BYTES), str(times), *topology]
    if reorder:
        placed = ["-p", placement, "-f", "-o", cluster.share / "run.json"] if placement else []
        words = [toposeat(), "run", "--reorder", *placed, "--", *words]
    done = cluster.on(LOGIN, words, environment=environment or mpi.env)
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


def _plain_and_reordered(cluster, mpi, topology):
    """A run without reordering and without messages, and one with both.

    What the ports of the nodes carried in the second, less the first, is what the places predict.
    """
    outcomes = []
    carried = []
    for reorder, times in ((False, 0), (True, TIMES)):
        before = sum(cluster.bytes_sent().values())
        outcomes.append(_start(cluster, mpi, topology, reorder=reorder, times=times))
        carried.append(sum(cluster.bytes_sent().values()) - before)
    plain, reordered = outcomes
    predicted = reordered.between_nodes * BYTES * TIMES
    assert predicted >= 100 * 2**20
    assert carried[1] - carried[0] == pytest.approx(predicted, rel=0.03)
    return plain, reordered


def test_a_4x4_grid_is_tiled(cluster, mpi):
    plain, tiled = _plain_and_reordered(cluster, mpi, ["grid", "4", "4"])
    assert (plain.between_nodes, plain.links) == (24, 48)
    assert plain.new_rank == list(range(16))
    assert (tiled.between_nodes, tiled.links) == (16, 48)
    assert tiled.new_rank == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert "16 of 48 neighbour links between nodes, 24 in the order of old ranks" in tiled.said


def _placement(cluster, pci):
    """Ranks in blocks, the devices of each node in reverse."""
    listed = ",".join(f"{i}={each}=-" for i, each in enumerate(pci))
    lines = ["# toposeat/placement/1", "# vendor: nvidia"]
    lines += [f"# devices {node}: {listed}" for node in cluster.nodes]
    lines.append("rank\thost\tlocal_rank\tpci\tuuid\tindex\tcpus\tmemnode\tnic")
    for rank in range(RANKS_PER_NODE * len(cluster.nodes)):
        local = rank % RANKS_PER_NODE
        device = RANKS_PER_NODE - 1 - local
        cells = (rank, cluster.nodes[rank // RANKS_PER_NODE], local, pci[device], "-", device)
        lines.append("\t".join([*map(str, cells), "-", "-", "-"]))
    path = cluster.share / "reversed.place"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_placed_job_is_tiled_in_its_seats(cluster, mpi):
    emulated = cluster.emulated("polaris-4")
    machine = cluster.on(LOGIN, ["cat", emulated["TOPOSEAT_EMULATED_MACHINE"]]).stdout
    pci = re.findall(r"^device \d+ (\S+)", machine, flags=re.MULTILINE)
    libraries = f"{mpi.env.get('LD_LIBRARY_PATH', '')}:{emulated['LD_LIBRARY_PATH']}"
    both = {**emulated, **mpi.env, "LD_LIBRARY_PATH": libraries}
    tiled = _start(
        cluster,
        mpi,
        ["grid", "4", "4"],
        reorder=True,
        placement=_placement(cluster, pci),
        environment=both,
    )
    assert tiled.new_rank == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    record = cluster.share / "run.json"
    seats = parse_run(record.read_text(), record).seats
    assert [seat.host for seat in seats] == [node for node in cluster.nodes for _ in range(4)]
    assert {seat.visible_devices for seat in seats} == {"3,2,1,0"}
    assert SeatVerdict.MISMATCH not in {seat.verdict for seat in seats}


def test_a_sparse_graph_gains_what_the_mapper_predicts(cluster, mpi):
    plain, gained = _plain_and_reordered(cluster, mpi, ["graph", "3", "11"])
    assert gained.targets == plain.targets  # of each role, wherever it is
    said = re.search(r"(\d+) of (\d+) edges between nodes, (\d+) in the order", gained.said)
    assert said is not None, gained.said
    assert [int(number) for number in said.groups()] == [
        gained.between_nodes,
        gained.links,
        plain.between_nodes,
    ]
    assert gained.between_nodes < plain.between_nodes


def test_a_rank_without_the_library_reorders_none(cluster, mpi):
    """Home counts the ranks of all nodes: the job ends, and one line says why nothing moved."""
    program = compile_c(mpi, PROGRAM, cluster.share)
    at_five = '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 5 ] || unset LD_PRELOAD; exec "$0" "$@"'
    started = [*_launch(cluster, mpi, emulated=False), "sh", "-c", at_five, program]
    words = [toposeat(), "run", "--reorder", "--", *started, "1", "0", "grid", "4", "4"]
    done = cluster.on(LOGIN, words, environment=mpi.env)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = sorted(line.split() for line in done.stdout.splitlines())
    assert len(rows) == RANKS_PER_NODE * len(cluster.nodes)
    assert all(old == new for old, new, *_ in rows)
    said = [line for line in done.stderr.splitlines() if "toposeat: reorder:" in line]
    assert len(said) == 1, done.stderr
    assert "1 of 16 ranks are without this library" in said[0]


def test_by_hand_nothing_is_reordered(cluster, mpi):
    program = compile_c(mpi, PROGRAM, cluster.share)
    preloaded = ["env", f"LD_PRELOAD={native_path('lib/libtoposeat_reorder.so')}", program]
    started = [*_launch(cluster, mpi, emulated=False), *preloaded]
    done = cluster.on(LOGIN, [*started, "1", "0", "grid", "4", "4"], environment=mpi.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line.split()[0] == line.split()[1] for line in done.stdout.splitlines())
    said = [line for line in done.stderr.splitlines() if "toposeat: reorder:" in line]
    assert len(said) == 1, done.stderr
    assert "this job has several nodes" in said[0]
