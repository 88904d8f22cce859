"""The start of a large job: what the real home costs when made-up nodes connect to it.

The nodes are connections of one other process, all at once: each greets, asks for its seats, says
that its ranks are seated, and waits for the word to start. Counted are this process's CPU time and
memory, which are home's, and the bytes that it sent, beside the size of the placement. The control
is a home of one node, in turns.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import describe, in_turns, parser

from toposeat.launch.home import Home
from toposeat.launch.home_job import Decision
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import format_placement

_NODES = """
import asyncio, hmac, json, os, struct, sys
words, nodes, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
port, _, addresses = words.split(":", 2)
key, header = os.environ["TOPOSEAT_HOME_KEY"].encode(), struct.Struct(">IIQ")
report = b"# toposeat/report/1\\nseated\\tyes\\n" + b"key\\tvalue of some length\\n" * 25
async def node(number):
    came = 0
    reader, writer = await asyncio.open_connection(addresses.split(",")[0], int(port))
    def send(kind, number=0, data=b""):
        writer.write(header.pack(kind, number, len(data)) + data)
    async def receive():
        nonlocal came
        kind, _, length = header.unpack(await reader.readexactly(16))
        came += 16 + length
        return kind, await reader.readexactly(length)
    own = os.urandom(32)
    send(1, 2, own)
    theirs = (await receive())[1][:32]
    send(12, 0, hmac.digest(key, b"node" + own + theirs, "sha256"))
    assert (await receive())[0] == 2
    send(3, 0, b"node%05d" % number)
    lines = (await receive())[1].count(b"\\tnode")
    for rank in range(number * ranks, (number + 1) * ranks):
        send(5, rank, report)
    kind = (await receive())[0]
    writer.close()
    return came, lines, kind
async def main():
    return await asyncio.gather(*(node(i) for i in range(nodes)))
print(json.dumps(asyncio.run(main())))
"""
_GO = 7


def main() -> None:
    """Print a table."""
    options = parser(__doc__ or "", rounds=3)
    options.add_argument("--nodes", type=int, default=2000)
    options.add_argument("--ranks", type=int, default=8, help="of each node")
    args = options.parse_args()
    print(describe())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    print(f"open files: {soft}, at most {hard}; {args.rounds} rounds, of which the median counts\n")
    took = in_turns(
        {f"{n} nodes": lambda n=n: _start(n, args.ranks) for n in (args.nodes, 1)},
        args.rounds,
        warm=0,
    )
    print("                CPU of home     wall   memory   sent / placement")
    for name, rounds in took.items():
        cpu, wall, memory, sent = (
            sorted(column)[len(column) // 2] for column in zip(*rounds, strict=True)
        )
        spread = f"({min(r[0] for r in rounds):.2f}-{max(r[0] for r in rounds):.2f})"
        print(f"{name:>12}  {cpu:5.2f} {spread} s  {wall:5.1f} s  {memory:4.0f} MB  {sent:6.2f}")


def _start(nodes: int, ranks: int) -> tuple[float, float, float, float]:
    """CPU and wall seconds of a start, the process's memory in MB, bytes sent per byte of seats."""
    text = _placement(nodes, ranks).encode()
    with tempfile.TemporaryDirectory() as folder:
        cpu, clock = time.process_time(), time.perf_counter()
        home = Home(
            Path(folder),
            placement=text,
            ranks=nodes * ranks,
            hosts=["localhost"] * nodes,
        )
        with home:
            done = subprocess.run(
                ["sh", "-c", 'ulimit -n "$(ulimit -Hn)"; exec "$0" "$@"', sys.executable, "-c"]
                + [_NODES, home.words, str(nodes), str(ranks)],
                env=home.environment,
                capture_output=True,
                check=True,
            )
            wall = time.perf_counter() - clock
            assert home.decision is Decision.GO
        cpu = time.process_time() - cpu
    told = json.loads(done.stdout)
    assert all(lines == ranks and kind == _GO for _, lines, kind in told)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return cpu, wall, memory, sum(came for came, _, _ in told) / len(text)


def _placement(nodes: int, ranks: int) -> str:
    devices = tuple(
        HostDevice(index=i, pci_bus_id=f"0000:{i:02x}:00.0", uuid=f"GPU-{i:032x}")
        for i in range(ranks)
    )
    seats = tuple(
        Seat(
            rank=node * ranks + i,
            host=f"node{node:05d}",
            local_rank=i,
            pci_bus_id=device.pci_bus_id,
            uuid=device.uuid,
            index=i,
            cpus=f"{8 * i}-{8 * i + 7}",
            memory_node=i // 4,
            nic=f"mlx5_{i}:1",
        )
        for node in range(nodes)
        for i, device in enumerate(devices)
    )
    return format_placement(
        Placement(seats=seats, devices_of_host={"*": devices}, vendor="nvidia", metadata={})
    )


if __name__ == "__main__":
    main()
