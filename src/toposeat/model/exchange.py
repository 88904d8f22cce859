"""A communication pattern that the microbenchmark program can run, of any message size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

# By collective the names of its algorithms in the flow model and the simulator; default first.
COLLECTIVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alltoall": ("linear", "pairwise", "bruck"),
        "allgather": ("ring", "bruck", "recursive-doubling"),
        "allreduce": ("ring", "recursive-doubling"),
        "bcast": ("binomial",),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GridExchange:
    """A pattern string taken apart. The grid is row-major: the first dimension varies slowest.

    A collective (`COLLECTIVES`) runs in every line of the grid along its first dimension at once.
    `name` is the pattern's, `bytes` the message size that its text asks for. A message of a halo is
    `layers` times the size; messages along the first dimension are `weight` times it.
    """

    name: str
    grid: tuple[int, ...]
    bytes: int
    wrap: bool = False
    diagonals: bool = False
    weight: float = 1.0
    layers: int = 1

    @property
    def ranks(self) -> int:
        """How many ranks take part."""
        return prod(self.grid)

    @property
    def is_collective(self) -> bool:
        """Whether an MPI's own algorithm decides who sends what to whom."""
        return self.name in COLLECTIVES

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each line along the first dimension, in the order of its communicator."""
        stride = self.ranks // self.grid[0]
        return tuple(tuple(range(first, self.ranks, stride)) for first in range(stride))

    def text(self, size: int | None = None) -> str:
        """The pattern string, with `bytes=size` if a size is given."""
        words = [f"{self.name}:{'x'.join(map(str, self.grid))}"]
        if self.diagonals:
            words.append("diagonals")
        if self.wrap and self.name != "halo":
            words.append("wrap")
        if self.weight != 1:
            words.append(f"weight={self.weight!r}")
        if self.name == "halo":
            words.append(f"layers={self.layers}")
        if size is not None:
            words.append(f"bytes={size}")
        return ",".join(words)
