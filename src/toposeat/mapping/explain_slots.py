"""Why this placement of a large job: what moved between levels, the bottleneck, how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_traffic
from toposeat.evaluation.spread import STATED_SPREAD
from toposeat.mapping.link_levels import LinkLevels
from toposeat.mapping.sensitivity import DRAWS, Spreads, weigh, without_ties
from toposeat.mapping.shapes import Shape
from toposeat.model.explanation import PairLoad, Sensitivity
from toposeat.model.scale_result import LevelMove, ScaleBottleneck, ScaleExplanation
from toposeat.model.traffic import PairTable, Traffic

SHOWN_MOVES = 8
SHOWN_LOADS = 5
_MOST_LEVELS = 32  # bits of the core's answer

_Slots = NDArray[np.uint32]
_Floats = NDArray[np.float64]


def explain_slots(
    shape: Shape,
    traffic: Traffic,
    placements: Sequence[_Slots],
    *,
    objective: str,
    seed: int,
) -> ScaleExplanation:
    """Compare a placement with the default and with other candidates.

    Time and memory grow with pairs that talk and with links, for each placement.

    Args:
        shape: the machine.
        traffic: who talks to whom.
        placements: slots of the ranks: as placed, the default, and other candidates.
        objective: what "better" means when numbers move.
        seed: of the draws.
    """
    work = _Explainer(shape, traffic, objective)
    views = [work.look(slots) for slots in placements]
    after, before = views[:2]
    moved = before.levels != after.levels
    moves = work.moves(before, after, moved)
    return ScaleExplanation(
        moves=tuple(moves[:SHOWN_MOVES]),
        kinds_of_moves=len(moves),
        moved_pairs=int(moved.sum()),
        moved_bytes=int(work.table.bytes[moved].sum()),
        before=work.bottleneck(before),
        after=work.bottleneck(after),
        sensitivity=work.sensitivity(
            views, seed, same=np.array_equal(placements[0], placements[1])
        ),
    )


class _View:
    """What one placement does: figures of the core, seconds by level, the use of each pair."""

    def __init__(
        self, figures: _core.LargeCandidate, busiest_bytes: float, seconds: _Floats, use: _Use
    ) -> None:
        self.figures = figures
        self.busiest_bytes = busiest_bytes
        self.seconds = seconds
        self.levels, self.over, self.distance = use


_Use = tuple[NDArray[np.uint32], NDArray[np.uint8], _Floats]


class _Explainer:
    def __init__(self, shape: Shape, traffic: Traffic, objective: str) -> None:
        self.table: PairTable = traffic.mapped_table()
        self._flows = compile_traffic(traffic)
        self._machine = shape.machine
        self._capacities = shape.machine.capacities
        self._objective = objective
        links = shape.link_levels()
        self._names = links.names
        self._bit_of_link = _numbers(links, hops_only=True)
        self._name_of_link = _numbers(links, hops_only=False)

    def look(self, slots: _Slots) -> _View:
        figures, nbytes = _core.large_loads(self._machine, self._flows, slots)
        seconds = np.zeros(len(self._names))
        np.maximum.at(seconds, self._name_of_link, nbytes / self._capacities)
        busiest = figures.busiest_link
        use = _core.large_flow_use(self._machine, self._flows, slots, self._bit_of_link, busiest)
        return _View(figures, float(nbytes[busiest]), seconds, use)

    def moves(self, before: _View, after: _View, moved: NDArray[np.bool_]) -> list[LevelMove]:
        """Pairs that changed their levels, by what they changed from and to; most bytes first."""
        both = np.stack([before.levels[moved], after.levels[moved]])
        kinds, kind_of_pair = np.unique(both, axis=1, return_inverse=True)
        kind_of_pair = kind_of_pair.reshape(-1)  # NumPy 2.0 keeps the axis
        pairs = np.bincount(kind_of_pair, minlength=kinds.shape[1])
        nbytes = np.zeros(kinds.shape[1], np.int64)
        np.add.at(nbytes, kind_of_pair, self.table.bytes[moved])
        return [
            LevelMove(
                levels_before=self._levels(int(kinds[0, kind])),
                levels_after=self._levels(int(kinds[1, kind])),
                pairs=int(pairs[kind]),
                bytes=int(nbytes[kind]),
            )
            for kind in np.argsort(-nbytes, kind="stable").tolist()
        ]

    def _levels(self, bits: int) -> tuple[str, ...]:
        return tuple(name for at, name in enumerate(self._names) if bits >> at & 1)

    def bottleneck(self, view: _View) -> ScaleBottleneck:
        busiest = view.figures.busiest_link
        users = np.flatnonzero(view.over.astype(np.bool_) & (self.table.bytes > 0))
        heaviest = users[np.argsort(-self.table.bytes[users], kind="stable")][:SHOWN_LOADS]
        is_idle = view.figures.busiest_s == 0
        return ScaleBottleneck(
            link=None if is_idle else self._machine.link_name(busiest),
            level=None if is_idle else self._names[self._name_of_link[busiest]],
            congestion_s=view.figures.busiest_s,
            bytes=view.busiest_bytes,
            pairs=len(users),
            loads=tuple(
                PairLoad(
                    source=int(self.table.source[pair]),
                    target=int(self.table.target[pair]),
                    bytes=int(self.table.bytes[pair]),
                )
                for pair in heaviest
            ),
        )

    def sensitivity(self, views: Sequence[_View], seed: int, *, same: bool) -> Sensitivity:
        """Of machines whose levels' numbers were drawn: all links of a level move together."""
        terms = _Terms(views, self.table.bytes.astype(np.float64), self._objective)
        rows = without_ties(range(len(views)), terms.values(None))
        generator = np.random.default_rng(seed)
        return weigh(
            terms.values(None)[rows],
            (terms.values(generator)[rows] for _ in range(DRAWS)),
            Spreads(stated=STATED_SPREAD, recorded=None, is_any_assumed=True),
            count=len(rows) - same,
        )


