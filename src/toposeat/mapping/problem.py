"""Which device may take which rank, checked: devices, slots, pins, allowed devices, hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from toposeat import _core
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import Evaluator
from toposeat.model.few import few
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.plural import nouns, plural
from toposeat.model.topology import Topology

MAX_SLOTS = 1 << 16  # of one device


class Problem(Struct, frozen=True, kw_only=True):
    """Checked constraints as the core takes them; `check_seating` tells whether the ranks fit."""

    devices: list[int]
    slots: list[int]  # of each of `devices`
    pins: list[tuple[int, int]]
    allowed: list[list[int]]  # by rank, empty: all; no entry at all if no rank is restricted
    hosts: list[int]  # of every device of the topology

    def devices_of_ranks(self, ranks: int) -> list[tuple[int, ...]]:
        """The devices that each rank may have, in the order of the problem."""
        pins, every = dict(self.pins), tuple(self.devices)
        found = []
        for rank in range(ranks):
            own = self.allowed[rank] if self.allowed else []
            able = tuple(device for device in every if device in own) if own else every
            found.append((pins[rank],) if rank in pins else able)
        return found

    def near(self, row: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """What `row` becomes where a rank takes a free device, or two change places."""
        able = self.devices_of_ranks(len(row))
        taken = Counter(row)
        pairs = zip(self.devices, self.slots, strict=True)
        free = {device for device, slots in pairs if taken[device] < slots}
        for rank, device in enumerate(row):
            for other in able[rank]:
                if other in free and other != device:
                    yield (*row[:rank], other, *row[rank + 1 :])
            for other in range(rank):
                if device != row[other] and row[other] in able[rank] and device in able[other]:
                    yield swapped(row, rank, other)

    def request(
        self,
        evaluator: Evaluator,
        options: MapOptions,
        *,
        budget_s: float,
        network: _core.Network | None = None,
        flows: _core.RankTraffic | None = None,
    ) -> _core.MapRequest:
        """The request to the core, which has no two-level solver.

        `network` replaces the evaluator's machine, with the same devices, and `flows` its traffic.
        """
        return _core.MapRequest(
            network or evaluator.machine.network,
            flows or evaluator.flows,
            evaluator.costs.per_byte,
            message_cost=evaluator.costs.per_message,
            devices=self.devices,
            pins=self.pins,
            slots=self.slots,
            allowed=self.allowed,
            hosts=self.hosts,
            objective=options.objective,
            solver=options.solver,
            budget_s=budget_s,
            seed=options.seed,
        )


def swapped(row: tuple[int, ...], rank: int, other: int) -> tuple[int, ...]:
    """The placement in which two ranks have changed places."""
    moved = list(row)
    moved[rank], moved[other] = row[other], row[rank]
    return tuple(moved)


class Answer(Struct, frozen=True, kw_only=True):
    """What a search found; `also` are other placements that may be better in some scenario."""

    device_of_rank: tuple[int, ...]
    value: float
    solver: str
    also: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()
    lower_bound: float | None = None
    proved: bool = False
    uniform: bool = False


def problem_of(topology: Topology, ranks: int, constraints: Constraints) -> Problem:
    """Check the constraints and number them for the core."""
    devices = _usable_devices(topology, constraints)
    slots = _slots_of(topology, devices, constraints.slots)
    pinned = dict(constraints.pins)
    if constraints.cpu_ranks:
        # The places that these ranks take are added, so that no two others can share a device.
        _check_cpu_ranks(topology, ranks, constraints)
        slots[0] += len(set(constraints.cpu_ranks))
        pinned |= dict.fromkeys(constraints.cpu_ranks, devices[0])
    if ranks > sum(slots):
        enough = -(-ranks // len(devices))
        raise ToposeatError(
            f"{ranks} ranks do not fit on {_room(topology, constraints, slots)}",
            hint=f"use fewer ranks or more devices, or --slots {enough} to let that many share one;"
            " --cpu-ranks names ranks that use no GPU",
        )
    pins = _checked_pins(topology, ranks, devices, slots, pinned)
    allowed = _checked_lists(topology, ranks, set(devices), constraints.allowed)
    for rank, device in pins:
        if allowed and allowed[rank] and device not in allowed[rank]:
            raise UsageError(
                f"rank {rank} is pinned to {name_of(topology, device)}, which it may not use",
                hint="drop the pin, or allow that device",
            )
    hosts = {host: number for number, host in enumerate(topology.hosts)}
    return Problem(
        devices=devices,
        slots=slots,
        pins=pins,
        allowed=allowed,
        hosts=[hosts[device.host] for device in topology.devices],
    )


def check_seating(topology: Topology, problem: Problem, request: _core.MapRequest) -> None:
    """Refuse ranks that together may use too few devices (Hall's condition)."""
    conflict = _core.seating_conflict(request)
    if conflict is None:
        return
    ranks, devices = conflict
    slots = dict(zip(problem.devices, problem.slots, strict=True))
    room = sum(slots[device] for device in devices)
    numbers = ", ".join(number_of(topology, device) for device in devices)
    raise UsageError(
        f"ranks {few(map(str, ranks), 12)} may only use {nouns(len(devices), 'device')}"
        f" {numbers}, which take{'' if len(devices) > 1 else 's'} {room}",
        hint="allow them more devices (--allow), or more ranks per device (--slots)",
    )


def number_of(topology: Topology, position: int) -> str:
    """The number that is shown for a device: `3`, or `node07:3` among several hosts."""
    device = topology.devices[position]
    return f"{device.host}:{device.index}" if len(topology.hosts) > 1 else str(device.index)


def name_of(topology: Topology, position: int) -> str:
    """The name that is shown for a device: `device 3`."""
    return f"device {number_of(topology, position)}"


def _usable_devices(topology: Topology, constraints: Constraints) -> list[int]:
    present = len(topology.devices)
    asked = range(present) if constraints.devices is None else map(int, constraints.devices)
    exclude = {int(device) for device in constraints.exclude}
    usable: list[int] = []
    for device in asked:
        _check_exists(topology, device)
        if device in usable:
            raise UsageError(
                f"{name_of(topology, device)} is listed twice",
                hint="list each device that may be used once",
            )
        usable.append(device)
    for device in exclude:
        _check_exists(topology, device)
    left = [device for device in usable if device not in exclude]
    if not left:
        raise UsageError(
            "no device is left that may be used", hint="list more devices, or exclude fewer"
        )
    return left


def _check_exists(topology: Topology, device: int) -> None:
    if not 0 <= device < len(topology.devices):
        raise UsageError(
            f"device {device} does not exist in {topology.name!r}",
            hint=f"it has devices 0 to {len(topology.devices) - 1}",
        )


def _slots_of(
    topology: Topology, devices: list[int], slots: int | Mapping[int, int] | None
) -> list[int]:
    if slots is None:
        return [1] * len(devices)
    by_device = dict.fromkeys(devices, slots) if isinstance(slots, int) else dict(slots)
    for device, count in by_device.items():
        _check_exists(topology, device)
        if not 0 <= count <= MAX_SLOTS:
            raise UsageError(
                f"{count} slots on {name_of(topology, device)}", hint=f"use 0 to {MAX_SLOTS}"
            )
        if device not in devices:
            raise UsageError(
                f"{name_of(topology, device)} has slots, but may not be used",
                hint="leave it out of --slots, or allow it",
            )
    return [by_device.get(device, 1) for device in devices]


def _room(topology: Topology, constraints: Constraints, slots: list[int]) -> str:
    what = f"the {plural(len(slots), 'device')}"
    if constraints.devices is not None or constraints.exclude:
        what += f" that {'was' if len(slots) == 1 else 'were'} allowed"
    else:
        what += f" of {topology.name!r}"
    return what if sum(slots) == len(slots) else f"the {sum(slots)} slots of {what}"


def _check_cpu_ranks(topology: Topology, ranks: int, constraints: Constraints) -> None:
    if len(topology.hosts) > 1:
        raise UsageError(
            "ranks that need no device are planned on one node only: on several nothing says on"
            " which node they start",
            hint="leave --cpu-ranks out: each rank then has a device of its own",
        )
    moved = sorted({*constraints.cpu_ranks} & {*constraints.pins, *constraints.allowed})
    if moved:
        raise UsageError(
            f"rank {moved[0]} needs no device, and has one by --pin or --allow",
            hint="leave it out of one of both",
        )
    if max(constraints.cpu_ranks) >= ranks:
        raise UsageError(
            f"there is no rank {max(constraints.cpu_ranks)} that needs no device",
            hint=f"ranks are 0 to {ranks - 1}",
        )
    if len(set(constraints.cpu_ranks)) >= ranks:
        raise UsageError("no rank is left that needs a device", hint="name fewer in --cpu-ranks")


def _checked_pins(
    topology: Topology,
    ranks: int,
    devices: list[int],
    slots: list[int],
    pins: Mapping[int, int],
) -> list[tuple[int, int]]:
    room = dict(zip(devices, slots, strict=True))
    owners: dict[int, list[int]] = {}
    for rank, device in sorted(pins.items()):
        if not 0 <= rank < ranks:
            raise UsageError(f"there is no rank {rank} to pin", hint=f"ranks are 0 to {ranks - 1}")
        if device not in room:
            raise UsageError(
                f"rank {rank} is pinned to device {device}, which may not be used",
                hint="pin to one of the allowed devices",
            )
        owner = owners.setdefault(device, [])
        if len(owner) == room[device]:
            both = " and ".join(map(str, [*owner[-1:], rank]))
            raise UsageError(
                f"ranks {both} are both pinned to {name_of(topology, device)}, which takes"
                f" {room[device]}"
                if owner
                else f"rank {rank} is pinned to {name_of(topology, device)}, which takes none",
                hint="pin fewer ranks there, or give the device more slots (--slots)",
            )
        owner.append(rank)
    return sorted((int(rank), int(device)) for rank, device in pins.items())


def _checked_lists(
    topology: Topology, ranks: int, devices: set[int], allowed: Mapping[int, Collection[int]]
) -> list[list[int]]:
    if not allowed:
        return []
    lists: list[list[int]] = [[] for _ in range(ranks)]
    for rank, wanted in allowed.items():
        if not 0 <= rank < ranks:
            raise UsageError(
                f"there is no rank {rank} to allow devices", hint=f"ranks are 0 to {ranks - 1}"
            )
        for device in wanted:
            _check_exists(topology, device)
        lists[rank] = sorted(devices.intersection(wanted))
        if not lists[rank]:
            raise UsageError(
                f"rank {rank} may use no device: those allowed to it are excluded or not listed",
                hint="allow it one of the devices that may be used",
            )
    return lists
