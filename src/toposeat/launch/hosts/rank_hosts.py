"""The host of every rank, the patterns by which launchers deal ranks out, and what says them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toposeat.launch.launch_file import LaunchFile

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class RankHosts:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class HostWords:
    """What makes a launcher start every rank on its host.

    `options` come after the launcher's name, in place of the user's own that are named in
    `replaces`. `rank_of_slot` is there where processes are started in another order than that of
    their ranks, because the MPI renumbers them.
    """

    options: tuple[str, ...] = ()
    replaces: frozenset[str] = frozenset()
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
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
