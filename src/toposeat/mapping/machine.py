"""One machine: hosts, what is inside each of them, and the network that joins them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from toposeat.errors import UsageError
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.record import Record

if TYPE_CHECKING:  # one node needs none of them
    from toposeat.mapping.shapes import Shape
    from toposeat.model.network import Network
    from toposeat.model.topology import Topology

MOST_LISTED = 64  # devices of equal hosts that are listed without need: more take seconds


def needs_devices(option: str) -> UsageError:
    """For an option that needs a list of devices, where there is none."""
    from toposeat.mapping.joined import MOST_DEVICES  # noqa: PLC0415 - a node needs none of it

    return UsageError(
        f"{option} needs a machine whose devices can be listed: at most {MOST_DEVICES}, of hosts"
        " whose inside is known",
        hint="leave it out; or name fewer hosts with --hosts, and what is in them with --node",
    )


class Machine(Record, frozen=True, kw_only=True, dict=True):
    """Hosts x what is inside them, joined by a network; a node is the case of one host.

    A machine of few devices lists them, with a route for each pair; one of equal hosts has a
    `shape`, whose size does not matter; many have both. Which of them a question is answered on is
    decided by `listed` and nowhere else.

    Attributes:
        name: as users see it.
        hosts: their names; one may stand for any.
        shape: of equal hosts that a network joins; None for others.
        lists: makes the form that lists all devices; None where there are too many, or where what
            is inside of the hosts is not known.
    """

    name: str
    hosts: tuple[str, ...]
    shape: Shape | None = None
    lists: Callable[[], Topology] | None = None

    @staticmethod
    def of(topology: Topology) -> Machine:
        """A machine whose devices are listed already: a node, or hosts that are joined."""
        return Machine(name=topology.name, hosts=topology.hosts, lists=lambda: topology)

    @staticmethod
    def of_shape(shape: Shape) -> Machine:
        """Equal hosts of whose inside only the number of devices is known."""
        return Machine(name=shape.text, hosts=shape.hosts, shape=shape)

    @staticmethod
    def of_network(network: Network, node: Topology) -> Machine:
        """Equal hosts that a network joins.

        Args:
            network: of hosts.
            node: what is inside each of them; with several hosts, trays on one NVSwitch fabric.
        """
        from toposeat.mapping.cluster import shape_of_network  # noqa: PLC0415 - one node needs none
        from toposeat.mapping.joined import MOST_DEVICES, join_hosts  # noqa: PLC0415

        shape = shape_of_network(network, node)

        def listed() -> Topology:
            return replace(join_hosts(network, [node] * len(network.hosts)), name=shape.text)

        is_few = shape.slots <= MOST_DEVICES and len(node.hosts) == 1
        return Machine(
            name=shape.text,
            hosts=shape.hosts,
            shape=shape,
            lists=listed if is_few else None,
        )

    @cached_property
    def topology(self) -> Topology | None:
        """All devices with their links and routes; None where they cannot be listed."""
        return None if self.lists is None else self.lists()

    def listed(self, options: MapOptions | None = None, *, wanted: bool = False) -> Topology | None:
        """The form with all devices, where a question is answered on that.

        That is so for a few devices, for hosts that are not equal, and where what is asked needs
        devices: constraints, a metric of pairs, a proof, why it is so, a stack.

        Returns:
            The topology; None: the shape answers.
        """
        options = options or MapOptions()
        if self.shape is None or self.lists is None:
            return self.topology
        needs = (
            wanted
            or options.constraints != Constraints()
            or options.metric != "bandwidth"
            or options.explained
            or options.solver in ("exact", "search")
        )
        # What NVLink domains gain beside their rates, only the search over hosts knows.
        is_small = self.shape.slots <= MOST_LISTED and not self.shape.domain_of_host
        return self.topology if needs or is_small else None
