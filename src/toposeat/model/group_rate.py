"""What a set of devices is worth to a collective group."""

from __future__ import annotations

from msgspec import Struct

from toposeat.model.noun import Noun
from toposeat.model.plural import plural


class GroupRate(Noun, Struct, frozen=True, kw_only=True):
    """The rings that a library such as NCCL forms over a set of devices, all at one rate.

    `bytes_per_s` is that of all rings together, infinite for one device; no rings can have more
    than `cut_bytes_per_s`. `low` and `high` are the least and the most where the assumed numbers of
    the machine are at their ends. `rings` are cycles of positions in `topology.devices`. A
    collective that moves V bytes over each edge of a ring (see `GroupLoad`) takes V / `bytes_per_s`
    alone. `load` has an entry for each direction of a link in use: position in `topology.links`, 0
    forward or 1 backward, and how often a byte of V passes it.
    """

    devices: tuple[int, ...]
    bytes_per_s: float
    cut_bytes_per_s: float
    rings: tuple[tuple[int, ...], ...]
    load: tuple[tuple[int, int, float], ...]
    low: float = 0.0
    high: float = 0.0

    def __repr__(self) -> str:
        devices = ", ".join(map(str, self.devices))
        rings = plural(len(self.rings), "ring")
        return f"<GroupRate of devices {devices}: {self.bytes_per_s / 1e9:.3g} GB/s in {rings}>"

    @property
    def is_best(self) -> bool:
        """Whether no rings over these devices can be faster."""
        return self.bytes_per_s >= self.cut_bytes_per_s * (1 - 1e-9)
