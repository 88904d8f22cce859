"""Placements: what was predicted and proved of them when they were saved, and their seats."""

from __future__ import annotations

from toposeat.model.placement import CORES_KEY, PROOF_KEY, RANGE_KEY, VERDICT_KEY, Placement
from toposeat.model.plural import plural
from toposeat.model.topology import ANY_HOST
from toposeat.report.parts import Fact, Part, Table
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, known

_NAMES = {
    VERDICT_KEY: "Verdict",
    RANGE_KEY: "Range",
    PROOF_KEY: "Proof",
    "topology": "Topology",
    "traffic": "Traffic",
    "stack": "Stack",
    "settings": "Settings",
    "visibility": "Visible",
    "nics_left_out": "NICs out",
    CORES_KEY: "Cores",
    "made": "Made",
}
_SAID_BY_ANSWER = (VERDICT_KEY, RANGE_KEY, PROOF_KEY, "topology", "traffic")


def render_placement_text(
    placement: Placement, style: TextStyle = PLAIN, *, answered: bool = False
) -> str:
    """What was said when it was saved, in words, and its seats; `answered`: that is said above."""
    said = placement_facts(placement, answered=answered)
    return lay_out([*said, "", placement_table(placement)], style)


def placement_facts(placement: Placement, *, answered: bool = False) -> list[Part]:
    """Verdict, range and proof as they were saved, what they are of, and how many ranks where."""
    left_out = _SAID_BY_ANSWER if answered else ()
    facts: list[Part] = [
        Fact(name, clean(placement.metadata[key]))
        for key, name in _NAMES.items()
        if placement.metadata.get(key) and key not in left_out
    ]
    hosts = len({seat.host for seat in placement.seats})
    words = f"{plural(placement.ranks, 'rank')} on {plural(hosts, 'host')}, {placement.vendor}"
    return [*facts, Fact("Placement", words)]


def placement_table(placement: Placement, most: int | None = None) -> Table:
    """The first `most` seats; columns that hold nothing are left out."""
    rows = [
        (
            str(seat.rank),
            "any" if seat.host == ANY_HOST else seat.host,
            str(seat.local_rank),
            f"D{seat.index}",
            seat.pci_bus_id or "-",
            seat.uuid or "-",
            seat.cpus or "-",
            known(seat.memory_node),
            seat.nic or "-",
        )
        for seat in placement.seats[:most]
    ]
    header = ("rank", "host", "local rank", "device", "pci", "uuid", "cpus", "memory node", "nic")
    numbers = (0, 2, 3, 7)
    return Table(header, rows, numbers, fold=(6,), only_used=True, caption="Placement")
