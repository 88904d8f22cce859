"""Which device, CPUs, memory and NIC each rank gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import field

from toposeat.model.few import first_few
from toposeat.model.noun import Noun
from toposeat.model.record import Record
from toposeat.model.shell_words import shell_word
from toposeat.model.topology import ANY_HOST

COSTS_KEY = "costs"  # of the metadata: how near devices of a host are, read by toposeat-exec
OTHERS_KEY = "others"  # of the metadata: numbers of devices that a list left to other jobs
CORES_KEY = "cores"  # of the metadata: what was taken for a core where no source tells
# Of the metadata: what was predicted and proved of the placement in words, and all of it as JSON.
VERDICT_KEY, RANGE_KEY, PROOF_KEY, ANSWER_KEY = "verdict", "range", "proof", "answer"
_SHOWN = 16  # devices in a repr


class Seat(Noun, Record, frozen=True, kw_only=True):
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


class HostDevice(Record, frozen=True, kw_only=True):
    """A device of a host as the launcher must know it, used or not."""

    index: int
    pci_bus_id: str | None = None
    uuid: str | None = None


class Placement(Noun, Record, frozen=True, kw_only=True):
    """Seats in rank order, and for each host all its devices in `index` (PCI bus) order.

    It is a sequence of its seats: `placement[3]` is that of rank 3. Several may be on one device.

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

    def __len__(self) -> int:
        return len(self.seats)

    def __getitem__(self, rank: int) -> Seat:
        return self.seats[rank]

    def __iter__(self) -> Iterator[Seat]:
        return iter(self.seats)

    def __repr__(self) -> str:
        shown = first_few(map(str, self.devices), _SHOWN)
        hosts = len({seat.host for seat in self.seats})
        on = f" on {hosts} hosts" if hosts > 1 else ""
        return f"<Placement of {self.ranks} ranks{on}: devices {shown}>"

    @property
    def devices(self) -> list[int]:
        """Of each rank the number of its device on its host, as nvidia-smi shows it."""
        return [seat.index for seat in self.seats]

    def environment(self, rank: int | None = None) -> dict[str, str]:
        """The variables that give ranks their devices (and NICs), as `toposeat run` sets them.

        Args:
            rank: whose; None: those that one process manager of a node hands to all its ranks, of
                which local rank i takes the i-th device.

        Raises:
            UsageError: no such rank, or no variable does it: ranks share a device, nodes have
                different orders, the vendor has no such variable.
        """
        variables: dict[str, str] = Noun.above("environment_of")(self, rank)
        return variables

    def export_lines(self, rank: int | None = None) -> list[str]:
        """`environment` as lines for a shell: `export CUDA_VISIBLE_DEVICES=3,1`."""
        variables = self.environment(rank)
        return [f"export {name}={shell_word(value)}" for name, value in variables.items()]

    def with_settings(self, words: str) -> Placement:
        """With what files of settings decided in its metadata, if they did."""
        return replace(self, metadata={**self.metadata, "settings": words}) if words else self

    @property
    def others(self) -> frozenset[int]:
        """Numbers of devices that are no rank's and are shown to none: they are of other jobs."""
        numbers = self.metadata.get(OTHERS_KEY, "")
        return frozenset(int(each) for each in numbers.split(",") if each.strip().isdecimal())

    @property
    def shares_devices(self) -> bool:
        """Whether some device has several ranks."""
        return len({(seat.host, seat.index) for seat in self.seats}) < len(self.seats)

    @property
    def ranks(self) -> int:
        """How many ranks are placed."""
        return len(self.seats)
