"""What Slurm tells a job of its network: SLURM_TOPOLOGY_ADDR, `spine.leaf1.n2`, and scontrol.

A file has one address per node, and the patterns, in any order:
`srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > FILE` writes it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, UnavailableError
from toposeat.model.network import Network
from toposeat.topology.networks import slurm_conf
from toposeat.topology.networks.builder import HostPath, NetworkBuilder, few
from toposeat.topology.networks.formats import JOB
from toposeat.topology.readers.file_text import FileText

ORIGIN = "SLURM_TOPOLOGY_ADDR"
_LINE = re.compile(r"^[ \t]*(?:\d+:[ \t]*)?(?:export[ \t]+)?SLURM_TOPOLOGY_ADDR(_PATTERN)?=(.*)$")
_HINT = "srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > FILE"


def parse(file: FileText) -> Network:
    """The tree above the job's nodes, from the addresses of all of them.

    Raises:
        InputError: with file and line.
    """
    builder = NetworkBuilder(path=file.path)
    patterns: dict[str, int] = {}
    addresses: dict[str, int] = {}
    for number, line in enumerate(file.lines, start=1):
        match = _LINE.match(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                raise builder.error("expected SLURM_TOPOLOGY_ADDR=...", number, _HINT)
            continue
        value = match.group(2).strip().strip("\"'")
        (patterns if match.group(1) else addresses).setdefault(value, number)
    if len(patterns) > 1:
        raise builder.error("nodes with different patterns", max(patterns.values()), _HINT)
    if not addresses:
        raise builder.error("no address", None, _HINT)
    pattern = next(iter(patterns), None)
    builder.hang([_path(builder, a, pattern, line) for a, line in addresses.items()])
    return builder.build(name=file.name, origin=ORIGIN)


def _path(builder: NetworkBuilder, address: str, pattern: str | None, line: int | None) -> HostPath:
    """One address. The pattern says where the host begins, whose own name may have dots."""
    if pattern is None:
        words = address.split(".")
    else:
        kinds = pattern.split(".")
        if kinds[-1] != "node" or "node" in kinds[:-1]:
            raise builder.error(
                f"a pattern that does not end in node: {pattern[:60]!r}", line, _HINT
            )
        words = address.split(".", len(kinds) - 1)
        if len(words) != len(kinds):
            raise builder.error(f"{address[:60]!r} does not fit {pattern[:60]!r}", line, _HINT)
    if not all(words):
        raise builder.error(f"{address[:60]!r} has an empty part", line, _HINT)
    host = words[-1]
    above = tuple(words[-2::-1]) or ("(flat network)",)
    return HostPath(host, above, line)


def job_network(hosts: Sequence[str], environment: Mapping[str, str]) -> Network:
    """The network above the running job: what scontrol shows of it, else this node's address.

    Raises:
        InputError: scontrol does not show all its hosts, or what it shows is damaged.
        UnavailableError: nothing tells of all its hosts.
    """
    if shutil.which("scontrol"):
        network = slurm_conf.parse(FileText(_scontrol(), Path("scontrol show topology")))
        known = set(network.host_names)
        missing = [host for host in hosts if host not in known]
        if not missing:
            return replace(network.restricted_to(hosts), name=JOB)
        raise InputError(
            f"scontrol shows no switch above {few(missing)}", hint="give the network as a file"
        )
    address = environment.get("SLURM_TOPOLOGY_ADDR")
    if address is None or len(hosts) > 1:
        raise UnavailableError(
            "SLURM_TOPOLOGY_ADDR tells of one node only, and there is no scontrol",
            hint="srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > ADDR; -t ADDR",
        )
    builder = NetworkBuilder()
    pattern = environment.get("SLURM_TOPOLOGY_ADDR_PATTERN")
    builder.hang([_path(builder, address, pattern, None)])
    return builder.build(name=JOB, origin=ORIGIN)


def _scontrol() -> str:
    cause = ""
    try:
        done = subprocess.run(
            ["scontrol", "show", "topology"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if done.returncode or not done.stdout.strip():
            cause = (done.stderr.strip().splitlines() or ["it prints nothing"])[0]
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        cause = str(error)
    if cause:
        raise UnavailableError(
            f"scontrol show topology: {cause[:120]}", hint="give the network as a file"
        )
    return done.stdout
