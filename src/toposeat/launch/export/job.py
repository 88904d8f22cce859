"""A placement as launchers see it: hosts in order, seats by local rank, device lists, CPU sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toposeat.errors import UsageError
from toposeat.launch.hosts.rank_hosts import RankHosts, in_natural_order
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.nic_words import cray_environment, ucx_name
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.shell_words import shell_word
from toposeat.model.topology import ANY_HOST
from toposeat.model.visible_list import ordering_variable, visible_variables

DEFAULT_PROGRAM = "./app"


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """What realises a placement: files, variables of the launcher's environment, and its line.

    The command is empty where the variables are all there is to say.
    """

    launcher: str
    command: tuple[str, ...]
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The command as a shell takes it, variables in front."""
        words = [f"{name}={shell_word(value)}" for name, value in self.environment.items()]
        return " ".join([*words, *map(shell_word, self.command)])


@dataclass(frozen=True, kw_only=True)
class Job:
    """The placement by host. `seats_of_host` is in the order of each host's first rank."""

    placement: Placement
    seats_of_host: Mapping[str, tuple[Seat, ...]]
    visibility: str
    program: str

    @staticmethod
    def of(placement: Placement, visibility: str, program: str) -> Job:
        """Sorted by host.

        Raises:
            UsageError: local ranks that no launcher would deal out, or a mode that cannot be.
        """
        seats: dict[str, list[Seat]] = {}
        for seat in placement.seats:
            seats.setdefault(seat.host, []).append(seat)
        for host, on_host in seats.items():
            if [seat.local_rank for seat in on_host] != list(range(len(on_host))):
                raise UsageError(
                    f"local ranks of host {host} do not follow its ranks",
                    hint="launchers count a host's ranks in rank order; correct the placement",
                )
        if ANY_HOST in seats and len(seats) > 1:
            raise UsageError(
                "some ranks have a host, others have any host", hint="name a host for all"
            )
        if placement.shares_devices and visibility in ("permute", "rotate"):
            raise UsageError(
                "several ranks share a device, which no order of one list can express",
                hint="add --visibility mask: every rank then sees its own device alone",
            )
        return Job(
            placement=placement,
            seats_of_host={host: tuple(each) for host, each in seats.items()},
            visibility=visibility,
            program=program,
        )

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.placement.ranks

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in the order of first ranks; none where the placement is for any host."""
        return () if ANY_HOST in self.seats_of_host else tuple(self.seats_of_host)

    @cached_property
    def rank_hosts(self) -> RankHosts:
        """The host of every rank: this machine's where the placement is for any host."""
        hosts = (seat.host for seat in self.placement.seats)
        return RankHosts(tuple("localhost" if host == ANY_HOST else host for host in hosts))

    @property
    def order(self) -> tuple[str, ...]:
        """The hosts as schedulers sort them."""
        return in_natural_order(self.hosts)

    def cpus_alike(self) -> tuple[str, ...] | None:
        """The CPU list of each local rank where all hosts have the same and know it; else None."""
        return _alike([[seat.cpus for seat in seats] for seats in self.seats_of_host.values()])

    @property
    def has_cpus(self) -> bool:
        """Whether some rank is bound at all."""
        return any(seat.cpus is not None for seat in self.placement.seats)

    @property
    def names_nics(self) -> bool:
        """Whether some rank has a NIC that a library takes by name, which no launcher can say."""
        return any(seat.nic and ucx_name(seat.nic) for seat in self.placement.seats)

    def nic_environment(self) -> dict[str, str]:
        """Variables of the whole job that assign NICs to its ranks: those of Cray MPICH."""
        return cray_environment(self.seats_of_host.values())

    def own_devices_alike(self) -> tuple[str, ...] | None:
        """The device of each local rank where it is the same on all hosts; else None."""
        return _alike(
            [[self._numbers(host)[seat.index] for seat in seats] for host, seats in self._each()]
        )

    def device_list(self) -> str | None:
        """The visible devices of every rank of every host, where there is one such list."""
        lists = {each for lists in self.device_lists().values() for each in lists}
        return lists.pop() if len(lists) == 1 else None

    def device_lists(self) -> dict[str, tuple[str, ...]]:
        """Of every host the visible devices of each local rank; empty where they are left alone."""
        if self.visibility == "cpu-only" or self.variable is None:
            return {}
        return {host: tuple(self._lists(host, seats)) for host, seats in self._each()}

    @property
    def variable(self) -> str | None:
        """The variable that orders devices; None where the vendor has none that does."""
        return ordering_variable(self.placement.vendor)

    def device_variables(self) -> dict[str, str]:
        """Variables for all ranks where one device list serves; empty else."""
        devices = self.device_list()
        if devices is None or self.variable is None:
            return {}
        return visible_variables(self.placement.vendor, [devices])

    @property
    def device_notes(self) -> tuple[str, ...]:
        """Notes on devices that no option or variable can order."""
        if self.visibility == "cpu-only":
            return ("devices are left to the application",)
        if self.variable is None:
            return (
                f"no variable orders the devices of vendor {self.placement.vendor}: ranks get their"
                " CPUs only",
            )
        return ()

    def _each(self) -> list[tuple[str, tuple[Seat, ...]]]:
        return list(self.seats_of_host.items())

    def _lists(self, host: str, seats: Sequence[Seat]) -> list[str]:
        numbers = self._numbers(host)
        own = [numbers[seat.index] for seat in seats]
        if self.visibility == "mask":
            return own
        rest = [number for number in numbers.values() if number not in own]
        if self.visibility == "permute":
            return [",".join([*own, *rest])] * len(own)
        every = list(numbers.values())
        return [",".join([mine, *(each for each in every if each != mine)]) for mine in own]

    def _numbers(self, host: str) -> dict[int, str]:
        """Of each device by its index: its number in PCI bus order, or the UUID of a MIG slice."""
        devices = self.placement.devices_of_host.get(host, ())
        if any((device.uuid or "").startswith("MIG-") for device in devices):
            return {device.index: device.uuid or str(device.index) for device in devices}
        if devices and all(device.pci_bus_id for device in devices):
            ordered = sorted(devices, key=_pci)
            return {device.index: str(at) for at, device in enumerate(ordered)}
        return {device.index: str(device.index) for device in devices}


def hex_mask(cpus: str) -> str:
    """A CPU list as `0x` and hexadecimal digits."""
    return hex(sum(1 << cpu for cpu in parse_cpu_list(cpus)))


def plus_list(cpus: str, separator: str = "+") -> str:
    """A CPU list with every number written out."""
    return separator.join(map(str, parse_cpu_list(cpus)))


def _pci(device: HostDevice) -> str:
    return device.pci_bus_id or ""


def _alike(rows: Sequence[Sequence[str | None]]) -> tuple[str, ...] | None:
    """The longest row, if all others begin it and every cell is known."""
    longest = max(rows, key=len)
    known = tuple(cell for cell in longest if cell is not None)
    if len(known) < len(longest) or any(row != longest[: len(row)] for row in rows):
        return None
    return known
