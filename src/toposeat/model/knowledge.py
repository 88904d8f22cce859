"""How many facts of a machine are told, inferred from its products, and untold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Knowledge(Struct, frozen=True, kw_only=True):
    """How it is known whether device links join the GPUs of each pair on one host.

    `pairs` counts all pairs, `inferred` those that follow from a product, by its name ("no links":
    products that have none). `untold_pairs` lists (by id) those that nothing tells; the rest is
    told. `untold_affinities` are GPUs whose near CPUs and memory node no source tells, of hosts
    with several memory nodes.
    """

    pairs: int
    inferred: Mapping[str, int]
    untold_pairs: tuple[tuple[str, str], ...]
    untold_affinities: tuple[str, ...]

    @property
    def told(self) -> int:
        """How many pairs a source tells."""
        return self.pairs - sum(self.inferred.values()) - len(self.untold_pairs)
