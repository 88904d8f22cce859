"""How GPUs copy to each other, where that is worth more than any order of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from toposeat.model.record import Record
from toposeat.model.topology import PathClass


class Staging(StrEnum):
    """Why copies between GPUs go through host memory."""

    TOLD = "told"  # the driver says that they have no peer access
    PRODUCT = "product"  # NVIDIA's driver gives cards of this kind none over PCIe
    NCCL = "NCCL"  # NCCL does so by itself, where the driver need not
    SET = "set"  # a variable of this environment says so


class Transport(Record, frozen=True, kw_only=True):
    """What direct copies may give to a group that is staged in host memory; predicted.

    `low` and `high` are how many times as fast the group is then, on any machine that the sources
    allow, below 1 where staging may be faster; `nominal` with nominal numbers. `setting` is the
    variable that says so here, if one does; `is_told` says whether a source tells peer access.
    """

    staging: Staging
    devices: tuple[int, ...]
    low: float
    nominal: float
    high: float
    setting: str = ""
    is_told: bool = False

    def outweighs(self, share: float) -> bool:
        """Whether it is worth more than an order that saves this share of the time."""
        return 1 - 1 / self.nominal > share


NCCL_IS_SET = "nccl_is_set"  # metadata of a machine whose rings have what a variable says
_BY_DISTANCE = (  # NVLink's pairs are direct from NVL on; their links stay in the model
    ("PIX", (PathClass.PIX,)),
    ("PXB", (PathClass.PXB,)),
    ("PHB", (PathClass.PHB, PathClass.NODE)),  # NCCL knows one word for what is in a socket
    ("SYS", (PathClass.SYS,)),
)
_OLD_NUMBERS = ("LOC", "PIX", "PXB", "PHB", "SYS")  # of NCCL_P2P_LEVEL before it had words


class NcclSetting(Record, frozen=True, kw_only=True):
    """A variable of NCCL that says which pairs copy directly; others are staged in host memory."""

    text: str
    direct: frozenset[PathClass]

    @property
    def note(self) -> str:
        """What a reader of predictions made with it has to know."""
        return f"{self.text}: groups of NCCL are predicted with it"


def nccl_setting(variables: Mapping[str, str]) -> NcclSetting | None:
    """What NCCL_P2P_DISABLE or NCCL_P2P_LEVEL says, as NCCL takes them; None: neither says a thing.

    Numbers are those of its documentation: 0 to 4 are LOC, PIX, PXB, PHB and SYS, more is SYS.
    """
    if variables.get("NCCL_P2P_DISABLE") == "1":
        return NcclSetting(text="NCCL_P2P_DISABLE=1", direct=frozenset())
    text = variables.get("NCCL_P2P_LEVEL", "")
    level = _OLD_NUMBERS[min(int(text), 4)] if text.isascii() and text.isdigit() else text
    names = [name for name, _ in _BY_DISTANCE]
    if level not in ("LOC", "NVL", *names):
        return None
    most = names.index(level) + 1 if level in names else 0
    direct = frozenset(each for _, classes in _BY_DISTANCE[:most] for each in classes)
    return NcclSetting(text=f"NCCL_P2P_LEVEL={text}", direct=direct)
