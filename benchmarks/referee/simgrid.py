"""SimGrid's MPI simulator (SMPI): real MPI programs on a platform made of a topology.

SimGrid is used as it is installed, never linked. It is an independent check of code, not of
physics: both it and our flow model are max-min fair fluids on the same numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from toposeat.errors import ApplicationError, ToposeatError, UnavailableError
from toposeat.evaluation.network import NetworkArrays, network_arrays
from toposeat.model.job_folder import job_folder
from toposeat.model.topology import Topology

NOT_A_LIMIT_BYTES_PER_S = 1e15  # capacities from here on are left out of the platform
LEAST_LATENCY_S = 1e-12  # a route without latency would be weighted unlike all others
_NEW_NAMES = (3, 35)  # of the precision and factor options; their old names stayed as aliases
_TIMEOUT_S = 600.0

# SMPI's defaults are calibrated for Ethernet. Its default of network/optim, Lazy, lets flows of
# 3.32 exceed a shared link where some links have no latency.
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
}
_OLD_OPTIONS = {"surf/precision": "1e-12", "smpi/bw-factor": "0:1", "smpi/lat-factor": "0:1"}
# Which of SMPI's variants of a collective sends the same messages in the same steps as ours.
_COLLECTIVES = {
    ("alltoall", "linear"): "basic_linear",
    ("alltoall", "pairwise"): "ring",
    ("alltoall", "bruck"): "bruck",
    ("allgather", "ring"): "NTSLR",
    ("allgather", "bruck"): "bruck",
    ("allgather", "recursive-doubling"): "rdb",
    ("allreduce", "ring"): "lr",
    ("allreduce", "recursive-doubling"): "rdb",
    ("bcast", "binomial"): "binomial_tree",
}
_NEW_OPTIONS = {"precision/timing": "1e-12"}


def why_no_smpi() -> str | None:
    """The reason why nothing can be simulated here, or None."""
    missing = [name for name in ("smpicc", "smpirun") if shutil.which(name) is None]
    return f"SimGrid's {' and '.join(missing)} not found" if missing else None


def smpi_version() -> tuple[int, int]:
    """Version (major, minor) of the installed SimGrid.

    Raises:
        UnavailableError: it is missing, or does not print its version.
    """
    _require()
    done = subprocess.run(
        ["smpirun", "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    found = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
    if found is None:
        raise UnavailableError(
            "smpirun does not say which SimGrid it is", hint="install SimGrid 3.32 or later"
        )
    return int(found.group(1)), int(found.group(2))


def smpi_options(version: tuple[int, int]) -> tuple[str, ...]:
    """Options under which the simulator shares links as plain max-min fairness does."""
    named = {**_OPTIONS, **(_NEW_OPTIONS if version >= _NEW_NAMES else _OLD_OPTIONS)}
    return (*(f"--cfg={name}:{value}" for name, value in named.items()),
            "--log=root.thres:critical")  # fmt: skip


def smpi_collective(operation: str, algorithm: str) -> tuple[str, ...]:
    """The option that makes SMPI run a collective by this algorithm; empty where it has none."""
    name = _COLLECTIVES.get((operation, algorithm))
    return () if name is None else (f"--cfg=smpi/{operation}:{name}",)


def compile_for_smpi(sources: Sequence[Path], program: Path, flags: Sequence[str] = ()) -> None:
    """Compile C sources with `smpicc`.

    Raises:
        UnavailableError: there is no SimGrid.
        ToposeatError: it does not compile.
    """
    _require()
    line = ["smpicc", "-O1", *flags, *map(str, sources), "-o", str(program), "-lm"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ToposeatError(
            f"smpicc does not compile {sources[0].name}: {_last_line(done.stderr)}",
            hint="check that SimGrid's development files belong to its smpicc",
        )


def run_on_smpi(
    topology: Topology,
    device_of_rank: Sequence[int],
    program: Path,
    arguments: Sequence[str] = (),
    *,
    message_bytes: float | None = None,
    options: Sequence[str] = (),
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """What an MPI program, compiled for SMPI, prints when its ranks sit on these devices.

    Times are simulated seconds. The program runs in a folder of its own. SimGrid gives flows of
    shorter latency a larger share of a link; with equal latencies it shares as our model does.

    Args:
        topology: the machine; every ordered pair of devices needs a route.
        device_of_rank: positions in `topology.devices`; several ranks may share one.
        program: compiled by `compile_for_smpi`.
        arguments: of the program.
        message_bytes: routes with a curve are taken at this message size; without, at their best.
        options: more of the simulator's, such as `smpi_collective`.
        timeout_s: of wall time.

    Raises:
        UnavailableError: there is no SimGrid.
        ApplicationError: the simulation failed.
    """
    version = smpi_version()
    text = smpi_platform(topology, message_bytes=message_bytes)
    with job_folder("smpi") as folder:
        (folder / "platform.xml").write_text(text)
        hosts = "".join(f"{_host(device)}\n" for device in device_of_rank)
        (folder / "hosts").write_text(hosts)
        line = [
            *("smpirun", "-np", str(len(device_of_rank))),
            *("-platform", "platform.xml", "-hostfile", "hosts"),
            *smpi_options(version),
            *options,
            str(program.resolve()),
            *arguments,
        ]
        return _output(line, folder, timeout_s)


def smpi_platform(topology: Topology, *, message_bytes: float | None = None) -> str:
    """SimGrid's platform file of a machine; see `run_on_smpi` for the arguments.

    A full routing table with one route per ordered pair of devices. Each direction of a link is a
    SHARED link, so is a combined capacity and what a pair may carry in both directions together. A
    FATPIPE link of its own gives every route its latency, and its cap to a single flow.

    Raises:
        InputError: a pair without route, or a route over a link without capacity.
    """
    arrays = network_arrays(topology)
    return "\n".join(_platform_lines(arrays, message_bytes)) + "\n"


def _platform_lines(arrays: NetworkArrays, message_bytes: float | None) -> Iterator[str]:
    devices = arrays.devices
    latency = arrays.latency()
    rate = arrays.isolated_rate()  # a cap on every route: no flow alone is faster
    if message_bytes is not None:
        for pair, number in enumerate(arrays.curve_of_pair.tolist()):
            if number < 0:
                continue
            wait, speed = arrays.curves[number].at(message_bytes)
            rate[pair] = min(rate[pair], speed)
            latency[pair] = wait
    yield "<?xml version='1.0'?>"
    yield '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    yield '<platform version="4.1"><zone id="machine" routing="Full">'
    yield from (f'<host id="{_host(device)}" speed="1Gf"/>' for device in range(devices))
    limits = _limits(arrays)
    yield from (_link(name, capacity) for name, capacity in limits.items())
    for pair in range(devices**2):
        yield _link(
            f"p{pair}",
            min(rate[pair], NOT_A_LIMIT_BYTES_PER_S),
            max(latency[pair], LEAST_LATENCY_S),
            "FATPIPE",
        )
    uses = _uses(arrays, limits)
    for pair in range(devices**2):
        ends = f'src="{_host(pair // devices)}" dst="{_host(pair % devices)}"'
        names = "".join(f'<link_ctn id="{name}"/>' for name in [f"p{pair}", *uses[pair]])
        yield f'<route {ends} symmetrical="NO">{names}</route>'
    yield "</zone></platform>"


def _limits(arrays: NetworkArrays) -> dict[str, float]:
    """The capacities that flows share, by name, without unlimited ones."""
    named = {
        f"l{link}.{direction}": float(capacity)
        for link, row in enumerate(arrays.capacity)
        for direction, capacity in zip(("forward", "backward", "combined"), row, strict=True)
    }
    named |= {f"b{number}": float(limit) for number, limit in enumerate(arrays.pair_limits)}
    return {name: each for name, each in named.items() if each < NOT_A_LIMIT_BYTES_PER_S}


def _uses(arrays: NetworkArrays, limits: dict[str, float]) -> list[list[str]]:
    """Names of what the flows of each pair share with others."""
    uses: list[list[str]] = [[] for _ in range(arrays.devices**2)]
    for pair, link, reverse in zip(
        arrays.use_pair.tolist(), arrays.use_link.tolist(), arrays.use_reverse.tolist(), strict=True
    ):
        uses[pair] += [f"l{link}.{'backward' if reverse else 'forward'}", f"l{link}.combined"]
    for pair, number in enumerate(arrays.limit_of_pair.tolist()):
        if number >= 0:
            uses[pair].append(f"b{number}")
    return [[name for name in names if name in limits] for names in uses]


def _host(device: int) -> str:
    return f"d{device}"


def _link(name: str, bandwidth: float, latency: float = 0.0, sharing: str = "SHARED") -> str:
    return (
        f'<link id="{name}" bandwidth="{float(bandwidth)!r}Bps" latency="{float(latency)!r}s"'
        f' sharing_policy="{sharing}"/>'
    )


def _require() -> None:
    reason = why_no_smpi()
    if reason is not None:
        raise UnavailableError(reason, hint="install SimGrid (Debian: libsimgrid-dev)")


def _output(line: Sequence[str], folder: Path, timeout_s: float) -> str:
    with subprocess.Popen(
        line,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # smpirun is a script: what it starts must end with it
    ) as child:
        try:
            output, errors = child.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ApplicationError(
                    f"the simulation did not end within {timeout_s:g} s",
                    hint="use fewer ranks or sizes",
                    exit_code=124,
                ) from error
            raise
    if child.returncode != 0:
        raise ApplicationError(
            f"the simulation failed: {_last_line(errors or output)}",
            hint="run it by hand with smpirun to see more",
            exit_code=child.returncode,
        )
    return output


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"
