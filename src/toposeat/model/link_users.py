"""Which devices' traffic crosses which link: what a picture of boxes and lines does not tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from toposeat.model.topology import Link, Topology


@dataclass
class LinkUsers:
    """Devices that send over a link, by direction: from `ends[0]` to `ends[1]`, and back.

    `between_devices` says that both ends are devices.
    """

    link: Link
    between_devices: bool = False
    forward: set[str] = field(default_factory=set)
    backward: set[str] = field(default_factory=set)

    @property
    def is_shared(self) -> bool:
        """Whether two devices or more meet on it, other than at the port of a single one."""
        fewer, more = sorted((len(self.forward), len(self.backward)))
        return fewer >= 2 or (fewer == 1 and more >= 2 and not self._is_port)

    @property
    def _is_port(self) -> bool:
        """Whether it is the way out of one device only: all traffic one way is that device's."""
        return not self.between_devices and any(
            side <= set(self.link.ends) for side in (self.forward, self.backward)
        )

    @property
    def group(self) -> set[str]:
        """The devices on the side with fewer: those that share the link as their way out."""
        return min((self.forward, self.backward), key=len)


def link_users(topology: Topology) -> list[LinkUsers]:
    """Users of every link that routes between devices cross, in the order of the links."""
    devices = {device.id for device in topology.devices}
    users = {link.id: LinkUsers(link, devices >= set(link.ends)) for link in topology.links}
    for route in topology.routes:
        if route.target not in devices:
            continue
        here = route.source
        for id in route.links:
            ends = users[id].link.ends
            ahead = here == ends[0]
            (users[id].forward if ahead else users[id].backward).add(route.source)
            here = ends[1] if ahead else ends[0]
    return [each for each in users.values() if each.forward or each.backward]
