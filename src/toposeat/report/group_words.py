"""What is said of the groups of a job whose devices a library orders itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from toposeat.model.evaluation import MappingResult
from toposeat.model.topology import PathClass, Topology
from toposeat.model.traffic import Exchange, Traffic
from toposeat.report.units import clean, format_bytes, format_rate

_MOST_GROUPS = 4
_NEAREST_FIRST = tuple(PathClass)
_WORDS = {
    PathClass.NVL: "on device links",
    PathClass.C2C: "on chip-to-chip links",
    PathClass.PIX: "below one PCIe switch",
    PathClass.PXB: "below PCIe switches",
    PathClass.PHB: "through a host bridge",
    PathClass.NODE: "between host bridges",
    PathClass.SYS: "across sockets",
    PathClass.NET: "across hosts",
}
GROUP_HEADER = ("group", "ranks", "library", "moved in", "bytes on each edge")
_MOST_ROWS = 16
_MOVED_IN = {Exchange.RING: "rings", Exchange.PAIRWISE: "every pair"}


def group_rows(traffic: Traffic) -> list[tuple[str, ...]]:
    """The groups that a library orders itself, the heaviest first, at most 16 and one that counts.

    What a group moves in rings and in every pair are two rows; phases are summed.
    """
    size: Counter[tuple[int, str, Exchange]] = Counter()
    for load in traffic.groups:
        size[load.communicator, load.library, load.exchange] += load.bytes
    communicators = {each.id: each for each in traffic.communicators}
    rows: list[tuple[str, ...]] = []
    for (id, library, exchange), count in size.most_common(_MOST_ROWS):
        group = communicators[id]
        name = clean(group.name) or f"group {id}"
        ways = _MOVED_IN[exchange]
        rows.append((name, _ranks(group.ranks), clean(library), ways, format_bytes(count)))
    more = len(size) - len(rows)
    return rows + ([(f"and {more} more", "", "", "", "")] if more else [])


def _ranks(ranks: Iterable[int]) -> str:
    """`0-3 8-11`; of more than eight stretches the first seven and the last."""
    stretches = []
    for _, run in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        stretches.append(str(members[0]) + (f"-{members[-1]}" if len(members) > 1 else ""))
    if len(stretches) > 8:
        stretches[7:-1] = ["..."]
    return " ".join(stretches)


def group_lines(result: MappingResult, topology: Topology, traffic: Traffic) -> list[str]:
    """Groups whose devices have another rate than by default, one line each, at most four.

    Where that changes, it is told how far a group reaches: the nearest kind of path that joins all
    of its devices.
    """
    ranks_of = {each.name or f"group {each.id}": each.ranks for each in traffic.communicators}
    changed = []
    for old, new in zip(result.default.groups, result.placed.groups, strict=True):
        if not (old.bytes_per_s and new.bytes_per_s):
            continue
        if abs(new.bytes_per_s / old.bytes_per_s - 1) > 0.01:
            ranks = ranks_of.get(old.name, ())
            reach = [
                _reach(topology, [row[rank] for rank in ranks])
                for row in (result.default.device_of_rank, result.placed.device_of_rank)
            ]
            ways = ["" if reach[0] == reach[1] or not each else f" ({each})" for each in reach]
            rates = format_rate(old.bytes_per_s), format_rate(new.bytes_per_s)
            told = [f"{rate}{way}" for rate, way in zip(rates, ways, strict=True)]
            changed.append(f"{clean(old.name)}: {' to '.join(told)}")
    more = len(changed) - _MOST_GROUPS
    return changed[:_MOST_GROUPS] + ([f"and {more} more"] if more > 0 else [])


def _reach(topology: Topology, devices: Sequence[int]) -> str:
    """`across sockets`: of the paths that join all devices, the farthest that is needed."""
    ids = [topology.devices[device].id for device in devices]
    left, joined, reach = set(ids[1:]), set(ids[:1]), PathClass.NVL
    while left:
        ways = [
            (_NEAREST_FIRST.index(topology.route_of_pair[a, b].path_class), b)
            for a in joined
            for b in left
            if (a, b) in topology.route_of_pair
        ]
        if not ways:
            return ""
        farthest, nearest = min(ways)
        reach = max(reach, _NEAREST_FIRST[farthest], key=_NEAREST_FIRST.index)
        left.discard(nearest)
        joined.add(nearest)
    return _WORDS.get(reach, "") if len(ids) > 1 else ""
