"""How GPUs copy to each other, where that is worth more than any order of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Staging(StrEnum):
    """Why copies between GPUs go through host memory."""

    TOLD = "told"  # the driver says that they have no peer access
    PRODUCT = "product"  # NVIDIA's driver gives cards of this kind none over PCIe
    NCCL = "NCCL"  # NCCL does so by itself, where the driver need not
    SET = "set"  # a variable of this environment says so


@dataclass(frozen=True, kw_only=True, slots=True)
class Transport:
    """What direct copies may give to a group that is staged in host memory; predicted.

    `low` and `high` are how many times as fast the group is then, on any machine that the sources
    allow; `nominal` with nominal numbers. `setting` is the variable that says so here, if one does.
    """

    staging: Staging
    devices: tuple[int, ...]
    low: float
    nominal: float
    high: float
    setting: str = ""

    def outweighs(self, share: float) -> bool:
        """Whether it is worth more than an order that saves this share of the time."""
        return 1 - 1 / self.nominal > share
