"""The links inside a host as the core has them, for machines of equal hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposeat.model.topology import Link, Topology


@dataclass
class NodeLinks:
    """The links of a node as the core has them: one per direction, one per combined capacity.

    Attributes:
        bandwidth: bytes per second of each.
        names: of each, devices as D0.
        of_link: by the id of a topology's link: numbers of forward, backward, both directions.
    """

    bandwidth: list[float]
    names: list[str]
    of_link: dict[str, tuple[int, int, int | None]]

    @staticmethod
    def of(node: Topology) -> NodeLinks:
        """Number the links of a node."""
        links = NodeLinks([], [], {})
        code = {device.id: f"D{device.index}" for device in node.devices}
        for link in node.links:
            both = link.combined_bytes_per_s
            near, far = (code.get(end, end) for end in link.ends)
            links.of_link[link.id] = (
                links.add(link.forward_bytes_per_s.value, f"{near} -> {far}"),
                links.add(link.backward_bytes_per_s.value, f"{far} -> {near}"),
                None if both is None else links.add(both.value, f"{near} - {far}, both directions"),
            )
        return links

    def add(self, bytes_per_s: float, name: str) -> int:
        """One more link; its number."""
        self.bandwidth.append(bytes_per_s or np.finfo(np.float64).max)  # down: no route uses it
        self.names.append(name)
        return len(self.names) - 1

    def used(self, steps: list[tuple[Link, bool]]) -> list[int]:
        """The numbers of the links of a walk: each with whether it is walked backwards."""
        numbers = []
        for link, is_reverse in steps:
            forward, backward, both = self.of_link[link.id]
            numbers.append(backward if is_reverse else forward)
            numbers += [] if both is None else [both]
        return numbers
