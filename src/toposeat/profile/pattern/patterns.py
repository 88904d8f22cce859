"""Named communication patterns: the traffic of a job that nobody has profiled yet.

Grids are row-major: the first dimension varies slowest. All bytes are between device buffers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from types import MappingProxyType

from toposeat.errors import UsageError
from toposeat.model.traffic import (
    MAX_TOTAL,
    CollectiveEvent,
    Communicator,
    MemorySpace,
    Traffic,
    TrafficKind,
)
from toposeat.profile.importers.message_list import MessageList
from toposeat.profile.pattern.llm_pattern import LLM_FORM, llm_messages
from toposeat.profile.pattern.pattern_text import PatternText

DEFAULT_BYTES = 2**20  # of one message
DEFAULT_LAYERS = 4  # of a halo
MAX_RANKS = 2**17
MAX_PAIRS = 2**22

Builder = Callable[[PatternText], MessageList]


def pattern_traffic(text: str) -> Traffic:
    """The traffic of a pattern string; `PATTERN_FORMS` lists the accepted forms.

    * `stencil2d`, `stencil3d`: every rank exchanges `messages` messages of `bytes` with each
      neighbour in the grid. `weight=W` makes the messages along the first dimension W times larger.
      `diagonals` adds the neighbours across edges and corners, with messages of `bytes` too: 9
      points in 2-D, 27 in 3-D.
      `wrap` joins the two ends of every dimension: where a dimension has 2 ranks, both neighbours
      are the same rank and it gets both messages.
    * `halo`: the stencil with `wrap` on a grid of any number of dimensions; each message holds
      `layers` layers of `bytes`: the halo exchange of a field that is periodic in all directions.
    * `ring`: rank r sends to rank r + 1, the last to the first.
    * `alltoall`: the ranks that share all coordinates but the first form a communicator, in which
      every rank sends `bytes` to every other (linear algorithm).
    * `random`: every rank sends to `degree` others chosen at random, each time messages of a size
      drawn from 1 to `bytes`.
    * `llm`: one training step of a dense transformer, see `llm_pattern`.

    Raises:
        UsageError: on anything else, with the accepted forms as the hint.
    """
    name = text.partition(":")[0]
    entry = _PATTERNS.get(name)
    if entry is None:
        raise UsageError(
            f"unknown pattern {name[:80]!r}", hint="accepted: " + "; ".join(PATTERN_FORMS)
        )
    form, build = entry
    parts = PatternText(text, (form,))
    messages = build(parts)
    if float(messages.total_bytes()) >= MAX_TOTAL:
        raise parts.error("the bytes of all messages do not fit in 62 bits")
    return messages.traffic(
        f"pattern {text}",
        collective_model=_COLLECTIVE_MODELS.get(name, ""),
        metadata={"pattern": text},
    )


def is_pattern(text: str) -> bool:
    """Whether the text is meant as a pattern: it begins with a pattern's name and a colon."""
    name, colon, _ = text.partition(":")
    return bool(colon) and name in _PATTERNS


def _stencil(dimensions: int) -> Builder:
    def build(text: PatternText) -> MessageList:
        grid = text.take_grid(dimensions=dimensions, max_ranks=MAX_RANKS)
        wrap = text.take_flag("wrap")
        diagonals = text.take_flag("diagonals")
        weight = text.take_factor("weight", 1)
        size, count = _take_message(text)
        text.finish()
        ranks = _Grid(grid)
        messages = MessageList(ranks.size)
        for rank, place in enumerate(ranks.places()):
            for dimension, target in ranks.neighbours(place, wrap=wrap):
                weighted = round(size * weight) if dimension == 0 else size
                messages.add(TrafficKind.POINT_TO_POINT, rank, target, weighted, count)
            if diagonals:
                for target in ranks.diagonals(place, wrap=wrap):
                    messages.add(TrafficKind.POINT_TO_POINT, rank, target, size, count)
        return messages

    return build


def _halo(text: PatternText) -> MessageList:
    grid = text.take_grid(max_ranks=MAX_RANKS)
    layers = text.take_integer("layers", DEFAULT_LAYERS, minimum=1, maximum=1024)
    size, count = _take_message(text)
    text.finish()
    ranks = _Grid(grid)
    messages = MessageList(ranks.size)
    for rank, place in enumerate(ranks.places()):
        for _, target in ranks.neighbours(place, wrap=True):
            messages.add(TrafficKind.POINT_TO_POINT, rank, target, size * layers, count)
    return messages


def _ring(text: PatternText) -> MessageList:
    ranks = text.take_ranks(max_ranks=MAX_RANKS)
    size, count = _take_message(text)
    text.finish()
    messages = MessageList(ranks)
    for rank in range(ranks):
        messages.add(TrafficKind.POINT_TO_POINT, rank, (rank + 1) % ranks, size, count)
    return messages


