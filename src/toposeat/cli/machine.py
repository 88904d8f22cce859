"""The machine that a verb is about: by `-t SRC`, `--node`, `--hosts`, or as placements say it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.cli.command import read_machine, tell
from toposeat.errors import UsageError
from toposeat.model.shell_words import joined_sources, sources_in

if TYPE_CHECKING:
    from toposeat.mapping import Machine
    from toposeat.model.network import Network
    from toposeat.model.topology import Topology


def is_network(args: argparse.Namespace) -> bool:
    """Whether `-t` is a network of hosts or the shape of one."""
    from toposeat import topology  # noqa: PLC0415
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415

    if args.node is not None or args.hosts is not None:
        return True
    source = args.topology
    if source is None or source in topology.catalogue_names():  # most are: spares many imports
        return False
    return topology.is_network(source) or is_shape(source)


def machine_of(args: argparse.Namespace) -> Machine:
    """A node, a shape alone, or a network with what is inside its hosts."""
    from toposeat import mapping  # noqa: PLC0415
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415

    if not is_network(args):
        return mapping.Machine.of(_node(args, args.topology))
    if args.topology is None:
        raise UsageError("--node and --hosts need a network", hint="name the network with -t")
    if args.node is None:
        if is_shape(args.topology) and args.hosts is None:
            return mapping.Machine.of_shape(mapping.read_shape(args.topology))
        raise UsageError(
            f"{args.topology} is a network of hosts, and the topology of a host is missing",
            hint="give it with --node: this, a topology file of one node, or a catalogue name",
        )
    return mapping.Machine.of_network(network_of(args), _node(args, args.node))


def _node(args: argparse.Namespace, source: str | None) -> Topology:
    """A node to plan on, without the CPUs that are reserved."""
    from toposeat import mapping  # noqa: PLC0415

    node, reserved = read_machine(source, to_plan=True), getattr(args, "reserve_cpus", None)
    return mapping.with_reserved_cpus(node, reserved) if reserved else node


def network_of(args: argparse.Namespace) -> Network:
    """The network of `-t`, with the hosts of `--hosts`."""
    from toposeat import topology  # noqa: PLC0415

    network = topology.read_network(args.topology)
    if args.hosts is None:
        return network
    return topology.allocated(network, topology.hosts_of(args.hosts))


def sources_of(args: argparse.Namespace) -> dict[str, str]:
    """The machine as `compare` reads it again from a placement."""
    given = {"source": args.topology, "node": args.node, "hosts": args.hosts}
    return {name: value for name, value in given.items() if value is not None}


def take_from_headers(
    args: argparse.Namespace, paths: Sequence[Path], headers: Sequence[Mapping[str, str]]
) -> None:
    """The machine and the traffic that the placements were made for, where they are not given.

    Files are looked for beside the placements, too.
    """
    from toposeat import topology  # noqa: PLC0415

    headers = [_beside(path, header) for path, header in zip(paths, headers, strict=True)]
    if args.topology is None:
        sources = [header.get("source") or header.get("topology") for header in headers]
        args.topology = _only(sources, paths, "machine", "-t SRC")
        has_nodes = True
    else:
        has_nodes = topology.is_network(args.topology)
    for name in ("node", "hosts"):
        found = {header.get(name) for header in headers}
        if getattr(args, name) is not None or not has_nodes:
            continue
        if len(found) > 1 and name == "node":
            raise UsageError(
                f"the placements do not have the same node: {', '.join(map(str, found))}",
                hint="say with --node which one they are to be compared on",
            )
        setattr(args, name, found.pop() if len(found) == 1 else None)
    if args.traffic is None:
        traffic = [header.get("traffic") for header in headers]
        args.traffic = _only(traffic, paths, "traffic", "--traffic F")
    tell(f"For       {args.traffic} on {args.topology} (others: --traffic F, -t SRC)")


def _beside(path: Path, header: Mapping[str, str]) -> dict[str, str]:
    """Files that a header names beside its placement, where they are not where it says."""

    def found(name: str) -> str:
        near = [path.parent / name, path.parent / Path(name).name]
        is_there = not name or Path(name).exists()
        return name if is_there else next((str(each) for each in near if each.is_file()), name)

    read = {key: sources_in(text) for key, text in header.items() if key in ("source", "node")}
    read |= {"traffic": [header["traffic"]]} if "traffic" in header else {}
    return {**header, **{key: joined_sources([*map(found, names)]) for key, names in read.items()}}


def _only(found: Sequence[str | None], paths: Sequence[Path], what: str, option: str) -> str:
    """The one thing that all placements say."""
    for path, name in zip(paths, found, strict=True):
        if not name or "-" in name.split():  # what standard input held then is gone
            raise UsageError(f"{path} does not say its {what}", hint=f"add {option}")
    names = [name for name in dict.fromkeys(found) if name]
    if len(names) > 1:
        raise UsageError(
            f"the placements do not have the same {what}: {', '.join(names)}",
            hint=f"say with {option} which one they are to be compared on",
        )
    return names[0]
