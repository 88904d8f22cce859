"""How near endpoints are to each other: what `nvidia-smi topo -m` knows of a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from toposeat.model.topology import PathClass, Topology

WORDS, OLD_WORDS = "relation words", "SOC"  # in the metadata of a partial topology

_TOKEN = re.compile(r"NV([1-9]\d?)", re.ASCII)
_CLASSES = {name: PathClass(name) for name in ("C2C", "PIX", "PXB", "PHB", "NODE", "SYS")}
_CLASSES["SOC"] = PathClass.SYS  # drivers before 2017 knew no NODE and called SYS so

KNOWN_TOKENS = "X, NV1 to NV99, C2C, PIX, PXB, PHB, NODE, SYS, SOC"


class Relation(Struct, frozen=True):
    """The best connection of two endpoints; `lanes` is the number of bonded NVLinks."""

    path_class: PathClass
    lanes: int = 0

    @property
    def token(self) -> str:
        """As nvidia-smi writes it."""
        return f"NV{self.lanes}" if self.path_class is PathClass.NVL else self.path_class.value


UNKNOWN = Relation(PathClass.UNKNOWN)


def relation_of_token(token: str) -> Relation | None:
    """The relation that a cell states; None if nvidia-smi has no such word."""
    match = _TOKEN.fullmatch(token)
    if match:
        return Relation(PathClass.NVL, int(match.group(1)))
    found = _CLASSES.get(token)
    return Relation(found) if found else None


Place = tuple[int, int]  # numbers of two endpoints, the smaller first


class Relations(Struct, frozen=True):
    """Relations of a partial topology by the numbers of its endpoints: devices first, then NICs.

    `best` and `paths` hold each pair once, smaller number first; a missing pair is untold. `best`
    is PCIe alone where only that is told.
    """

    machine: Topology
    best: Mapping[Place, Relation]
    paths: Mapping[Place, PathClass]

    @classmethod
    def of(cls, machine: Topology) -> Relations:
        """The relations that a partial topology tells."""
        ids = [*(d.id for d in machine.devices), *(n.id for n in machine.nics)]
        told = machine.pair_of_ends
        found = {
            (i, j): pair
            for j, b in enumerate(ids)
            for i, a in enumerate(ids[:j])
            if (pair := told.get((a, b)) or told.get((b, a))) is not None
        }
        best = {
            at: Relation(path_class, pair.lanes or 0)
            for at, pair in found.items()
            if (path_class := pair.path_class or pair.pcie_class) is not None
        }
        paths = {at: pair.pcie_class for at, pair in found.items() if pair.pcie_class is not None}
        return cls(machine, best, paths)

    @property
    def ids(self) -> list[str]:
        """Ids of all endpoints: devices first, then NICs."""
        return [*(d.id for d in self.machine.devices), *(n.id for n in self.machine.nics)]

    @property
    def gpus(self) -> int:
        """Number of endpoints that are devices."""
        return len(self.machine.devices)

    @property
    def old_words(self) -> bool:
        """Whether the source says SOC: a driver that knows no NODE."""
        return self.machine.metadata.get(WORDS) == OLD_WORDS

    def nvlink_lanes(self) -> dict[Place, int]:
        """Bonded lanes by pair of devices."""
        return {
            at: each.lanes
            for at, each in self.best.items()
            if each.path_class is PathClass.NVL and each.lanes and at[1] < self.gpus
        }
