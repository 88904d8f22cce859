"""Numbers of pairs, host copies and lanes that a source measured or states, with conditions.

They belong to a partial topology; merging moves them to routes and links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toposeat.model.number_checks import check_pair_number
from toposeat.model.quantity import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
else:  # the help of commands imports this module, but not numpy
    Values = Any

BANDWIDTH = "bandwidth"  # bytes/s
LATENCY = "latency"  # seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class PairNumbers:
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
        source: normally `MEASURED`; `NOMINAL` for numbers that a tool derives from link speeds.
    """

    what: str
    values: Values
    devices: tuple[str, ...] = ()
    peer: bool | None = None
    both_ways: bool = False
    engine: str = ""
    operation: str = ""
    source: Source = Source.MEASURED

    def __post_init__(self) -> None:
        import numpy as np  # noqa: PLC0415 - 66 ms: few machines have them

        _check_what(self.what)
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"pair numbers of shape {values.shape}: not one row a column")
        with np.errstate(invalid="ignore"):
            if (values < 0).any() or np.isinf(values).any():
                raise ValueError(f"a {self.what} is negative or infinite")
        if (known := values[values > 0]).size:
            check_pair_number(self.what, float(known.min()))
            check_pair_number(self.what, float(known.max()))
        if self.devices and len(self.devices) != len(values):
            raise ValueError(f"{len(values)} rows of {self.what}, {len(self.devices)} devices")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def of(self, devices: Sequence[str]) -> PairNumbers:
        """The numbers in the order of these device ids; NaN for a device without numbers."""
        import numpy as np  # noqa: PLC0415 - 66 ms: few machines have them

        place = {device: i for i, device in enumerate(devices)}
        rows = [place[device] for device in self.devices]
        values = np.full((len(devices), len(devices)), np.nan)
        values[np.ix_(rows, rows)] = self.values
        return replace(self, values=values, devices=tuple(devices))


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNumbers:
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
        _check_what(self.what)
        for value in (self.to_device, self.from_device):
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"a host {self.what} of {value}")
            check_pair_number(self.what, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneState:
    """One NVLink, xGMI or Xe Link lane of a device, as its driver reports it.

    `bytes_per_s` is per direction, None for an inactive lane. `remote_kind` is what lies at its
    other end: "device", "switch", "host" or "" (not stated), `remote_pci` the bus id of that.
    """

    device: str
    lane: int
    bytes_per_s: float | None
    remote_pci: str | None = None
    remote_kind: str = ""

    def __post_init__(self) -> None:
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < float("inf"):
            raise ValueError(f"lane {self.lane} runs at {self.bytes_per_s} bytes/s")
        check_pair_number(BANDWIDTH, self.bytes_per_s)
        if self.remote_kind not in ("", "device", "switch", "host"):
            raise ValueError(f"a lane ends at a {self.remote_kind!r}")


def _check_what(what: str) -> None:
    if what not in (BANDWIDTH, LATENCY):
        raise ValueError(f"numbers are bandwidth or latency, not {what!r}")
