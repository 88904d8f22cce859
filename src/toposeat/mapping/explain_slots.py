"""Explain the placement of a large job: what moved between levels, and the bottleneck."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_traffic
from toposeat.mapping.explain import SHOWN_LOADS, SHOWN_MOVES
from toposeat.mapping.link_levels import LinkLevels
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_groups import slots_table
from toposeat.model.evaluation import Evaluation
from toposeat.model.explanation import Bottleneck, Explanation, Move, PairLoad
from toposeat.model.traffic import PairTable, Traffic

_MOST_LEVELS = 32  # bits of the core's answer

_Floats = NDArray[np.float64]


def explain_slots(
    shape: Shape,
    traffic: Traffic,
    default: Evaluation,
    placed: Evaluation,
) -> Explanation:
    """Compare a placement with the default.

    Time and memory grow with the pairs that exchange messages and with the links.
    """
    work = _Explainer(shape, traffic)
    after, before = work.look(placed), work.look(default)
    moved = before.levels != after.levels
    moves = work.moves(before, after, moved)
    return Explanation(
        moves=tuple(moves[:SHOWN_MOVES]),
        kinds_of_moves=len(moves),
        moved_pairs=int(moved.sum()),
        moved_bytes=int(work.table.bytes[moved].sum()),
        before=work.bottleneck(before),
        after=work.bottleneck(after),
    )


class _View:
    """One placement: figures of the core, seconds by level, the levels that each pair uses."""

    def __init__(
        self, figures: _core.LargeCandidate, busiest_bytes: float, seconds: _Floats, use: _Use
    ) -> None:
        self.figures = figures
        self.busiest_bytes = busiest_bytes
        self.seconds = seconds
        self.levels, self.over, self.distance = use


_Use = tuple[NDArray[np.uint32], NDArray[np.uint8], _Floats]


class _Explainer:
    def __init__(self, shape: Shape, traffic: Traffic) -> None:
        self.table: PairTable = slots_table(shape, traffic)
        self._flows = compile_traffic(traffic, self.table)
        self._machine = shape.machine
        self._capacities = shape.machine.capacities
        links = shape.link_levels()
        self._names = links.names
        self._bit_of_link = _numbers(links, hops_only=True)
        self._name_of_link = _numbers(links, hops_only=False)

    def look(self, placement: Evaluation) -> _View:
        slots = np.array(placement.device_of_rank, np.uint32)
        figures, nbytes = _core.large_loads(self._machine, self._flows, slots)
        seconds = np.zeros(len(self._names))
        np.maximum.at(seconds, self._name_of_link, nbytes / self._capacities)
        busiest = figures.busiest_link
        use = _core.large_flow_use(self._machine, self._flows, slots, self._bit_of_link, busiest)
        return _View(figures, float(nbytes[busiest]), seconds, use)

    def moves(self, before: _View, after: _View, moved: NDArray[np.bool_]) -> list[Move]:
        """Pairs that use other levels, summed by old and new levels; most bytes first."""
        both = np.stack([before.levels[moved], after.levels[moved]])
        kinds, kind_of_pair = np.unique(both, axis=1, return_inverse=True)
        kind_of_pair = kind_of_pair.reshape(-1)  # NumPy 2.0 keeps the axis
        pairs = np.bincount(kind_of_pair, minlength=kinds.shape[1])
        nbytes = np.zeros(kinds.shape[1], np.int64)
        np.add.at(nbytes, kind_of_pair, self.table.bytes[moved])
        return [
            Move(
                links_before=self._levels(int(kinds[0, kind])),
                links_after=self._levels(int(kinds[1, kind])),
                pairs=int(pairs[kind]),
                bytes=int(nbytes[kind]),
            )
            for kind in np.argsort(-nbytes, kind="stable").tolist()
        ]

    def _levels(self, bits: int) -> tuple[str, ...]:
        return tuple(name for at, name in enumerate(self._names) if bits >> at & 1)

    def bottleneck(self, view: _View) -> Bottleneck:
        busiest = view.figures.busiest_link
        users = np.flatnonzero(view.over.astype(np.bool_) & (self.table.bytes > 0))
        heaviest = users[np.argsort(-self.table.bytes[users], kind="stable")][:SHOWN_LOADS]
        is_idle = view.figures.busiest_s == 0
        return Bottleneck(
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


def _numbers(links: LinkLevels, *, hops_only: bool) -> NDArray[np.uint32]:
    """For each link the position of its level's name, or `_MOST_LEVELS` where it is no hop."""
    of_name = {name: at for at, name in enumerate(links.names)}
    of_level = [
        _MOST_LEVELS if hops_only and not level.is_hop else of_name[level.name]
        for level in links.levels
    ]
    return np.array(of_level, np.uint32)[links.level_of_link]
