"""How near endpoints are to each other: what `nvidia-smi topo -m` knows of a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toposeat.model.topology import PathClass

_TOKEN = re.compile(r"NV([1-9]\d?)", re.ASCII)
_CLASSES = {name: PathClass(name) for name in ("C2C", "PIX", "PXB", "PHB", "NODE", "SYS")}
_CLASSES["SOC"] = PathClass.SYS  # drivers before 2017 knew no NODE and called SYS so

KNOWN_TOKENS = "X, NV1 to NV99, C2C, PIX, PXB, PHB, NODE, SYS, SOC"


@dataclass(frozen=True, slots=True)
class Relation:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationMatrix:
    """Relations between all endpoints: GPUs first, then NICs, in the order of the source.

    `relations[(i, j)]` with i < j; a missing pair is not known. Affinities are per GPU, None where
    the source has none. `gpu_names` are product names ("" if not known).
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...] = ()
    relations: dict[tuple[int, int], Relation]
    gpu_names: tuple[str, ...] = ()
    gpu_uuids: tuple[str | None, ...] = ()
    gpu_pci: tuple[str | None, ...] = ()
    nic_names: tuple[str, ...] = ()
    nic_pci: tuple[str | None, ...] = ()
    cpu_affinity: tuple[str | None, ...] = ()
    numa_affinity: tuple[int | None, ...] = ()
    old_words: bool = False  # the source says SOC: a driver that knows no NODE
    report: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("gpu_names", "gpu_uuids", "gpu_pci", "cpu_affinity", "numa_affinity"):
            _fill(self, name, len(self.gpus), "" if name == "gpu_names" else None)
        _fill(self, "nic_names", len(self.nics), "")
        _fill(self, "nic_pci", len(self.nics), None)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Labels of all endpoints."""
        return self.gpus + self.nics

    def relation(self, i: int, j: int) -> Relation:
        """The relation of two different endpoints."""
        return self.relations.get((min(i, j), max(i, j)), UNKNOWN)


def _fill(matrix: RelationMatrix, name: str, length: int, default: str | None) -> None:
    values = getattr(matrix, name)
    if not values:
        object.__setattr__(matrix, name, (default,) * length)
    elif len(values) != length:
        raise ValueError(f"expected {length} {name}, got {len(values)}")
