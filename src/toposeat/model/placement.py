"""Which device, CPUs, memory and NIC each rank gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from toposeat.model.shown import Shown
from toposeat.model.topology import ANY_HOST

COSTS_KEY = "costs"  # of the metadata: how near devices of a host are, read by toposeat-exec


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """One rank's place. None is "not known" or "leave it alone" and is written as `-`."""

    rank: int
    host: str = ANY_HOST
    local_rank: int
    pci_bus_id: str | None = None
    uuid: str | None = None
    index: int  # the device's display number on its host
    cpus: str | None = None  # Linux list, "0-3,8-11"
    memory_node: int | None = None
    nic: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDevice:
    """A device of a host as the launcher must know it, used or not."""

    index: int
    pci_bus_id: str | None = None
    uuid: str | None = None


@dataclass(frozen=True, kw_only=True)
class Placement(Shown):
    """Seats in rank order, and for each host all its devices in `index` (PCI bus) order.

    Several seats may be on one device.

    `vendor` decides which visibility variables are set. `metadata` holds free `key: value` lines
    (topology, objective, command).
    """

    seats: tuple[Seat, ...]
    devices_of_host: Mapping[str, tuple[HostDevice, ...]]
    vendor: str = "unknown"
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.seats:
            raise ValueError("a placement needs at least one rank")
        local: set[tuple[str, int]] = set()
        for rank, seat in enumerate(self.seats):
            if seat.rank != rank:
                raise ValueError(f"expected the line of rank {rank}, found rank {seat.rank}")
            if (seat.host, seat.local_rank) in local:
                raise ValueError(f"rank {rank}: local rank {seat.local_rank} appears twice")
            local.add((seat.host, seat.local_rank))

    def with_settings(self, words: str) -> Placement:
        """With what files of settings decided in its metadata, if they did."""
        return replace(self, metadata={**self.metadata, "settings": words}) if words else self

    @property
    def shares_devices(self) -> bool:
        """Whether some device has several ranks."""
        return len({(seat.host, seat.index) for seat in self.seats}) < len(self.seats)

    @property
    def ranks(self) -> int:
        """How many ranks are placed."""
        return len(self.seats)