class _Terms:
    """What the objective of each placement is made of, and the objective when that moves.

    Congestion: the busiest link of each level. Time: that, the longest flow alone, and the latency.
    Cost: what routes over the same levels cost together.
    """

    def __init__(self, views: Sequence[_View], nbytes: _Floats, objective: str) -> None:
        self._objective = objective
        if objective == "cost":
            kinds = np.unique(np.concatenate([view.levels for view in views]))
            self._parts = np.stack(
                [
                    np.bincount(
                        np.searchsorted(kinds, view.levels),
                        weights=nbytes * view.distance,
                        minlength=len(kinds),
                    )
                    for view in views
                ]
            )
            return
        self._parts = np.stack([view.seconds for view in views])
        is_time = objective == "time"
        self._alone = np.array([view.figures.alone_s if is_time else 0.0 for view in views])
        self._latency = np.array([view.figures.latency_s if is_time else 0.0 for view in views])

    def values(self, generator: np.random.Generator | None) -> _Floats:
        """Of each placement; by the numbers as they stand without a generator."""

        def factor(count: int) -> _Floats:
            if generator is None:
                return np.ones(count)
            return 1 + STATED_SPREAD * generator.uniform(-1, 1, count)

        if self._objective == "cost":
            return np.asarray(self._parts @ factor(self._parts.shape[1]))
        busiest = (self._parts / factor(self._parts.shape[1])).max(axis=1, initial=0.0)
        alone, latency = self._alone / factor(1), self._latency * factor(1)
        return np.asarray(np.maximum(busiest, alone) + latency)


def _numbers(links: LinkLevels, *, hops_only: bool) -> NDArray[np.uint32]:
    """Of each link the position of its level's name; too large for a bit where it is no hop."""
    of_name = {name: at for at, name in enumerate(links.names)}
    of_level = [
        _MOST_LEVELS if hops_only and not level.is_hop else of_name[level.name]
        for level in links.levels
    ]
    return np.array(of_level, np.uint32)[links.level_of_link]
