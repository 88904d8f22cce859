"""Borrowed devices beside the node's own, and beside a bare socket, in turns.

Run: python -m benchmarks.bench_virtual [--rounds N] [--delay MICROSECONDS]

The device is this machine's OpenCL, lent to itself: client, proxy, device and the bare socket's
ends share its CPUs. Every figure is the median within a process of `virtual_client.c`; every round
makes each once, the borrowed ones twice (`again`, A/A). A move is of a process that waits, with 256
MiB and a program, between two proxies; it is clocked from the request to the answer. What is asked
is a difference or a ratio to a socket's figure of the same round. A relay on the way delays each
direction: a far device.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.machine import describe, differences, in_turns, middle, parser, ratios
from tests.support.lent import NATIVE, Proxy, why_no_opencl

from toposeat.installed import native_path

_SOURCE = Path(__file__).with_name("virtual_client.c")
_ROUNDS = {
    **{"ping": 500, "finish": 500, "batch": 200, "launches": 5, "events": 5, "small": 200},
    **{"write": 3, "read": 3, "push": 3, "pull": 3, "beside": 100},
}
_BULK = 256 << 20  # of virtual_client.c
_STRICT = {"TOPOSEAT_CL_STRICT": "1"}


@dataclass(frozen=True)
class Row:
    """A figure: whose, of what kind, and what is asked of it against which other."""

    kind: str
    whose: str
    against: str = ""
    asked: str = ""


_NEAR = (
    Row("ping", "socket"),
    Row("ping", "socket again", "ping socket", "+0"),
    Row("finish", "native", "ping socket"),
    Row("finish", "unix", "ping socket"),
    Row("finish", "tcp", "ping socket", "+30 us"),
    Row("finish", "tcp again", "finish tcp", "+0"),
    Row("batch", "native", "ping socket"),
    Row("batch", "tcp", "ping socket"),
    Row("batch", "strict", "ping socket"),
    Row("small", "native", "ping socket"),
    Row("small", "tcp", "ping socket"),
    Row("beside", "tcp", "ping socket", "at most 1 ms"),
    Row("start", "native"),
    Row("start", "tcp", "start native", "+50 ms"),
    Row("launches", "native"),
    Row("launches", "tcp", "launches native", "400 k/s"),
    Row("launches", "tcp again", "launches tcp", "x1"),
    Row("events", "native"),
    Row("events", "tcp", "events native"),
    Row("push", "socket"),
    Row("write", "native", "push socket"),
    Row("write", "tcp", "push socket", "x0.70"),
    Row("write", "tcp again", "write tcp", "x1"),
    Row("write", "unix", "push socket"),
    Row("pull", "socket"),
    Row("read", "native", "pull socket"),
    Row("read", "tcp", "pull socket", "x0.80"),
    Row("read", "tcp again", "read tcp", "x1"),
    Row("read", "unix", "pull socket"),
)
_FAR = (
    Row("ping", "far socket"),
    Row("ping", "far socket again", "ping far socket", "x1"),
    Row("finish", "far", "ping far socket", "x1.10"),
    Row("finish", "far again", "finish far", "x1"),
    Row("batch", "far", "ping far socket"),
    Row("batch", "far strict", "ping far socket"),
    Row("launches", "far"),
    Row("small", "far", "ping far socket"),
)


@contextmanager
def _background(words: Sequence[str]) -> Iterator[str]:
    """A process that prints its port."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _figure(words: Sequence[str], environment: Mapping[str, str]) -> float:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return float(done.stdout)


