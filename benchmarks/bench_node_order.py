"""The order of nodes by the clock: data-parallel training over gloo, one rank on each of 12 nodes.

Run: python -m benchmarks.bench_node_order [--rounds N] [--rate MBIT] [--steps N] [--width N]

Twelve nodes in namespaces of this machine lie below three leaf switches whose uplinks are shaped
(`tc tbf`). `torchrun` with its c10d rendezvous numbers them by their names as text, so the ring of
gloo's all-reduce goes back and forth between the switches. `toposeat run` starts the same script
in the order that `toposeat map` chose from a profile of it. What is clocked is the median step of
rank 0; every round makes each order once, the default twice (A/A). The control is the same without
shaped uplinks, where nothing is to be gained. Needs root, ../shared/testbed, the packages of
`TOPOSEAT_TEST_CLUSTER=1 make setup-test`, and TOPOSEAT_TEST_TORCH: a Python with PyTorch that is
not below /tmp, which nodes do not see.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.machine import describe, in_turns, middle, parser, ratios
from tests.support.cluster import LOGIN, VARIABLE, Cluster, running_cluster, toposeat, why_not
from tests.support.pytorch import python_with_torch, why_no_torch

from toposeat import topology
from toposeat.topology.topology_file import save_topology

_SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "testbed" / "cluster.sh"
_NODES, _LEAVES = 12, 3
_PORT_GBPS = 1.25  # of a node: far above the uplinks, so that its value does not matter
_WARM = 2  # steps that are not clocked
_PROGRAM = f"""
import os, socket, statistics, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
width = int(sys.argv[2])
layer = torch.nn.Linear(width, width, bias=False)
model = DistributedDataParallel(layer, bucket_cap_mb=1000)
data, seconds = torch.ones(1, width), []
for _ in range(int(sys.argv[1]) + {_WARM}):
    begin = time.perf_counter()
    model(data).sum().backward()
    seconds.append(time.perf_counter() - begin)
hosts = [None] * dist.get_world_size()
dist.all_gather_object(hosts, socket.gethostname())
if dist.get_rank() == 0:
    print("step", statistics.median(seconds[{_WARM}:]), *hosts, flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Bed:
    """The cluster, the environment of its jobs, and the arguments of the script."""

    cluster: Cluster
    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    ports: count[int]
    orders: dict[str, tuple[str, ...]]  # the hosts of ranks 0, 1, ... that a job has had

    def torchrun(self, *words: str) -> list[str]:
        """A line that starts the script."""
        return ["torchrun", *words, str(self.cluster.share / "train.py"), *self.arguments]

    def seconds(self, name: str, front: Sequence[str]) -> float:
        """The median step of a job that is started on every node."""
        port = str(next(self.ports))
        each = [f"--nnodes={_NODES}", "--nproc-per-node=1", "--rdzv-backend=c10d"]
        line = [*front, *self.torchrun(*each, f"--rdzv-endpoint=tb1:{port}")]
        if front:
            line.insert(line.index("torchrun") + 1, f"--master-port={port}")
        started = [
            self.cluster.start(node, line, environment=self.environment)
            for node in self.cluster.nodes
        ]
        told = ""
        for each_node in started:
            out, error = each_node.communicate(timeout=600)
            if each_node.returncode != 0:
                raise SystemExit(f"{shlex.join(line)}\n{out}{error}")
            told += "".join(row for row in out.splitlines(True) if row.startswith("step "))
        _, seconds, *hosts = told.split()
        self.orders[name] = tuple(hosts)
        print(f"{name}: {float(seconds):.2f} s", file=sys.stderr, flush=True)  # it takes minutes
        return float(seconds)

    def toposeat(self, *words: str) -> str:
        """Standard output of a toposeat command on the login node."""
        line = [toposeat(), *words]
        done = self.cluster.on(LOGIN, line, environment=self.environment, seconds=600)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(line)}\n{done.stdout}{done.stderr}")
        return done.stdout


