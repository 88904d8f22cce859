"""Borrowed devices by the clock: ways beside their prediction, and the choice beside two others.

Run: python -m benchmarks.bench_borrow [--rounds N] [--size MIB]

Four nodes in namespaces of this machine below two leaf switches, every port and uplink shaped
(`tc tbf`) so slow that it decides. One node below each leaf lends two devices (PoCL), eight ranks
on the two other nodes borrow them. First one rank alone copies to a device below its own leaf and
to one below the other, beside what `borrow` predicts for the way. Then all ranks copy at once:
nearest devices first, the same again (A/A), the list in the order that the launcher gave it, and
drawn at random; the time is that of the slowest rank. Needs root, ../shared/testbed and Debian's
pocl-opencl-icd.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, in_turns, middle, parser, ratios
from tests.support.cluster import LOGIN, VARIABLE, Cluster, running_cluster, toposeat, why_not

from toposeat.installed import native_path
from toposeat.launch import seat_words
from toposeat.mapping import Ways, nearest_devices
from toposeat.model.lent import BorrowedDevice, BorrowedSeat, DeviceUse, LentDevice
from toposeat.topology import read_network

_ROOT = Path(__file__).resolve().parents[1]
_SCRIPT = (_ROOT / ".." / "shared" / "testbed" / "cluster.sh").resolve()
_COPY = _ROOT / "tests" / "support" / "opencl_copy.py"
_PORT_MBIT, _UPLINK_MBIT = 400, 100
_LENDERS, _BORROWERS = ("tb3", "tb1"), ("tb2", "tb4")
_PER_NODE = 4
_MIB = 1 << 20


def shape(cluster: Cluster) -> None:
    """Both directions of each port and of each uplink."""

    def slow(node: str, interface: str, mbit: int) -> None:
        words = f"tc qdisc add dev {interface} root tbf rate {mbit}mbit burst 64k latency 50ms"
        done = cluster.on(node, words.split())
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    for node in cluster.nodes:
        slow(LOGIN, f"v{node.removeprefix('tb')}", _PORT_MBIT)
        slow(node, "eth0", _PORT_MBIT)
    for end in ("up0", "up1", "down0", "down1"):
        slow(LOGIN, end, _UPLINK_MBIT)


class Bed:
    """A cluster on which devices are lent."""

    def __init__(self, cluster: Cluster, size: int) -> None:
        self._cluster, self._size = cluster, size
        own = {
            "POCL_DEVICES": "pthread pthread",
            "TOPOSEAT_CACHE_DIR": str(cluster.share / "cache"),
        }
        self._environment = {**os.environ, **own}
        rates = f"bandwidth={_PORT_MBIT / 8e3}:{_UPLINK_MBIT / 8e3}"
        self.ways = Ways(read_network(f"{cluster.share}/topology.conf,{rates}"))
        self.lenders = [self._lend(node) for node in _LENDERS]
        listed = self._cluster.on(
            LOGIN, [toposeat(), "borrow", "--json"], environment=self._environment
        )
        self.devices = [LentDevice(**each) for each in json.loads(listed.stdout)["devices"]]
        (file, *_) = (cluster.share / "cache" / "lent").glob(".toposeat-lend-*/lent.json")
        self._key = json.loads(file.read_text())["key"]

    def _lend(self, node: str) -> subprocess.Popen[str]:
        lender = self._cluster.start(
            LOGIN,
            [toposeat(), "lend", "--json", "--", "srun", "-N1", "-n1", "-w", node],
            environment=self._environment,
        )
        assert lender.stdout is not None
        lender.stdout.readline()
        return lender

    def end(self) -> None:
        """Stop lending."""
        self._cluster.on(LOGIN, ["pkill", "-f", "toposeat lend"])
        for each in self.lenders:
            each.communicate(timeout=60)

    def clock(
        self, hosts: Sequence[str], devices: Sequence[LentDevice], repeats: int = 1
    ) -> list[dict[str, Any]]:
        """What ranks on these hosts say that copy to these devices."""
        seats = [
            BorrowedSeat(
                rank=rank,
                host=host,
                devices=(BorrowedDevice(id=own.id, host=own.host, name=own.name),),
            )
            for rank, (host, own) in enumerate(zip(hosts, devices, strict=True))
        ]
        told = {"TOPOSEAT_BORROW": seat_words(seats, devices), "TOPOSEAT_CL_KEY": self._key}
        nodes = list(dict.fromkeys(hosts))
        words = ["srun", f"-N{len(nodes)}", f"-n{len(hosts)}", "-w", ",".join(nodes)]
        words += [f"--ntasks-per-node={len(hosts) // len(nodes)}"]
        words += [str(native_path("bin/toposeat-exec")), "--borrow"]
        words += [str(native_path("lib/libtoposeat-cl.so")), "--", sys.executable, str(_COPY)]
        done = self._cluster.on(
            LOGIN,
            [*words, str(self._size), str(repeats)],
            environment={**self._environment, **told},
        )
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        ranks = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(rank["same"] for rank in ranks)
        return ranks


def ways(bed: Bed, size: int, rounds: int) -> None:
    """One rank alone, beside what is predicted of its way."""
    host = _BORROWERS[0]
    print(f"{f'{size // _MIB} MiB from {host}, s':<24}{'predicted':>10}{'written':>18}{'read':>18}")
    use = DeviceUse(bytes_to=size, bytes_from=0, calls=1, waits=1)
    for lender in sorted(_LENDERS):
        device = next(each for each in bed.devices if each.host == lender)
        way = bed.ways.between(host, lender)
        assert way is not None
        predicted = way.seconds(use)
        (told,) = bed.clock([host], [device], repeats=rounds)
        each = [f"{told[name]:.3f} ({told[name] / predicted - 1:+.0%})" for name in _TIMES]
        print(f"{'to ' + device.id:<24}{predicted:>10.3f}{each[0]:>18}{each[1]:>18}")


def orders(bed: Bed, rounds: int) -> None:
    """All ranks at once, in four choices of devices; the slowest rank counts."""
    hosts = [host for host in _BORROWERS for _ in range(_PER_NODE)]
    near = [
        bed.devices[at] for (at,) in nearest_devices(hosts, bed.devices, bed.ways).devices_of_rank
    ]
    listed = [bed.devices[at * len(bed.devices) // len(hosts)] for at in range(len(hosts))]
    draw = random.Random(1)

    def slowest(devices: Sequence[LentDevice]) -> float:
        return max(sum(rank[name] for name in _TIMES) for rank in bed.clock(hosts, devices))

    def drawn() -> float:
        return slowest(draw.sample(listed, len(listed)))

    taken = in_turns(
        {
            "nearest": lambda: slowest(near),
            "nearest again": lambda: slowest(near),
            "list": lambda: slowest(listed),
            "random": drawn,
        },
        rounds,
    )
    print(f"\n{len(hosts)} ranks, {len(bed.devices)} devices: s of the slowest, to nearest")
    for name, values in taken.items():
        (own, low, high), (ratio, *_) = middle(values), middle(ratios(values, taken["nearest"]))
        print(f"{name:<24}{own:>10.2f} ({low:.2f} to {high:.2f}){ratio:>10.2f}x")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=5)
    options.add_argument("--size", type=int, default=4, help="MiB each way (default: 4)")
    args = options.parse_args()
    os.environ.setdefault(VARIABLE, "1")
    reason = why_not(_SCRIPT)
    if reason:
        raise SystemExit(reason)
    print(describe())
    with running_cluster(_SCRIPT) as cluster:
        shape(cluster)
        bed = Bed(cluster, args.size * _MIB)
        ways(bed, args.size * _MIB, args.rounds)
        orders(bed, args.rounds)
        bed.end()


_TIMES = ("write_s", "read_s")

if __name__ == "__main__":
    main()
