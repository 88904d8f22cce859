"""What Slurm tells every node of a job: SLURM_TOPOLOGY_ADDR, `spine.leaf1.n2`, and its pattern.

Made with `srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > FILE`: one address per node,
and the patterns, in any order.
"""

from __future__ import annotations

import re

from toposeat.model.network import Network
from toposeat.topology.networks.builder import NetworkBuilder
from toposeat.topology.networks.paths import HostPath, network_of_paths
from toposeat.topology.readers.file_text import FileText

ORIGIN = "SLURM_TOPOLOGY_ADDR"
_LINE = re.compile(r"^[ \t]*(?:\d+:[ \t]*)?(?:export[ \t]+)?SLURM_TOPOLOGY_ADDR(_PATTERN)?=(.*)$")
_FIRST = re.compile(_LINE.pattern, re.MULTILINE)
_HINT = "srun --ntasks-per-node=1 env | grep SLURM_TOPOLOGY_ADDR > FILE"


def looks_like(file: FileText) -> bool:
    """Whether a line sets the variable."""
    return _FIRST.search(file.start) is not None


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
    paths = [address_path(builder, a, pattern, line) for a, line in addresses.items()]
    return network_of_paths(builder, paths, name=file.name, origin=ORIGIN)


def address_path(
    builder: NetworkBuilder, address: str, pattern: str | None, line: int | None
) -> HostPath:
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
