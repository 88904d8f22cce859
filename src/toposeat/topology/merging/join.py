"""Which device of one source is which of another: by PCI bus id, else UUID, else index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toposeat.errors import InputError
from toposeat.model.topology import Vendor
from toposeat.topology.facts import DeviceFact, MachineFacts

_HINT = "give files of one and the same machine, and at least one that lists the PCI bus ids"


def join_devices(
    known: Sequence[DeviceFact], origin: str, part: MachineFacts, report: list[str]
) -> tuple[int, ...]:
    """The place of each device of a part among the known ones.

    A device that is none of the known ones gets a place behind them.

    Args:
        known: devices found so far.
        origin: where they are from, for messages.
        part: the facts to join.
        report: takes how devices were joined where no identity proves it.

    Raises:
        InputError: nothing in common, devices without identity in another number, or two vendors
            for one device.
    """
    place: dict[int, int] = {}
    for identity in (_pci, _uuid):
        _join_by(identity, known, part.devices, place)
    left = [i for i in range(len(part.devices)) if i not in place]
    free = [k for k in range(len(known)) if k not in place.values()]
    strangers = [i for i in left if _is_other(part.devices[i], [known[k] for k in free])]
    unnamed = [i for i in left if i not in strangers]
    if strangers and not place:
        raise InputError(
            f"no GPU of {part.origin} is one of {origin}: no PCI bus id or UUID in common",
            hint=_HINT,
        )
    if unnamed:
        if not _has_known_indices(known, part, unnamed, free):
            _check_counts(len(unnamed), len(free), part.origin, origin)
        how = _join_by_index(known, part, (unnamed, free), place)
        if part.origin != origin:
            some = "" if len(unnamed) == len(free) else f" of {len(free)}"
            report.append(
                f"{part.origin} and {origin} have no PCI bus ids in common: their {len(unnamed)}"
                f"{some} GPUs are joined by {how}"
            )
    for number, i in enumerate(strangers):
        place[i] = len(known) + number
    if strangers:
        names = ", ".join(part.devices[i].label for i in strangers)
        report.append(
            f"{part.origin} lists {len(strangers)} GPUs more ({names}): added, their place in the"
            " PCIe tree is not known"
        )
    _check_vendors(known, origin, part, place)
    return tuple(place[i] for i in range(len(part.devices)))


def _pci(device: DeviceFact) -> str | None:
    return device.pci_bus_id


def _uuid(device: DeviceFact) -> str | None:
    return device.uuid and device.uuid.lower()


def _join_by(
    identity: Callable[[DeviceFact], str | None],
    known: Sequence[DeviceFact],
    devices: Sequence[DeviceFact],
    place: dict[int, int],
) -> None:
    taken = set(place.values())
    at = {found: k for k, each in enumerate(known) if k not in taken and (found := identity(each))}
    for i, device in enumerate(devices):
        found = identity(device)
        if i not in place and found in at:
            place[i] = at[found]


def _is_other(device: DeviceFact, free: Sequence[DeviceFact]) -> bool:
    """Whether an identity proves that the device is none of those left: they have one too."""
    return any(
        identity(device) is not None and all(identity(each) is not None for each in free)
        for identity in (_pci, _uuid)
    )


def _check_counts(mine: int, theirs: int, part: str, origin: str) -> None:
    if mine != theirs:
        raise InputError(
            f"{part} names {mine} GPUs without PCI bus id or UUID, {origin} has {theirs}: which is"
            " which is not known",
            hint=_HINT,
        )


def _has_known_indices(
    known: Sequence[DeviceFact], part: MachineFacts, mine: list[int], theirs: list[int]
) -> bool:
    """Whether every device has an index that one of the others has: they may be some of them."""
    indices = {part.devices[i].index for i in mine}
    return None not in indices and indices <= {known[k].index for k in theirs}


def _join_by_index(
    known: Sequence[DeviceFact],
    part: MachineFacts,
    left: tuple[list[int], list[int]],
    place: dict[int, int],
) -> str:
    mine, theirs = left
    index_of_place = {known[k].index: k for k in theirs}
    if _has_known_indices(known, part, mine, theirs):
        place.update({i: index_of_place[part.devices[i].index] for i in mine})
        return "index"
    place.update(dict(zip(mine, theirs, strict=True)))
    return "order"


def _check_vendors(
    known: Sequence[DeviceFact], origin: str, part: MachineFacts, place: dict[int, int]
) -> None:
    for i, k in place.items():
        mine = part.devices[i]
        vendors = {mine.vendor, known[k].vendor if k < len(known) else mine.vendor}
        if len(vendors - {Vendor.UNKNOWN}) > 1:
            raise InputError(
                f"{mine.label} is a GPU of {mine.vendor.value} in {part.origin}, of"
                f" {known[k].vendor.value} in {origin}",
                hint=_HINT,
            )
