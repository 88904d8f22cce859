"""What sources tell of pairs of devices, or of a device and a NIC, beyond the links.

Numbers of pairs, host copies and lanes belong to a partial topology; merging moves them to routes
and links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from toposeat.model.quantity import (
    MAX_INDEX,
    PAIR_RANGES,
    Quantity,
    Source,
    check_bandwidth,
    check_number,
    check_pair_number,
)
from toposeat.model.record import Record
from toposeat.model.route import PathClass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
else:  # the help of commands imports this module, but not numpy
    Values = Any


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


class Bond(Record, frozen=True, kw_only=True):
    """Device links that lead directly from one device to another, as a driver lists them.

    `bytes_per_s` is the capacity of all `count` lanes from the source to the target; None where the
    driver does not say. A table of reachable peers tells no bond.
    """

    kind: LinkKind
    count: int = 1
    bytes_per_s: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_number("the number of lanes of a bond", self.count, MAX_INDEX, 1)
        _check_capacity(self.bytes_per_s)


class Pair(Record, frozen=True, kw_only=True):
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
    told_by: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"a pair of {self.source!r} and itself")
        check_number("lanes", self.lanes, MAX_INDEX)
        check_bandwidth(self.cap_bytes_per_s)
        check_bandwidth(self.combined_bytes_per_s)

    def __hash__(self) -> int:
        return hash((self.source, self.target))


BANDWIDTH = "bandwidth"  # bytes/s
LATENCY = "latency"  # seconds


class PairNumbers(Record, frozen=True, kw_only=True, eq=False):
    """One number for each ordered pair of devices.

    Args:
        what: `BANDWIDTH` (bytes/s) or `LATENCY` (seconds).
        values: shape (n, n), float64. `values[i, j]` is of data that moves from device i to device
            j, whoever drives the copy. NaN is not known, 0 a zero that the source printed;
            others are within `PAIR_RANGES`. The diagonal is a copy within the device, counting each
            copied byte once (the p2pBandwidthLatencyTest sample counts it twice: halve). Made
            read-only.
        peer: whether peer access was on; None if not known.
        both_ways: both directions at once, and the number is the sum of the two.
        engine: "ce" (copy engine, DMA), "sm" (kernel), "" not stated.
        operation: who drove it: "read" (the target pulls), "write" (the source pushes), "".
        devices: ids of the devices, in the order of rows and columns; () stands for those of the
            topology.
        told_by: what source tells it, where several were merged.
        source: normally `MEASURED`; `NOMINAL` for numbers that a tool derives from link speeds.
    """

    what: str
    values: Values
    devices: tuple[str, ...] = ()
    told_by: str = ""
    peer: bool | None = None
    both_ways: bool = False
    engine: str = ""
    operation: str = ""
    source: Source = Source.MEASURED

    def __post_init__(self) -> None:
        import numpy as np  # noqa: PLC0415 - 66 ms: few machines have them

        values = np.array(self.values, dtype=np.float64)
        rows = len(self.devices) or len(values)
        if values.shape != (rows, rows):
            raise ValueError(f"{self.what} of shape {values.shape}: not a row a device")
        known = values[~np.isnan(values) & (values != 0)]
        for value in (known.min(), known.max()) if known.size else ():
            check_pair_number(self.what, float(value))
        values.setflags(write=False)
        force_setattr(self, "values", values)

    def of(self, devices: Sequence[str]) -> PairNumbers:
        """The numbers in the order of these device ids; NaN for a device without numbers."""
        import numpy as np  # noqa: PLC0415 - 66 ms: few machines have them

        place = {device: i for i, device in enumerate(devices)}
        rows = [place[device] for device in self.devices]
        values = np.full((len(devices), len(devices)), np.nan)
        values[np.ix_(rows, rows)] = self.values
        return replace(self, values=values, devices=tuple(devices))


class HostNumbers(Record, frozen=True, kw_only=True):
    """Copies between host memory and one device; bytes/s or seconds, None where not known.

    `device` is its id; `numa_node` is the operating system's number of the node that holds the host
    memory, None if the source does not say.
    """

    what: str
    device: str
    numa_node: int | None = None
    to_device: float | None = None
    from_device: float | None = None
    source: Source = Source.MEASURED

    def __post_init__(self) -> None:
        for value in (self.to_device, self.from_device):
            check_pair_number(self.what, value)


class LaneState(Record, frozen=True, kw_only=True):
    """One NVLink, xGMI or Xe Link lane of a device, as its driver reports it.

    `bytes_per_s` is per direction, None for an inactive lane. `remote_pci` is the bus id of what
    lies at its other end.
    """

    device: str
    lane: int
    bytes_per_s: float | None
    remote_pci: str | None = None

    def __post_init__(self) -> None:
        _check_capacity(self.bytes_per_s)


def _check_capacity(bytes_per_s: float | None) -> None:
    least, most = PAIR_RANGES[BANDWIDTH]
    check_number("the bandwidth of a pair (bytes/s)", bytes_per_s, most, least)
