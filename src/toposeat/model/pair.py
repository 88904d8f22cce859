"""What sources tell of one ordered pair of devices, or of a device and a NIC, beyond the links."""

from __future__ import annotations

from dataclasses import dataclass

from toposeat.model.number_checks import MAX_INDEX, check_bandwidth, check_number
from toposeat.model.quantity import Quantity
from toposeat.model.route import PathClass


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """What is told of transfers from one vertex to another; None is untold.

    `path_class` is the best connection of the two, `lanes` how many device links are bonded in it.
    `pcie_class` is their PCIe path, which device links hide in the former. `peer_access` says
    whether the source may open the target's memory. `cap_bytes_per_s` is what a single flow
    reaches, `combined_bytes_per_s` what both directions of the pair reach together.
    """

    source: str
    target: str
    path_class: PathClass | None = None
    lanes: int | None = None
    pcie_class: PathClass | None = None
    peer_access: bool | None = None
    cap_bytes_per_s: Quantity | None = None
    combined_bytes_per_s: Quantity | None = None

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"a pair of {self.source!r} and itself")
        check_number("lanes", self.lanes, MAX_INDEX)
        check_bandwidth(self.cap_bytes_per_s)
        check_bandwidth(self.combined_bytes_per_s)
