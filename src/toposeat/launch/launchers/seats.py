"""A placement as launchers see it: hosts of ranks and how they are said, seats, device lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import field

from toposeat.errors import UsageError
from toposeat.launch.nic_words import UCX, cray_environment, ucx_name
from toposeat.launch.visibility import check_visibility
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.hostlist import short_name
from toposeat.model.placement import Placement, Seat
from toposeat.model.record import Record
from toposeat.model.shell_words import shell_word
from toposeat.model.topology import ANY_HOST, Vendor
from toposeat.model.visible_list import ordering_variable, visible_variables

DEFAULT_PROGRAM = "./app"
_DIGITS = re.compile(r"(\d+)")


class LaunchFile(Record, frozen=True, kw_only=True):
    """Its name, relative to the folder of all, and its content."""

    name: str
    text: str
    executable: bool = False


class Allocation(Record, frozen=True, kw_only=True):
    """Hosts in the launcher's order, and how many ranks each may have where that is limited.

    `source` names the option or the variable. `in_job` says that a scheduler gave them.
    """

    hosts: tuple[str, ...]
    source: str
    in_job: bool
    slots: Mapping[str, int] = field(default_factory=dict)

    def name_of(self, host: str) -> str | None:
        """How this host is called here; None where it is not one of them."""
        return next((own for own in self.hosts if short_name(own) == short_name(host)), None)

    def how_to_get(self, hosts: int, per_host: int) -> str:
        """What to do for so many places on so many hosts."""
        if self.source.startswith("SLURM"):
            return f"ask for the job with: salloc -N {hosts} --ntasks-per-node={per_host}"
        return f"give every host {per_host} places, or let the launcher oversubscribe"


class RankHosts(Record, frozen=True, dict=True):
    """The host of every rank; none for a placement that is for any host."""

    host_of_rank: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """How many ranks have a host."""
        return len(self.host_of_rank)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Ranks of each host; hosts in the order of their first ranks."""
        return Counter(self.host_of_rank)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in the order of first ranks."""
        return tuple(self.counts)

    @property
    def per_host(self) -> int | None:
        """Ranks of every host, None where they differ."""
        counts = set(self.counts.values())
        return counts.pop() if len(counts) == 1 else None

    @property
    def in_blocks(self) -> bool:
        """Whether each host's ranks follow each other."""
        return self.host_of_rank == tuple(h for h, n in self.counts.items() for _ in range(n))

    def dealt_over(self, order: Sequence[str]) -> int | None:
        """How many ranks in a row each host gets when they are dealt out to hosts in this order.

        Round after round, until each has as many as it shall have: one is a cyclic order, all that
        a host has are blocks. None where ranks are in no such order, or on other hosts.
        """
        if set(order) != set(self.counts):
            return None
        run = next((n for n, h in enumerate(self.host_of_rank) if h != order[0]), self.ranks)
        for size in (run, max(self.counts.values())):
            if size and self.host_of_rank == dealt(self.counts, order, size):
                return size
        return None

    def ranks_of(self, host: str) -> list[int]:
        """The ranks of a host."""
        return [rank for rank, name in enumerate(self.host_of_rank) if name == host]


def dealt(counts: Mapping[str, int], order: Sequence[str], size: int) -> tuple[str, ...]:
    """The host of every rank when `size` in a row go to each host of an order, round after round.

    Until each has as many as `counts` says.
    """
    left = dict(counts)
    hosts: list[str] = []
    while any(left.values()):
        for host in order:
            share = min(size, left[host])
            hosts += [host] * share
            left[host] -= share
    return tuple(hosts)


def dealing_name(size: int, per_host: int) -> str:
    """What srun calls it when `size` ranks in a row go to each host."""
    return "block" if size == per_host else "cyclic" if size == 1 else f"plane={size}"


class HostWords(Record, frozen=True, kw_only=True):
    """What makes a launcher start every rank on its host.

    `options` come after the launcher's name, in place of the user's own that are named in
    `replaces`. `rank_of_slot` is there where processes are started in another order than that of
    their ranks, because the MPI renumbers them. `warnings` are for before the start.
    """

    options: tuple[str, ...] = ()
    replaces: frozenset[str] = frozenset()
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rank_of_slot: tuple[int, ...] | None = None


