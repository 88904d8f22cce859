"""SimGrid's MPI simulator as a referee: the same machine and messages, someone else's code."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from toposeat.model.topology import Route, Topology

_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* usage: phase FLOWS, a file of "sender receiver bytes" lines: all at once, time of the slowest */
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, sender, receiver, bytes, count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  FILE *flows = fopen(argv[1], "r");
  MPI_Request requests[512];
  double start = MPI_Wtime();
  while (fscanf(flows, "%d %d %d", &sender, &receiver, &bytes) == 3) {
    if (receiver == rank)
      MPI_Irecv(malloc(bytes), bytes, MPI_BYTE, sender, 0, MPI_COMM_WORLD, &requests[count++]);
    if (sender == rank)
      MPI_Isend(calloc(bytes, 1), bytes, MPI_BYTE, receiver, 0, MPI_COMM_WORLD,
                &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  double mine = MPI_Wtime() - start, slowest;
  /* not a barrier: that would add two latencies */
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("seconds %.12e\n", slowest);
  MPI_Finalize();
  return 0;
}
"""

# SMPI's defaults are calibrated for Ethernet, and network/optim:Lazy of 3.32 lets flows exceed a
# shared link.
_OPTIONS = {
    "network/model": "SMPI",
    "network/optim": "Full",
    "network/bandwidth-factor": "1",
    "network/latency-factor": "1",
    "network/weight-S": "0",
    "network/TCP-gamma": "0",
    "network/crosstraffic": "0",
    "smpi/os": "0:0:0",
    "smpi/or": "0:0:0",
    "smpi/ois": "0:0:0",
    "smpi/async-small-thresh": "0",
    "smpi/send-is-detached-thresh": "0",
    "smpi/simulate-computation": "no",
    "smpi/wtime": "0",
    "smpi/test": "0",
    "smpi/iprobe": "0",
    "smpi/bw-factor": "0:1",
    "smpi/lat-factor": "0:1",
}

Flow = tuple[int, int, int]  # sending rank, receiving rank, bytes


def why_not() -> str | None:
    """The reason why there is no referee here, or None."""
    missing = [name for name in ("smpicc", "smpirun") if shutil.which(name) is None]
    return f"SimGrid's {' and '.join(missing)} not found" if missing else None


class Referee:
    """Runs one machine's phases in `folder`."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        self._topology = topology
        self._folder = folder
        (folder / "phase.c").write_text(_PROGRAM)
        _run(["smpicc", "-O1", "phase.c", "-o", "phase"], folder)
        (folder / "platform.xml").write_text("\n".join(platform(topology)))

    def seconds(self, flows: Sequence[Flow], device_of_rank: Sequence[int]) -> float:
        """Simulated time of the slowest rank when all flows are issued together."""
        hosts = [self._topology.devices[device].id for device in device_of_rank]
        (self._folder / "hosts").write_text("\n".join(hosts) + "\n")
        (self._folder / "flows").write_text("".join(f"{a} {b} {n}\n" for a, b, n in flows))
        output = _run(
            [
                *("smpirun", "-np", str(len(hosts))),
                *("-platform", "platform.xml", "-hostfile", "hosts"),
                *(f"--cfg={name}:{value}" for name, value in _OPTIONS.items()),
                *("--log=root.thres:critical", "./phase", str(self._folder / "flows")),
            ],
            self._folder,
        )
        (line,) = [each for each in output.splitlines() if each.startswith("seconds ")]
        return float(line.split()[1])


def platform(topology: Topology) -> Iterator[str]:
    """SimGrid's platform file, line by line: a link per direction, a fat pipe per cap."""
    yield "<?xml version='1.0'?>"
    yield '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    yield '<platform version="4.1"><zone id="machine" routing="Full">'
    for device in topology.devices:
        yield f'<host id="{device.id}" speed="1Gf"/>'
    for link in topology.links:
        latency = link.latency_s.value
        yield _link(f"{link.id}.forward", link.forward_bytes_per_s.value, latency)
        yield _link(f"{link.id}.backward", link.backward_bytes_per_s.value, latency)
        if link.combined_bytes_per_s is not None:
            yield _link(f"{link.id}.combined", link.combined_bytes_per_s.value, 0)
    for route in topology.routes:
        if route.cap_bytes_per_s is not None:
            name = f"{route.source}.{route.target}.cap"
            yield _link(name, route.cap_bytes_per_s.value, 0, "FATPIPE")
    yield from (_route(topology, route) for route in topology.routes)
    yield "</zone></platform>"


def _link(name: str, bandwidth: float, latency: float, sharing: str = "SHARED") -> str:
    return (
        f'<link id="{name}" bandwidth="{bandwidth!r}Bps" latency="{latency!r}s"'
        f' sharing_policy="{sharing}"/>'
    )


def _route(topology: Topology, route: Route) -> str:
    names, here = [], route.source
    for link_id in route.links:
        link = topology.link_of_id[link_id]
        direction, here = (
            ("forward", link.ends[1]) if here == link.ends[0] else ("backward", link.ends[0])
        )
        names.append(f"{link_id}.{direction}")
        if link.combined_bytes_per_s is not None:
            names.append(f"{link_id}.combined")
    if route.cap_bytes_per_s is not None:
        names.append(f"{route.source}.{route.target}.cap")
    uses = "".join(f'<link_ctn id="{name}"/>' for name in names)
    return f'<route src="{route.source}" dst="{route.target}" symmetrical="NO">{uses}</route>'


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
