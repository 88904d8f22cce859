"""What sources tell of one ordered pair of devices, or of a device and a NIC, beyond the links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from toposeat.model.number_checks import (
    MAX_INDEX,
    check_bandwidth,
    check_number,
    check_pair_number,
)
from toposeat.model.quantity import Quantity
from toposeat.model.route import PathClass


class LinkKind(StrEnum):
    """What a link is made of."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    XELINK = "xelink"
    C2C = "c2c"
    PCIE = "pcie"
    SMP = "smp"  # between packages or NUMA nodes
    NIC = "nic"
    NETWORK = "network"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bond:
    """Device links that lead directly from one device to another, as a driver lists them.

    `bytes_per_s` is the capacity of all `count` lanes from the source to the target; None where the
    driver does not say. A table of reachable peers tells no bond.
    """

    kind: LinkKind
    count: int = 1
    bytes_per_s: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_INDEX:
            raise ValueError(f"a bond has 1 lane or more, not {self.count}")
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < float("inf"):
            raise ValueError(f"a bond of {self.bytes_per_s} bytes/s")
        check_pair_number("bandwidth", self.bytes_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """What is told of transfers from one vertex to another; None is untold.

    `path_class` is the best connection of the two, `lanes` how many device links are bonded in it.
    `pcie_class` is that of their PCIe path alone, without device links; `bond` are device links
    of the two alone. `peer_access` says whether the source may open the target's memory.
    `cap_bytes_per_s` is what a single flow reaches, `combined_bytes_per_s` what both directions of
    the pair reach together. `told_by` names the source of each member, where several were merged.
    """

    source: str
    target: str
    path_class: PathClass | None = None
    lanes: int | None = None
    pcie_class: PathClass | None = None
    bond: Bond | None = None
    peer_access: bool | None = None
    cap_bytes_per_s: Quantity | None = None
    combined_bytes_per_s: Quantity | None = None
    told_by: Mapping[str, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"a pair of {self.source!r} and itself")
        check_number("lanes", self.lanes, MAX_INDEX)
        check_bandwidth(self.cap_bytes_per_s)
        check_bandwidth(self.combined_bytes_per_s)
