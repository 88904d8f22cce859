"""Hosts in the same places of a network: a job keeps its predicted time on them.

Two sets of hosts are in the same places if one is mapped onto the other such that every two hosts
meet at the same level as those that they stand for. On nested levels that is an embedding of one
tree in another, which bipartite matching decides level by level, from the leaves up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise

from toposeat.model.network import Network, NetworkKind

_Level = Sequence[int]  # group of each host
_Found = dict[int, int]  # hosts by position


def hosts_in_same_places(
    network: Network,
    hosts: Sequence[str],
    free: Sequence[str],
    kind: Callable[[str], Hashable] = lambda _: None,
) -> Mapping[str, str] | None:
    """For each of some hosts a free one in the same place.

    A host stands for itself where it is free and that leaves a solution.

    Returns:
        None where there is no such choice, or where the network does not tell places: it is no
        tree, a host is not on it, or links of one level differ.
    """
    position = {host.name: at for at, host in enumerate(network.hosts)}
    levels = _nested(network)
    if levels is None or not all(host in position for host in (*hosts, *free)):
        return None

    def kind_at(at: int) -> Hashable:
        ports = [port.bytes_per_s and port.bytes_per_s.value for port in network.hosts[at].ports]
        return kind(network.hosts[at].name), tuple(sorted(ports, key=str))

    wanted, usable = ([position[host] for host in each] for each in (hosts, free))
    found = _embedded(levels, kind_at, wanted, usable)
    if found is None:
        return None
    name = network.host_names
    return {name[at]: name[found[at]] for at in wanted}


def _nested(network: Network) -> list[_Level] | None:
    """The levels, coarse ones first; None where they are no tree of like links."""
    if network.kind not in (NetworkKind.TREE, NetworkKind.BLOCK):
        return None
    links = defaultdict(set)
    for link in network.links:
        links[link.level].add((link.bytes_per_s and link.bytes_per_s.value, link.count))
    if any(len(kinds) > 1 for kinds in links.values()):
        return None
    found = [level.group_of_host for level in (*network.levels, *network.own_fabrics)]
    found.sort(key=lambda level: len(set(level)))
    for coarse, fine in pairwise(found):
        above: dict[int, int] = {}
        pairs = zip(fine, coarse, strict=True)
        if any(above.setdefault(own, group) != group for own, group in pairs):
            return None
    return [*found]


def _embedded(
    levels: Sequence[_Level],
    kind: Callable[[int], Hashable],
    wanted: Sequence[int],
    usable: Sequence[int],
) -> _Found | None:
    """Hosts of `usable` for those of `wanted` that lie alike on the levels that are left."""
    if len(wanted) > len(usable):
        return None
    if not levels:
        return _of_one_leaf(kind, wanted, usable)
    needs, offers = (_by_group(levels[0], each) for each in (wanted, usable))
    ways: dict[int, dict[int, _Found]] = {}
    for group, own in needs.items():
        ways[group] = {}
        for other in sorted(offers, key=lambda other: other != group):
            found = _embedded(levels[1:], kind, own, offers[other])
            if found is not None:
                ways[group][other] = found
    taken: dict[int, int] = {}  # groups that are used, and for which
    for group in sorted(ways, key=lambda group: group not in ways[group]):
        if not _assign(group, ways, taken, set()):
            return None
    return {at: to for other, group in taken.items() for at, to in ways[group][other].items()}


def _assign(
    group: int, ways: Mapping[int, Mapping[int, _Found]], taken: dict[int, int], tried: set[int]
) -> bool:
    """An augmenting path of the matching that starts at `group`."""
    for other in ways[group]:
        if other in tried:
            continue
        tried.add(other)
        if other not in taken or _assign(taken[other], ways, taken, tried):
            taken[other] = group
            return True
    return False


def _by_group(level: _Level, hosts: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for host in hosts:
        found.setdefault(level[host], []).append(host)
    return found


def _of_one_leaf(
    kind: Callable[[int], Hashable], wanted: Sequence[int], usable: Sequence[int]
) -> _Found | None:
    """Hosts below one switch: each for one of its kind, itself if it may be taken."""
    left = dict.fromkeys(usable)
    found = {host: host for host in wanted if host in left}
    for host in found:
        del left[host]
    of_kind: dict[Hashable, list[int]] = defaultdict(list)
    for host in reversed(left):
        of_kind[kind(host)].append(host)
    for host in wanted:
        if host not in found:
            own = of_kind[kind(host)]
            if not own:
                return None
            found[host] = own.pop()
    return found
