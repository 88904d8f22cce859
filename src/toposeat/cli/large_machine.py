"""`-t NETWORK --node SRC --hosts LIST`, `-t SHAPE`: machines too large to list device by device."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toposeat.errors import UsageError

if TYPE_CHECKING:
    from toposeat.mapping import Shape


def is_large(args: argparse.Namespace) -> bool:
    """Whether `-t` is the shape of a large machine, or a network of hosts."""
    from toposeat import topology  # noqa: PLC0415
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415

    if args.node is not None or args.hosts is not None:
        return True
    source = args.topology
    if source is None or source in topology.catalogue_names():  # most are: spares many imports
        return False
    return is_shape(source) or topology.is_network(source)


def has_hosts(args: argparse.Namespace) -> bool:
    """Whether the machine is a network whose hosts have names."""
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415

    return args.topology is not None and not is_shape(args.topology)


def large_machine(args: argparse.Namespace) -> Shape:
    """A shape alone, or a network with what is inside its hosts.

    Raises:
        UsageError: a network without `--node`, or `--node` and `--hosts` without a network.
    """
    from toposeat import mapping, topology  # noqa: PLC0415
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415

    if args.topology is None:
        raise UsageError("--node and --hosts need a network", hint="name the network with -t")
    if args.node is None:
        if is_shape(args.topology) and args.hosts is None:
            return mapping.read_shape(args.topology)
        raise UsageError(
            f"{args.topology} is a network of hosts, and the topology of a host is missing",
            hint="give it with --node: this, a topology file of one node, or a catalogue name",
        )
    network = topology.read_network(args.topology)
    if args.hosts is not None:
        network = topology.allocated(network, topology.hosts_of(args.hosts))
    return mapping.shape_of_network(network, topology.read_topology(args.node))