def host_per_rank(name: str, plan: RankHosts) -> LaunchFile:
    """A file with the host of every rank, one per line."""
    return LaunchFile(name=name, text="".join(f"{host}\n" for host in plan.host_of_rank))


def natural_key(name: str) -> list[tuple[int, str]]:
    """Sorts n2 before n10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


def in_natural_order(hosts: Sequence[str]) -> tuple[str, ...]:
    """The order into which schedulers sort hosts, as far as names tell it."""
    return tuple(sorted(hosts, key=natural_key))


class Export(Record, frozen=True, kw_only=True):
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


class Job(Record, frozen=True, kw_only=True, dict=True):
    """The placement by host. `seats_of_host` is in the order of each host's first rank."""

    placement: Placement
    seats_of_host: Mapping[str, tuple[Seat, ...]]
    visibility: str
    program: str

    @staticmethod
    def of(placement: Placement, visibility: str, program: str) -> Job:
        """Sorted by host."""
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
        check_visibility(placement, visibility)
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

    def bound(
        self, said: Callable[[tuple[str, ...]], Sequence[str]], unbound: Sequence[str] = ()
    ) -> tuple[Sequence[str], bool]:
        """A launcher's words for the CPUs of ranks, and whether the script has to bind them.

        Launchers bind by local rank. Where all hosts have the same CPU lists these are `said`; else
        the launcher is to leave ranks `unbound`.
        """
        alike = _alike([[seat.cpus for seat in seats] for seats in self.seats_of_host.values()])
        if alike is not None:
            return said(alike), False
        return (unbound, True) if self.has_cpus else ((), False)

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

    def rank_variables(self, seat: Seat) -> dict[str, str]:
        """Variables of one rank: its devices as its visibility has them, its NIC."""
        devices = [each[seat.local_rank] for each in [self.device_lists().get(seat.host)] if each]
        if self.placement.vendor == Vendor.INTEL and self.visibility == "mask":
            devices = [self._numbers(seat.host)[seat.index]]  # its mask keeps no order
        nic = ucx_name(seat.nic) if seat.nic else None
        return {
            **(visible_variables(self.placement.vendor, devices) if devices else {}),
            **({UCX: nic} if nic else {}),
            **self.nic_environment(),
        }

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
        if self.visibility == "permute":
            return [",".join(own)] * len(own)
        others = self.placement.others
        every = [number for index, number in numbers.items() if index not in others]
        return [",".join([mine, *(each for each in every if each != mine)]) for mine in own]

    def _numbers(self, host: str) -> dict[int, str]:
        """Of each device by its index: its number in PCI bus order, or the UUID of a MIG slice."""
        devices = self.placement.devices_of_host.get(host, ())
        if any((device.uuid or "").startswith("MIG-") for device in devices):
            return {device.index: device.uuid or str(device.index) for device in devices}
        if devices and all(device.pci_bus_id for device in devices):
            ordered = sorted(devices, key=lambda device: device.pci_bus_id or "")
            return {device.index: str(at) for at, device in enumerate(ordered)}
        return {device.index: str(device.index) for device in devices}


Exporter = Callable[[Job], Export]


def hex_mask(cpus: str) -> str:
    """A CPU list as `0x` and hexadecimal digits."""
    return hex(sum(1 << cpu for cpu in parse_cpu_list(cpus)))


def plus_list(cpus: str, separator: str = "+") -> str:
    """A CPU list with every number written out."""
    return separator.join(map(str, parse_cpu_list(cpus)))


def _alike(rows: Sequence[Sequence[str | None]]) -> tuple[str, ...] | None:
    """The longest row, if all others begin it and every cell is known."""
    longest = max(rows, key=len)
    known = tuple(cell for cell in longest if cell is not None)
    if len(known) < len(longest) or any(row != longest[: len(row)] for row in rows):
        return None
    return known
