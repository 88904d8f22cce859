"""Hosts with the switches above each, nearest first: CSV of levels, Slurm addresses, Topograph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from toposeat.model.network import Network
from toposeat.topology.networks.builder import NetworkBuilder


@dataclass(frozen=True)
class HostPath:
    """A host and the names of the switches above it, nearest first; at a line of the file."""

    host: str
    above: tuple[str, ...]
    line: int | None = None


def network_of_paths(
    builder: NetworkBuilder, paths: Sequence[HostPath], *, name: str, origin: str
) -> Network:
    """A tree. A name under two different switches stands for two switches (rack 1 of each row).

    Raises:
        InputError: a host twice, or a host without a switch.
    """
    shown = _shown_names(paths)
    for path in paths:
        if path.host in builder.hosts:
            raise builder.error(f"host {path.host[:60]!r} appears twice", path.line)
        if not path.above:
            raise builder.error(f"host {path.host[:60]!r} has no switch above it", path.line)
        ways = [path.above[at:] for at in range(len(path.above))]
        switches = [builder.switch(shown[way], path.line) for way in ways]
        builder.port(path.host, switches[0], path.line)
        for level, (below, above) in enumerate(pairwise(switches), start=1):
            _link_once(builder, below, above, level)
    return builder.build(name=name, origin=origin)


def _link_once(builder: NetworkBuilder, below: int, above: int, level: int) -> None:
    if builder.once(below, above):
        builder.link(below, above, level=level)


def _shown_names(paths: Sequence[HostPath]) -> dict[tuple[str, ...], str]:
    """A switch is what lies above it too; it is called by its own name where that is enough."""
    ways = {path.above[at:]: None for path in paths for at in range(len(path.above))}
    count = Counter(way[0] for way in ways)
    return {way: way[0] if count[way[0]] == 1 else "/".join(way[::-1]) for way in ways}
