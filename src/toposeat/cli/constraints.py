"""Options that say which device may take which ranks, and how many."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposeat import mapping
from toposeat.errors import UsageError
from toposeat.model.map_options import Constraints

if TYPE_CHECKING:
    from toposeat.mapping import Machine
    from toposeat.model.topology import Topology

_OPTIONS = ("devices", "exclude", "slots", "pin", "allow", "cpu_ranks")
_MOST_RANKS = 1 << 20  # in one list: a typing error beyond


def add_device_options(group: argparse._ActionsContainer) -> None:
    """`--devices`, `--slots`."""
    group.add_argument(
        "--devices", metavar="LIST", help="use only these devices, by index or HOST:INDEX: 0-3,6"
    )
    group.add_argument(
        "--slots",
        metavar="N",
        help="ranks that a device takes: 2 for all, or LIST=N for some (0-3=2;4-7=1; others: 1); "
        "default: 1, and more ranks than devices are refused",
    )


def add_constraint_options(parser: argparse.ArgumentParser) -> None:
    """`--exclude`, `--pin`, `--allow`, `--cpu-ranks`, `--reserve-cpus`."""
    group = parser.add_argument_group("more constraints (devices by index, or HOST:INDEX)")
    group.add_argument("--exclude", metavar="LIST", help="do not use these devices: 4,5")
    group.add_argument(
        "--pin",
        metavar="RANK=DEVICE",
        action="append",
        default=[],
        help="fix a rank on a device (repeatable)",
    )
    group.add_argument(
        "--allow",
        metavar="RANKS=DEVICES",
        action="append",
        default=[],
        help="let these ranks use only these devices: 0-3=0,1 (repeatable)",
    )
    group.add_argument(
        "--cpu-ranks",
        metavar="LIST",
        help="ranks that use no GPU: they share the place of the first device (default: if devices"
        " are too few, those that loaded no GPU driver where other ranks of the profile did)",
    )
    group.add_argument(
        "--reserve-cpus", metavar="LIST", help="bind no rank to these CPUs of a node: 0,8,16"
    )


def constraints_of(args: argparse.Namespace, on: Machine) -> Constraints:
    """The constraints of a command line."""
    given = [name for name in _OPTIONS if getattr(args, name) not in (None, [])]
    if not given:
        return Constraints()
    machine = on.topology
    if machine is None:
        raise mapping.needs_devices(f"--{given[0]}")
    return Constraints(
        devices=None if args.devices is None else device_list("--devices", args.devices, machine),
        exclude=() if args.exclude is None else device_list("--exclude", args.exclude, machine),
        slots=None if args.slots is None else _slots(args.slots, machine),
        pins=_pins(args.pin, machine),
        allowed=_allowed(args.allow, machine),
        cpu_ranks=() if args.cpu_ranks is None else _ranks("--cpu-ranks", args.cpu_ranks),
    )


def _slots(text: str, machine: Topology) -> int | dict[int, int]:
    if _is_number(text):
        return int(text)
    slots: dict[int, int] = {}
    for part in text.split(";"):
        devices, equals, count = part.partition("=")
        if not (equals and _is_number(count)):
            raise UsageError(
                f"--slots: expected a number or LIST=N, got {part!r}",
                hint="for example --slots 2, or --slots '0-3=2;4-7=1'",
            )
        for device in device_list("--slots", devices, machine):
            if slots.setdefault(device, int(count)) != int(count):
                raise UsageError(
                    f"--slots: a device of {part!r} is listed twice, with different numbers",
                    hint="name each device once",
                )
    return slots


def _pins(texts: Sequence[str], machine: Topology) -> dict[int, int]:
    pins: dict[int, int] = {}
    for text in texts:
        rank, equals, device = text.partition("=")
        if not (equals and _is_number(rank) and device):
            raise UsageError(
                f"--pin: expected RANK=DEVICE, got {text!r}", hint="for example --pin 0=3"
            )
        found = device_list("--pin", device, machine)
        if len(found) != 1:
            raise UsageError(
                f"--pin: expected one device, got {device!r}",
                hint=f"to allow several devices: --allow {text}",
            )
        if pins.setdefault(int(rank), found[0]) != found[0]:
            raise UsageError(f"--pin: rank {rank} is pinned twice", hint="keep one of them")
    return pins


def _allowed(texts: Sequence[str], machine: Topology) -> dict[int, list[int]]:
    allowed: dict[int, list[int]] = {}
    for text in texts:
        ranks, equals, devices = text.partition("=")
        if not (equals and ranks and devices):
            raise UsageError(
                f"--allow: expected RANKS=DEVICES, got {text!r}", hint="for example --allow 0-3=0,1"
            )
        found = device_list("--allow", devices, machine)
        for rank in _ranks("--allow", ranks):
            if rank in allowed:
                raise UsageError(
                    f"--allow: rank {rank} has two lists", hint="put all its devices into one list"
                )
            allowed[rank] = found
    return allowed


def _ranks(option: str, text: str) -> list[int]:
    ranks: list[int] = []
    for part in text.split(","):
        bounds = _bounds(part)
        if bounds is None or bounds[1] - bounds[0] >= _MOST_RANKS:
            raise UsageError(
                f"{option}: expected ranks such as 0-3,6, got {text!r}",
                hint=f"for example {option} {'0-3=0,1' if option == '--allow' else '0,4-7'}",
            )
        ranks += range(bounds[0], bounds[1] + 1)
    return ranks


def device_list(option: str, text: str, machine: Topology) -> list[int]:
    """Positions of a list such as `0-3,6` or `node07:0-3`."""
    positions: list[int] = []
    for part in text.split(","):
        host, colon, numbers = part.strip().rpartition(":")
        bounds = _bounds(numbers)
        if bounds is None:
            raise UsageError(
                f"{option}: expected a list such as 0-3,6, got {text!r}",
                hint="use the device indices that `toposeat discover` shows",
            )
        first, last = bounds
        last = min(last, first + len(machine.devices))  # beyond, one of them does not exist
        positions += [
            _position(index, host if colon else None, machine) for index in range(first, last + 1)
        ]
    return list(dict.fromkeys(positions))


def _bounds(text: str) -> tuple[int, int] | None:
    """First and last number of `3` or `0-3`; None if it is neither."""
    first, dash, last = (each.strip() for each in text.partition("-"))
    last = last if dash else first
    if not (_is_number(first) and _is_number(last) and int(first) <= int(last)):
        return None
    return int(first), int(last)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _position(index: int, host: str | None, machine: Topology) -> int:
    """Position in `Topology.devices` of the device that the machine's tools call `index`."""
    if host is not None and host not in machine.hosts:
        raise UsageError(
            f"{machine.name} has no host {host}", hint=f"hosts: {', '.join(machine.hosts[:8])}"
        )
    found = [
        at
        for at, device in enumerate(machine.devices)
        if device.index == index and host in (None, device.host)
    ]
    if len(found) != 1:
        hint = f"it has {len(machine.devices)} devices; see: toposeat discover -t ..."
        if any(device.index == index for device in machine.others):
            hint = "the list of devices of this job (CUDA_VISIBLE_DEVICES or alike) leaves it out"
        elif found:
            hint = f"say which: {machine.devices[found[0]].host}:{index}"
        raise UsageError(
            f"{machine.name} has {'no' if not found else 'more than one'} device {index}", hint=hint
        )
    return found[0]
