"""What to ask of a scheduler before it chooses the nodes of a job, and why."""

from __future__ import annotations

from toposeat.model.record import Record


class Block(Record, frozen=True, kw_only=True):
    """So many nodes, which follow each other by rank, in one group of a level of the network.

    Attributes:
        nodes: of one block.
        level: name of the level.
        height: of the level: 0 is the nearest one.
        share: of the nodes that a group of the level has on average: the more, the harder to get.
        predicted_s: in the order of ranks, where blocks are as far from each other as can be.
    """

    nodes: int
    level: str
    height: int
    share: float
    predicted_s: float


class Asked(Record, frozen=True, kw_only=True):
    """How near each other the nodes of a job have to be, by predictions.

    Attributes:
        nodes: how many it needs.
        devices: that it uses of each.
        offered: nodes of the network.
        scattered_s: predicted for nodes that are all as far from each other as can be.
        tried: blocks of all sizes that the network has room for.
        chosen: the least that brings about all that nearness can; None where it brings nothing.
        why: sentences.
        kind: of the network.
        vendor: of the devices.
        levels: names of all its levels, the coarse ones first.
    """

    nodes: int
    devices: int
    offered: int
    scattered_s: float
    tried: tuple[Block, ...]
    chosen: Block | None
    why: tuple[str, ...]
    kind: str
    vendor: str
    levels: tuple[str, ...]

    @property
    def blocks(self) -> int:
        """How many blocks are asked for; 0 where none is."""
        return 0 if self.chosen is None else self.nodes // self.chosen.nodes


class Request(Record, frozen=True, kw_only=True):
    """What is said to one scheduler: options of a line, or fields with their values."""

    scheduler: str
    words: tuple[str, ...]
