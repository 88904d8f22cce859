"""Lent accelerators: OpenCL devices that a proxy on their node offers to its user's other jobs."""

from __future__ import annotations

from toposeat.model.record import Record
from toposeat.model.runs import SeatVerdict

BORROWED_SCHEMA = "toposeat/borrowed/1"


class LentDevice(Record, frozen=True, kw_only=True):
    """One device of one proxy.

    `id` is for people: the host, and a number among the devices that are lent there. `socket` is
    the proxy's on its own node, `address` (`HOST:PORT`) for the others, "" for none.
    """

    id: str
    host: str
    index: int  # of the proxy's
    name: str
    kind: str  # gpu, cpu or accelerator
    socket: str
    address: str = ""
    memory_bytes: int | None = None
    pci_bus_id: str | None = None
    borrowed_by: str = ""  # "process 12 on n1", of several jobs all; "" where it is free
    share: int = 1  # jobs that may have it at a time
    jobs: int = 0  # that have it
    room: int = 1  # for how many more: 0 where a job wants it alone
    is_silent: bool = False  # its proxy has ended, or something between refuses this node

    @property
    def endpoints(self) -> tuple[str, ...]:
        """How clients are told of it, on its node and elsewhere."""
        elsewhere = (f"tcp:{self.address}#{self.index}",) if self.address else ()
        return (f"unix:{self.socket}#{self.index}", *elsewhere)


class Moved(Record, frozen=True, kw_only=True):
    """How many processes have moved between two devices, by their ids, and why others stayed."""

    source: str
    target: str = ""
    processes: int = 0
    refused: tuple[str, ...] = ()
    seconds: float = 0.0


class Way(Record, frozen=True, kw_only=True):
    """Between a rank's host and a device's: seconds of a round trip, bytes per second each way."""

    round_trip_s: float
    bytes_per_s: float

    def seconds(self, use: DeviceUse) -> float:
        """What a program waits for the way alone."""
        return use.waits * self.round_trip_s + (use.bytes_to + use.bytes_from) / self.bytes_per_s


class DeviceUse(Record, frozen=True, kw_only=True):
    """What a program did with a device: bytes each way, calls, and those of them that waited."""

    bytes_to: float
    bytes_from: float
    calls: int
    waits: int

    def __post_init__(self) -> None:
        if min(self.bytes_to, self.bytes_from, self.calls, self.waits) < 0:
            raise ValueError("a count below zero")


class MeasuredWay(Record, frozen=True, kw_only=True):
    """What a rank measured at its start; bytes per second to the device, and from it."""

    round_trip_s: float
    to_bytes_per_s: float
    from_bytes_per_s: float

    def __post_init__(self) -> None:
        if min(self.round_trip_s, self.to_bytes_per_s, self.from_bytes_per_s) <= 0:
            raise ValueError("a way takes time")


class BorrowedDevice(Record, frozen=True, kw_only=True):
    """A device of one rank: predicted, and as seen from inside the rank; None is not known.

    It `is_lost` where its proxy ended before the rank did. `others_bytes` of its memory were held
    by other processes when the rank began.
    """

    id: str
    host: str
    name: str
    predicted: Way | None = None
    measured: MeasuredWay | None = None
    use: DeviceUse | None = None
    is_lost: bool = False
    others_bytes: int = 0


class BorrowedSeat(Record, frozen=True, kw_only=True):
    """One rank and its devices, the nearest first. `host` is "*" where it is not known.

    `run_s` is from the first connection to the rank's end.
    """

    rank: int
    host: str
    devices: tuple[BorrowedDevice, ...]
    verdict: SeatVerdict | None = None
    differences: tuple[str, ...] = ()
    run_s: float | None = None

    def __post_init__(self) -> None:
        if self.run_s is not None and self.run_s <= 0:
            raise ValueError("a run takes time")


class Price(Record, frozen=True, kw_only=True):
    """What borrowing adds to a recorded run: of its slowest rank, `added_s` to `run_s`."""

    added_s: float
    run_s: float
    rank: int

    @property
    def share(self) -> float:
        """Of the run's time; 1 doubles it."""
        return self.added_s / self.run_s


class Borrowed(Record, frozen=True, kw_only=True):
    """A job that borrows: what it was given and why, and once it has run what it got."""

    command: tuple[str, ...]
    launched: tuple[str, ...]
    seats: tuple[BorrowedSeat, ...]
    notes: tuple[str, ...] = ()
    price: Price | None = None
    exit_code: int = 0
    wall_s: float = 0.0
    started_at: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether a device is given to several ranks."""
        ids = [device.id for seat in self.seats for device in seat.devices]
        return len(ids) > len(set(ids))
