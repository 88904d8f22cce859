"""How much of a machine sources tell, how much its products settle, and what is left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """Of the pairs of GPUs of one host: who says whether device links join them.

    `pairs` are all of them, `inferred` those that a product settles, by what it is called ("no
    links": products that have none), `untold_pairs` (ids) those that nothing settles; the rest is
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
