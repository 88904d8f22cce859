"""A fact that no source of a machine tells, with the choices that its parts allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toposeat.model.record import Record
from toposeat.model.topology import Topology

PCIE_PREMISE = "PCIe of an unknown generation"
FLOW_PREMISE = "one copy between sockets"
SOCKETS_PREMISE = "capacity between sockets"
# The unit of premises that are shares of what PCIe carries.
OF_X16 = "of the rate of a PCIe x16 link"


class Choice(Record, frozen=True, kw_only=True):
    """One value of an open fact.

    `draw` makes the machine anew where links or routes differ; `values` are those of premises, in
    their units. Of several values for PCIe the least counts: of card and processor the slower.
    """

    name: str
    draw: Callable[[Topology], Topology] | None = None
    values: Mapping[str, float] = {}


class Fact(Record, frozen=True, kw_only=True):
    """A fact that no source tells: what it is, the command that tells it, and its choices.

    `of_groups`: it plays a part only in the collectives of groups. `is_between`: the first choice
    is none of its own, but stands between the others.
    """

    what: str
    settle: str
    choices: tuple[Choice, ...]
    of_groups: bool = False
    is_between: bool = False
