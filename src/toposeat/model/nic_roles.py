"""Which NICs of a machine are not for the messages of a job, and why.

Nearest siblings decide: the NICs with a PCIe path to a GPU that no host bridge is on, as NICs of
the network of a job have on machines built for it, else all. What is said of others is said in
comparison with them, so that a single NIC, or NICs of which nothing is known, are always for jobs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from toposeat.model.topology import LinkLayer, Nic, PathClass, Topology

SAME_RATE = 0.9  # of another rate: as fast, apart from rounding and protocol
_BESIDE = frozenset({PathClass.NVL, PathClass.C2C, PathClass.PIX, PathClass.PXB})
_OTHER_USE = re.compile(r"stor|mgmt|mgt|manage|admin|ipmi|bmc|usb", re.IGNORECASE)
_WORD = re.compile(r"mlx\d|[a-z]{2,}", re.IGNORECASE)  # mlx4 and mlx5 are different adapters


class NicFault(StrEnum):
    """Why a NIC is left out."""

    DOWN = "down"
    SLOW = "slow"
    OTHER_NETWORK = "other network"


class LeftOut(Struct, frozen=True):
    """A NIC that no rank uses; `why` says it with numbers."""

    fault: NicFault
    why: str


def in_rail_order(nics: Iterable[Nic]) -> list[Nic]:
    """NICs of one host by name, numbers as numbers, else as listed."""
    return sorted(nics, key=lambda nic: [(int(n or 0), w) for n, w in _parts(nic.name)])


def _parts(name: str) -> list[tuple[str, str]]:
    return [(each, "") if each.isdigit() else ("", each) for each in re.split(r"(\d+)", name)]


def nics_left_out(topology: Topology) -> dict[str, LeftOut]:
    """NICs that are down, slower than their siblings or of another network, by id."""
    if not topology.nics:
        return {}
    ids = {nic.id for nic in topology.nics}
    beside = {r.target for r in topology.routes if r.target in ids and r.path_class in _BESIDE}
    by_host: dict[str, list[Nic]] = {}
    for nic in topology.nics:
        by_host.setdefault(nic.host, []).append(nic)
    found: dict[str, LeftOut] = {}
    for nics in by_host.values():
        found.update(_left_out_of_host(nics, beside))
    return found


def _left_out_of_host(nics: Sequence[Nic], beside: set[str]) -> Mapping[str, LeftOut]:
    found = {
        nic.id: LeftOut(NicFault.DOWN, "no port is active") for nic in nics if nic.active is False
    }
    for judge in (_of_other_network, _slow):
        left = [nic for nic in nics if nic.id not in found]
        near = [nic for nic in left if nic.id in beside]
        judged = {nic.id: why for nic in left if (why := judge(nic, near, left)) is not None}
        if len(judged) < len(left):
            found.update(judged)
    return found


def _of_other_network(nic: Nic, near: Sequence[Nic], left: Sequence[Nic]) -> LeftOut | None:
    """Whether a NIC that is not beside a GPU is for storage or management, by what is told."""
    if nic in near:
        return None
    layers = {each.link_layer for each in near or left} - {None}
    if not near and LinkLayer.INFINIBAND in layers:
        layers = {LinkLayer.INFINIBAND}
    kinds = {_kind(each) for each in near}
    why = ""
    if _OTHER_USE.search(nic.name):
        why = "its name says so"
    elif nic.link_layer is not None and layers and nic.link_layer not in layers:
        others = " and ".join(sorted(layer for layer in layers if layer))
        why = f"{nic.link_layer}, while {'those beside GPUs' if near else 'others'} are {others}"
    elif _kind(nic) and kinds and () not in kinds and _kind(nic) not in kinds:
        why = f"{near[0].name} is beside a GPU, and named otherwise"
    return LeftOut(NicFault.OTHER_NETWORK, why) if why else None


def _kind(nic: Nic) -> tuple[str, ...]:
    """The words of a NIC's name: mlx5_0 is (mlx5), mlx5_bond_0 is (mlx5, bond)."""
    return tuple(_WORD.findall(nic.name))


def _slow(nic: Nic, near: Sequence[Nic], left: Sequence[Nic]) -> LeftOut | None:
    """Whether a NIC is slower than those whose rate carries most in all; of equal ones the faster.

    A single faster NIC, as for storage, thus makes no sibling slow.
    """
    if nic.bytes_per_s is None:
        return None
    rates = [each.bytes_per_s.value for each in near or left if each.bytes_per_s is not None]
    carried = {rate: count * rate for rate, count in Counter(rates).items()}
    usual = max(carried, key=lambda rate: (carried[rate], rate), default=0.0)
    rate = nic.bytes_per_s.value
    if rate >= SAME_RATE * usual:
        return None
    return LeftOut(NicFault.SLOW, f"{rate / 1e9:.3g} GB/s, its siblings have {usual / 1e9:.3g}")