def _alltoall(text: PatternText) -> MessageList:
    grid = text.take_grid(max_ranks=MAX_RANKS)
    size, count = _take_message(text)
    text.finish()
    ranks = _Grid(grid)
    if ranks.size * (grid[0] - 1) > MAX_PAIRS:
        raise text.error(f"more than {MAX_PAIRS} pairs of ranks")
    messages = MessageList(ranks.size)
    stride = ranks.size // grid[0]
    for first in range(stride):
        members = tuple(range(first, ranks.size, stride))
        messages.communicators.append(
            Communicator(id=first, ranks=members, name=f"first dimension, member {first}")
        )
        messages.add_all_to_all(TrafficKind.COLLECTIVE, members, size, count)
        messages.collectives += [
            CollectiveEvent(
                communicator=first,
                operation="alltoall",
                rank=rank,
                root=-1,
                space=MemorySpace.DEVICE,
                bytes=size,
                calls=count,
            )
            for rank in members
        ]
    return messages


def _random(text: PatternText) -> MessageList:
    ranks = text.take_ranks(max_ranks=MAX_RANKS)
    seed = text.take_integer("seed", 1, minimum=0, maximum=2**63 - 1)
    degree = text.take_integer("degree", min(4, ranks - 1), minimum=0, maximum=ranks - 1)
    size, count = _take_message(text)
    text.finish()
    if ranks * degree > MAX_PAIRS:
        raise text.error(f"more than {MAX_PAIRS} pairs of ranks")
    # Only random() keeps its sequence from one version of Python to the next.
    uniform = random.Random(seed).random
    messages = MessageList(ranks)
    for source in range(ranks):
        targets: set[int] = set()
        while len(targets) < degree:
            other = int(uniform() * (ranks - 1))
            target = other + (other >= source)
            if target not in targets:
                targets.add(target)
                one = 1 + int(uniform() * size)
                messages.add(TrafficKind.POINT_TO_POINT, source, target, one, count)
    return messages


def _take_message(text: PatternText) -> tuple[int, int]:
    return (
        text.take_bytes("bytes", DEFAULT_BYTES),
        text.take_integer("messages", 1, minimum=1, maximum=10**9),
    )


class _Grid:
    """A row-major process grid."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._strides = [1] * len(shape)
        for dimension in reversed(range(len(shape) - 1)):
            self._strides[dimension] = self._strides[dimension + 1] * shape[dimension + 1]
        self.size = self._strides[0] * shape[0]

    def places(self) -> Iterator[tuple[int, ...]]:
        """Coordinates of rank 0, 1, ..."""
        return product(*(range(extent) for extent in self._shape))

    def neighbours(self, place: tuple[int, ...], *, wrap: bool) -> Iterator[tuple[int, int]]:
        """(dimension, rank) one step down and up; with `wrap` also over the ends.

        The same rank comes twice where down and up meet, and a dimension of 1 gives none.
        """
        rank = sum(c * stride for c, stride in zip(place, self._strides, strict=True))
        for dimension, (extent, stride) in enumerate(zip(self._shape, self._strides, strict=True)):
            here = place[dimension]
            for there in (here - 1, here + 1):
                if extent > 1 and (wrap or 0 <= there < extent):
                    yield dimension, rank + (there % extent - here) * stride

    def diagonals(self, place: tuple[int, ...], *, wrap: bool) -> Iterator[int]:
        """Ranks one step away in two dimensions or more; as `neighbours` where down and up meet."""
        reach = []
        for here, extent, stride in zip(place, self._shape, self._strides, strict=True):
            near = (here - 1, here + 1) if extent > 1 else ()
            steps = [there % extent * stride for there in near if wrap or 0 <= there < extent]
            reach.append([(0, here * stride), *((1, step) for step in steps)])
        for ends in product(*reach):
            if sum(moved for moved, _ in ends) > 1:
                yield sum(step for _, step in ends)


_PATTERNS: MappingProxyType[str, tuple[str, Builder]] = MappingProxyType(
    {
        "stencil2d": (
            "stencil2d:4x4[,diagonals][,wrap][,weight=W][,bytes=N][,messages=M]",
            _stencil(dimensions=2),
        ),
        "stencil3d": (
            "stencil3d:2x2x4[,diagonals][,wrap][,weight=W][,bytes=N][,messages=M]",
            _stencil(dimensions=3),
        ),
        "halo": ("halo:2x2x4[,layers=L][,bytes=N][,messages=M]", _halo),
        "ring": ("ring:N[,bytes=N][,messages=M]", _ring),
        "alltoall": ("alltoall:4x2x2[,bytes=N][,messages=M]", _alltoall),
        "random": ("random:N[,seed=S][,degree=D][,bytes=N][,messages=M]", _random),
        "llm": (LLM_FORM, llm_messages),
    }
)
_COLLECTIVE_MODELS = {"alltoall": "alltoall: linear", "llm": "allreduce: ring"}

PATTERN_FORMS = tuple(form for form, _ in _PATTERNS.values())
