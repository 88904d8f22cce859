"""Jobs on several nodes: an application by the clock in several orders, and what a start costs.

Run: python -m benchmarks.bench_cluster [--rounds N] [--rate MBIT] [--steps N]

LAMMPS (Lennard-Jones, host buffers) with 16 ranks on 4 nodes in namespaces of this machine, below
two leaf switches whose uplinks are shaped (`tc tbf`) so slow that they decide. The job's hosts come
in an order that alternates between the switches, as a scheduler may give them. What is clocked are
seconds inside MPI as the interposer sees them, the median over the ranks; every round makes each
order once, the default twice (A/A). The control is a placement that differs from the planned one
and puts the same bytes on every uplink.

Then the start of 64 ranks that do nothing, by srun alone and by `toposeat run`: CPU seconds of the
whole machine, so that nothing else may run. Needs root, ../shared/testbed and the packages of
`TOPOSEAT_TEST_CLUSTER=1 make setup-test setup-bench`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.machine import describe, in_turns, middle, parser, ratios
from tests.support.cluster import VARIABLE, Cluster, running_cluster, toposeat, why_not
from tests.support.mpi import MpiToolchain, find_mpi

from toposeat.installed import native_path
from toposeat.model.placement_file import load_placement, save_placement

_SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "testbed" / "cluster.sh"
_RANKS, _HOSTS = 16, ("tb1", "tb3", "tb2", "tb4")
_RECORDS = "records"
_NODE = "polaris-4"  # four slots; its GPUs are not used
_INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {x} 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo {steps}
run {steps}
"""


@dataclass(frozen=True)
class Bed:
    """The cluster, and how its jobs are started."""

    cluster: Cluster
    mpi: MpiToolchain
    network: tuple[str, ...]

    def toposeat(self, *words: str) -> str:
        """Standard output of a toposeat command on the first host.

        Raises:
            SystemExit: it failed.
        """
        environment = {**self.mpi.env, "OMP_NUM_THREADS": "1"}
        done = self.cluster.on(
            _HOSTS[0], [toposeat(), *words], environment=environment, seconds=600
        )
        if done.returncode != 0:
            raise SystemExit(f"toposeat {shlex.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def launch(self) -> list[str]:
        """The application's line as a user types it."""
        hosts = ",".join(f"{host}:{_RANKS // len(_HOSTS)}" for host in _HOSTS)
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader", "-x", "OMP_NUM_THREADS"]
        program = ["lmp", "-in", "in.lj", "-log", "none"]
        return [str(self.mpi.mpirun), "-n", str(_RANKS), "--host", hosts, *tcp, *program]

    def recording(self) -> list[str]:
        """The line whose ranks leave records in a folder that all nodes see."""
        line = self.launch()
        at = line.index("lmp")
        recorder = ["--preload", str(native_path("lib/libtoposeat_ompi.so"))]
        folder = ["-E", f"TOPOSEAT_PROFILE_DIR={self.cluster.share}/{_RECORDS}"]
        return [*line[:at], str(native_path("bin/toposeat-exec")), *recorder, *folder, *line[at:]]

    def seconds(self, placement: str | None) -> float:
        """Seconds inside MPI of one run, the median over its ranks."""
        folder = self.cluster.share / _RECORDS
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        line = self.recording()
        if placement is None:
            done = self.cluster.on(_HOSTS[0], line, environment=self.mpi.env, seconds=600)
            if done.returncode != 0:
                raise SystemExit(f"{shlex.join(line)}\n{done.stdout}{done.stderr}")
        else:
            options = ["-p", placement, "--visibility", "cpu-only", "--no-verify"]
            self.toposeat("run", *options, "--", *line)
        self.toposeat("profile", "--merge", _RECORDS, "-f", "-o", "run.prof")
        found = json.loads(self.toposeat("report", "run.prof", "--json"))
        return statistics.median(rank["mpi_s"] for rank in found["time"]["ranks"])

    def cpu_seconds(self, line: Sequence[str]) -> float:
        """What a job costs this machine; it must be idle but for the job."""
        begin = _busy_ticks()
        done = self.cluster.on("tb0", line, seconds=600)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(line)}\n{done.stdout}{done.stderr}")
        return (_busy_ticks() - begin) / os.sysconf("SC_CLK_TCK")