def plan(bed: Bed, rate_mbit: float) -> dict[str, float]:
    """Profile the script on one node, plan it; predicted seconds of default and placement."""
    share = bed.cluster.share
    one = topology.visible_part(topology.read_topology("polaris-4"), {"CUDA_VISIBLE_DEVICES": "0"})
    save_topology(one, share / "node.json")  # one slot; its GPU is not used
    local = bed.torchrun("--standalone", f"--nproc-per-node={_NODES}")
    bed.toposeat("profile", "-f", "-o", "ddp.prof", "--", *local)
    network = f"slurm:{share}/topology.conf,bandwidth={_PORT_GBPS}:{rate_mbit / 8e3}"
    hosts = ",".join(sorted(bed.cluster.nodes))
    words = ["map", "ddp.prof", "-t", network, "--node", "node.json", "--hosts", hosts]
    found = json.loads(bed.toposeat(*words, "-f", "-o", "job.place", "--json"))
    return {which: found[which]["predicted_s"] for which in ("default", "placed")}


def shape(cluster: Cluster, words: str) -> None:
    """Change both ends of every uplink."""
    for leaf in range(_LEAVES):
        for link in (f"up{leaf}", f"down{leaf}"):
            done = cluster.on(LOGIN, shlex.split(f"tc qdisc {words.format(link=link)}"))
            if done.returncode != 0:
                raise SystemExit(done.stderr)


def measure(bed: Bed, rounds: int, title: str, predicted: Mapping[str, float]) -> None:
    """Clock the orders in turns, and print them."""
    run = [toposeat(), "run", "--visibility", "cpu-only", "--no-verify", "-p"]
    fronts = {
        "default": [],
        "default again": [],
        "placed": [*run, str(bed.cluster.share / "job.place"), "--"],
    }
    taken = in_turns(
        {name: partial(bed.seconds, name, front) for name, front in fronts.items()}, rounds
    )
    print(f"\n{title}, {rounds} rounds: median step of rank 0")
    print(f"{'order':<14} {'step':>8} {'quartiles':>15} {'default / it':>13} {'predicted':>10}")
    for name, seconds in taken.items():
        mid, low, high = middle(seconds)
        ratio = statistics.median(ratios(taken["default"], seconds))
        print(
            f"{name:<14} {mid:6.2f} s {low:6.2f}..{high:<5.2f} s {ratio:>13.3f}"
            f" {predicted['default'] / predicted.get(name, predicted['default']):>10.3f}"
        )
    for name in ("default", "placed"):
        print(f"{name:<14} {' '.join(bed.orders[name])}")


def main() -> int:
    """Print both tables."""
    arguments = parser(__doc__ or "", rounds=3)
    arguments.add_argument("--rate", type=float, default=100, help="of an uplink, Mbit/s")
    arguments.add_argument("--steps", type=int, default=5, help="that are clocked in each job")
    arguments.add_argument("--width", type=int, default=2048, help="of the layer that is trained")
    args = arguments.parse_args()
    os.environ.setdefault(VARIABLE, "1")
    reason = why_not(_SCRIPT) or why_no_torch()
    if reason:
        print(f"no such job here: {reason}", file=sys.stderr)
        return 0
    python = Path(python_with_torch())
    with running_cluster(_SCRIPT.resolve(), nodes=_NODES, gpus=2, leaves=_LEAVES) as cluster:
        (cluster.share / "train.py").write_text(_PROGRAM)
        path = f"{python.parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
        bed = Bed(cluster, environment, (str(args.steps), str(args.width)), count(29500), {})
        predicted = plan(bed, args.rate)
        shape(cluster, f"add dev {{link}} root tbf rate {args.rate}mbit burst 64k latency 1000ms")
        measure(bed, args.rounds, f"uplinks of {args.rate:g} Mbit/s", predicted)
        shape(cluster, "del dev {link} root")
        measure(bed, args.rounds, "control: uplinks as fast as the rest", {"default": 1.0})
    print(describe())
    return 0


if __name__ == "__main__":
    sys.exit(main())