def _start(words: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(words, env=environment, check=True)
    return time.perf_counter() - begin


def _call(
    row: Row, program: str, ports: Mapping[str, str], environments: Mapping[str, Mapping[str, str]]
) -> Callable[[], float]:
    whose = row.whose.removesuffix(" again")
    if row.kind == "start":
        return partial(_start, (program, "start"), environments[whose])
    words = (program, row.kind, str(_ROUNDS[row.kind]))
    if whose in ports:
        return partial(_figure, (*words, ports[whose]), NATIVE)
    return partial(_figure, words, environments[whose])


def _move(program: str, source: Proxy, target: Proxy) -> float:
    """Seconds until a process with a full buffer has moved; what it has is looked at afterwards."""
    pipe = subprocess.PIPE
    line = [native_path("bin/toposeat-clproxy"), "--move", source.endpoint("tcp")]
    with subprocess.Popen(
        (program, "stay"), env=source.client(source.endpoint("tcp")), stdin=pipe, stdout=pipe
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        begin = time.perf_counter()
        done = subprocess.run(
            [*line, target.endpoint("tcp")],
            env={**NATIVE, "TOPOSEAT_CL_KEY": source.key},
            capture_output=True,
            check=False,
        )
        seconds = time.perf_counter() - begin
        process.communicate(b"\n")
    if process.returncode != 0 or json.loads(done.stdout or "{}").get("moved") != 1:
        raise SystemExit(f"nothing has moved: {done.stdout!r} {done.stderr!r}")
    return seconds


def _print_moves(program: str, proxy: Proxy, port: str, rounds: int) -> None:
    """A move beside one hop of its bytes over a bare socket and the build of its program."""
    with (
        tempfile.TemporaryDirectory() as cache,
        tempfile.TemporaryDirectory() as own,
        Proxy("--address", "127.0.0.1", key=proxy.key, POCL_CACHE_DIR=cache) as other,
    ):
        calls: dict[str, Callable[[], float]] = {
            "hop": lambda: _BULK / _figure((program, "push", "1", port), NATIVE),
            "build": partial(_figure, (program, "prepare"), {**NATIVE, "POCL_CACHE_DIR": own}),
            "move": partial(_move, program, proxy, other),
            "move again": partial(_move, program, proxy, other),
        }
        taken = in_turns(calls, rounds)
    least = [hop + build for hop, build in zip(taken["hop"], taken["build"], strict=True)]
    for name, values in taken.items():
        told = [f"{1e3 * each:.0f}" for each in middle(values)]
        print(f"{name:12}{told[0]:>6} ms ({told[1]} - {told[2]})", end="")
        share = middle(ratios(values, least))
        print(f"   x{share[0]:.2f} ({share[1]:.2f} - {share[2]:.2f}) of hop and build", end="")
        print("; asked: x1.3" if name == "move" else "")


def _print(rows: Sequence[Row], taken: Mapping[str, list[float]]) -> None:
    print(f"{'figure':26}{'median':>12}{'quartiles':>26}   against what, of the same round")
    for row in rows:
        name = f"{row.kind} {row.whose}"
        is_rate = middle(taken[name])[0] > 1000
        told = [_text(each, is_rate=is_rate, bulk=row.kind) for each in middle(taken[name])]
        line = f"{name:26}{told[0]:>12}{f'{told[1]} - {told[2]}':>26}   "
        if row.against and is_rate:
            share = middle(ratios(taken[name], taken[row.against]))
            line += f"x{share[0]:.2f} ({share[1]:.2f} - {share[2]:.2f}) of {row.against}"
        elif row.against:
            more = middle([1e6 * each for each in differences(taken[name], taken[row.against])])
            ratio = middle(ratios(taken[name], taken[row.against]))[0]
            line += f"{more[0]:+.0f} us ({more[1]:+.0f} to {more[2]:+.0f}), x{ratio:.2f}"
            line += f" of {row.against}"
        print(line + (f"; asked: {row.asked}" if row.asked else ""))


def _text(value: float, *, is_rate: bool, bulk: str) -> str:
    if not is_rate:
        return f"{value * 1e6:.1f} us"
    if bulk in ("launches", "events"):
        return f"{value / 1e3:.0f} k/s"
    return f"{value / 1e9:.2f} GB/s"


def main() -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--delay", default="500", help="of the relay, each way; default: 500 us")
    given = options.parse_args()
    print(describe())
    if why := why_no_opencl():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as folder, Proxy("--address", "127.0.0.1") as proxy:
        program = str(Path(folder, "virtual_client"))
        compiler = shutil.which("cc") or "gcc"
        line = [compiler, "-O2", "-o", program, str(_SOURCE), "-lOpenCL", "-lpthread"]
        subprocess.run(line, check=True)
        port = proxy.said["tcp"].rpartition(":")[2]
        with (
            _background((program, "serve")) as bare,
            _background((program, "relay", bare, given.delay)) as far_bare,
            _background((program, "relay", port, given.delay)) as far,
        ):
            tcp, far_end = proxy.endpoint("tcp"), f"tcp:127.0.0.1:{far}#0"
            environments = {
                "native": NATIVE,
                "unix": proxy.client(),
                "tcp": proxy.client(tcp),
                "strict": proxy.client(tcp, **_STRICT),
                "far": proxy.client(far_end),
                "far strict": proxy.client(far_end, **_STRICT),
            }
            ports = {"socket": bare, "far socket": far_bare}
            for rows in (_NEAR, _FAR):
                calls = {
                    f"{row.kind} {row.whose}": _call(row, program, ports, environments)
                    for row in rows
                }
                _print(rows, in_turns(calls, given.rounds))
                print()
            _print_moves(program, proxy, bare, given.rounds)


if __name__ == "__main__":
    main()