def _busy_ticks() -> int:
    """Of all processors, since the machine started: user, nice, system, interrupts."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(int(words[at]) for at in (1, 2, 3, 6, 7))


def plan(bed: Bed, placement: str, *more: str) -> dict[str, float]:
    """Make a placement of the profile; predicted seconds of the default and of the placement."""
    words = ["map", "app.prof", *bed.network, "-f", "-o", placement, "--json", *more]
    found = json.loads(bed.toposeat(*words))
    return {which: found[which]["predicted_s"] for which in ("default", "placed")}


def swap_leaves(bed: Bed, placement: str, control: str) -> None:
    """The placement with the two leaf switches exchanged: as many bytes on every uplink."""
    other = {"tb1": "tb3", "tb3": "tb1", "tb2": "tb4", "tb4": "tb2"}
    placed = load_placement(bed.cluster.share / placement)
    by_place = {(seat.host, seat.local_rank): seat for seat in placed.seats}
    seats = tuple(
        replace(by_place[other[seat.host], seat.local_rank], rank=seat.rank)
        for seat in placed.seats
    )
    save_placement(replace(placed, seats=seats), bed.cluster.share / control, overwrite=True)


def main() -> int:
    """Print the table."""
    arguments = parser(__doc__ or "", rounds=5)
    arguments.add_argument("--rate", type=float, default=5, help="of an uplink, Mbit/s")
    arguments.add_argument("--steps", type=int, default=20, help="of the simulation")
    args = arguments.parse_args()
    os.environ.setdefault(VARIABLE, "1")
    mpi = find_mpi("debian-openmpi")
    reason = why_not(_SCRIPT) or (mpi if isinstance(mpi, str) else "")
    if reason or isinstance(mpi, str):
        print(f"no cluster here: {reason}", file=sys.stderr)
        return 0
    with running_cluster(_SCRIPT.resolve()) as cluster:
        for link in ("up0", "down0", "up1", "down1"):
            shape = f"tc qdisc add dev {link} root tbf rate {args.rate}mbit burst 64k latency 50ms"
            cluster.on("tb0", shlex.split(shape))
        (cluster.share / "in.lj").write_text(_INPUT.format(x=48, steps=args.steps))
        bandwidth = f"1.25:{args.rate / 8e3}"
        network = ("-t", f"slurm:{cluster.share}/topology.conf,bandwidth={bandwidth}")
        network += ("--node", _NODE, "--hosts", ",".join(_HOSTS))
        bed = Bed(cluster, mpi, network)
        measure(bed, args.rounds, args.rate)
        starts(bed, args.rounds)
    print(describe())
    return 0


def starts(bed: Bed, rounds: int) -> None:
    """CPU seconds of a job of 64 ranks that do nothing."""
    network = ["--node", "k80-16", "--hosts", ",".join(bed.cluster.nodes)]
    words = ["map", "stencil3d:4x4x4", *bed.network[:2], *network, "-f", "-o", "start.place"]
    bed.toposeat(*words, "--solver", "default")
    alone = ["srun", "-N4", "-n64", "-O", "true"]
    run = [toposeat(), "run", "-p", "start.place", "--visibility", "cpu-only"]
    unchecked = [*run, "--no-verify", "--", *alone]
    lines = {"srun": alone, "srun again": alone, "run --no-verify": unchecked}
    taken = in_turns({name: partial(bed.cpu_seconds, line) for name, line in lines.items()}, rounds)
    print("\n64 ranks on 4 nodes: CPU seconds of the whole machine, medians and quartiles")
    for name, seconds in taken.items():
        mid, low, high = middle(seconds)
        print(f"{name:<16} {mid:6.2f} s {low:6.2f}..{high:.2f} s")


def measure(bed: Bed, rounds: int, rate: float) -> None:
    """Profile, plan, clock in turns, print."""
    bed.toposeat("profile", "-f", "-o", "app.prof", "--", *bed.launch())
    planned = plan(bed, "planned.place")
    random = plan(bed, "random.place", "--solver", "random")
    swap_leaves(bed, "planned.place", "control.place")
    orders = {"default": None, "default again": None}
    orders |= {name: f"{name}.place" for name in ("planned", "control", "random")}
    taken = in_turns({name: partial(bed.seconds, file) for name, file in orders.items()}, rounds)
    predicted = {
        "default": planned["default"],
        "default again": planned["default"],
        "planned": planned["placed"],
        "control": planned["placed"],
        "random": random["placed"],
    }
    print(f"LAMMPS, {_RANKS} ranks on 4 nodes, uplinks of {rate:g} Mbit/s, {rounds} rounds")
    total = planned["default"]
    print(f"predicted for the default: {total:.3g} s of messages in a phase")
    print(f"{'order':<14} {'in MPI':>8} {'quartiles':>15} {'of default':>11} {'predicted':>10}")
    for name, seconds in taken.items():
        mid, low, high = middle(seconds)
        ratio = statistics.median(ratios(seconds, taken["default"]))
        share = predicted[name] / predicted["default"]
        print(
            f"{name:<14} {mid:6.2f} s {low:6.2f}..{high:<5.2f} s {ratio:>11.3f} {share:>10.3f}",
        )


if __name__ == "__main__":
    sys.exit(main())
