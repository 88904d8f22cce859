"""Ranks on different rails of a fabric whose rails nothing joins but hosts: what libraries do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.mapping.shapes import Shape
from toposeat.model.plural import nouns
from toposeat.model.traffic import Traffic

APART = "ranks on different rails: "
_FORWARDED = (
    f"{APART}{{}}. NCCL sends through a GPU of the host that is on the other rail (PXN, over"
    " NVLink, unless NCCL_PXN_DISABLE=1); libraries that do not forward cannot connect them"
)
_REFUSED = (
    f"{APART}{{}}. Without NVLink between all GPUs of a host NCCL does not forward, and the job"
    " fails; times are those of a library that does"
)


def rails_notes(shape: Shape, traffic: Traffic, slots: Sequence[int]) -> tuple[str, ...]:
    """What becomes of pairs and groups of a placement that no rail joins; a note if there are."""
    if not shape.rails_apart or not shape.nic_of_device:
        return ()
    place = np.asarray(slots, np.int64)
    host, device = np.divmod(place, shape.slots_per_host)
    rail = np.asarray(shape.nic_of_device, np.int64)[device]
    table = traffic.mapped_table()
    a, b = table.source, table.target
    pairs = {
        (min(x, y), max(x, y))
        for x, y in zip(
            *(end[(host[a] != host[b]) & (rail[a] != rail[b])].tolist() for end in (a, b)),
            strict=True,
        )
    }
    groups = _groups_apart(traffic, host, rail)
    found = [
        f"{count:,} {nouns(count, noun)}"
        for count, noun in ((len(pairs), "pair"), (groups, "group"))
        if count
    ]
    if not found:
        return ()
    note = _FORWARDED if shape.rails_apart == "forwarded" else _REFUSED
    return (note.format(" and ".join(found)),)


def _groups_apart(traffic: Traffic, host: NDArray[np.int64], rail: NDArray[np.int64]) -> int:
    """Groups over several hosts that have other rails on one host than on another."""
    used = {each.communicator for each in traffic.groups}
    count = 0
    for each in traffic.communicators:
        if each.id not in used:
            continue
        members = np.array(each.ranks, np.int64)
        rails_of = {
            one: frozenset(rail[members[host[members] == one]].tolist())
            for one in set(host[members].tolist())
        }
        count += len(set(rails_of.values())) > 1
    return count
