"""Ring rates of sets of devices, and how well a set divides into groups for several jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from toposeat.evaluation import GroupRates
from toposeat.model.device_set import Left
from toposeat.model.topology import Topology

_MOST_DIVIDED = 12  # devices that are divided into pairs in every way; else the fastest pair first


class SetRates:
    """Rates and divisions of the sets of devices of one machine, each computed once."""

    def __init__(self, topology: Topology, rates: GroupRates | None = None) -> None:
        """Sets are positions in `topology.devices`, ascending; `rates` are known ones."""
        self._rates, self._devices = rates or GroupRates(topology), len(topology.devices)
        self._division: dict[tuple[int, tuple[int, ...]], Left] = {}

    def of(self, devices: tuple[int, ...]) -> float:
        """Bytes per second of a ring over the devices; infinite for one device."""
        return self._rates.of(devices).bytes_per_s

    def division(self, size: int, devices: tuple[int, ...]) -> Left:
        """The division into groups of `size` with the largest sum of rates, of equals the nearest.

        Pairs of up to 12 devices are divided in every way; otherwise the fastest group goes first.
        """
        found = self._division.get((size, devices))
        if found is None:
            found = max(
                self._divisions(size, devices),
                key=lambda left: (left.bytes_per_s, -sum(map(self._distance, left.groups))),
            )
            self._division[size, devices] = found
        return found

    def _divisions(self, size: int, devices: tuple[int, ...]) -> Iterator[Left]:
        if len(devices) < size:
            yield Left(size=size, groups=(), bytes_per_s=0.0)
        elif size == 2 and len(devices) <= _MOST_DIVIDED:
            first, *others = devices
            if len(devices) % 2:
                yield self.division(size, tuple(others))
            for other in others:
                yield self._with(devices, (first, other))
        else:
            sets = combinations(devices, size)
            yield self._with(
                devices, max(sets, key=lambda own: (self.of(own), -self._distance(own)))
            )

    def _distance(self, group: tuple[int, ...]) -> int:
        """Of all pairs together, by their classes of paths: what a rate that is not told hides."""
        return sum(
            self._rates.path_classes[a * self._devices + b] for a, b in combinations(group, 2)
        )

    def _with(self, devices: tuple[int, ...], group: tuple[int, ...]) -> Left:
        rest = self.division(len(group), without(devices, group))
        return Left(
            size=len(group),
            groups=(group, *rest.groups),
            bytes_per_s=self.of(group) + rest.bytes_per_s,
        )


def without(devices: tuple[int, ...], taken: tuple[int, ...]) -> tuple[int, ...]:
    """The devices that are not taken, in their order."""
    return tuple(device for device in devices if device not in taken)
