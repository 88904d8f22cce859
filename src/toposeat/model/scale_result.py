"""The placement of a large job on a machine that is described by its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleEvaluation:
    """Predictions for one placement. Seconds are link time, not application time.

    `cost` is the sum of bytes x distance. The link figures are None where they were not needed, or
    where the machine has no link model. `predicted_s` is the busiest link's seconds plus the
    largest messages x latency of a pair. `also` names the other ways that led to this placement;
    `cpu_s` is what the first one took.
    """

    name: str
    cost: float
    max_congestion_s: float | None = None
    mean_congestion_s: float | None = None
    latency_s: float | None = None
    predicted_s: float | None = None
    busiest_link: str | None = None
    cpu_s: float = 0.0
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaleResult:
    """A mapper's answer for a large job beside the default, which is rank i on slot i.

    Slots are numbered host by host: slot s is device `s % slots_per_host` of host
    `s // slots_per_host`; `hosts` has their names.
    """

    shape: str
    slots: int
    slots_per_host: int
    hosts: tuple[str, ...]
    slot_of_rank: NDArray[np.uint32]
    default: ScaleEvaluation
    placed: ScaleEvaluation
    candidates: tuple[ScaleEvaluation, ...]
    kept_default: bool
    objective: str
    solver: str
    solve_seconds: float  # wall time
    peak_memory_bytes: int  # of this process until now
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """How many ranks are placed."""
        return int(self.slot_of_rank.size)

    @property
    def moved_ranks(self) -> int:
        """How many ranks are not where the default would have them."""
        return int((self.slot_of_rank != np.arange(self.slot_of_rank.size)).sum())
