"""Named communication patterns: the traffic of a job that nobody has profiled yet.

Grids are row-major: the first dimension varies slowest. All bytes are between device buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from toposeat.errors import UsageError, did_you_mean
from toposeat.model.runs import GridExchange
from toposeat.model.traffic import (
    GRID,
    MAX_TOTAL,
    CollectiveEvent,
    Communicator,
    MemorySpace,
    Traffic,
    TrafficKind,
)
from toposeat.profile.message_list import MessageList
from toposeat.profile.pattern.pattern_text import PatternText

DEFAULT_BYTES = 2**20  # of one message
DEFAULT_LAYERS = 4  # of a halo
MAX_RANKS = 2**17
MAX_EXCHANGE_RANKS = 4096
MAX_DIMENSIONS = 6  # of the microbenchmark program, microbench/microbench.h
MAX_PAIRS = 2**22

Builder = Callable[[PatternText], MessageList]


def pattern_traffic(text: str) -> Traffic:
    """The traffic of a pattern string; `PATTERNS` lists the accepted forms, and what each means."""
    name = text.partition(":")[0]
    kind = PATTERNS.get(name)
    if kind is None:
        examples = ", ".join(each.form.partition("[")[0] for each in PATTERNS.values())
        hint = did_you_mean(name, PATTERNS) or f"accepted, each with options: {examples}"
        raise UsageError(f"unknown pattern {name[:80]!r}", hint=hint)
    parts = PatternText(text, (kind.form,))
    messages = kind.build(parts)
    if messages.total >= MAX_TOTAL:
        raise parts.error("the bytes of all messages do not fit in 62 bits")
    return messages.traffic(
        f"pattern {text}",
        collective_model=_COLLECTIVE_MODELS.get(name, ""),
        metadata={"pattern": text, **({GRID: messages.grid} if messages.grid else {})},
    )


def grid_exchange(text: str) -> GridExchange:
    """The exchange of a pattern string that the microbenchmark program can run."""
    name = text.partition(":")[0]
    forms = tuple(form for form in EXCHANGE_FORMS if form.partition(":")[0] == name)
    if not forms:
        raise UsageError(
            f"no microbenchmark for pattern {text[:80]!r}",
            hint="accepted: " + "; ".join(EXCHANGE_FORMS),
        )
    parts = PatternText(text, forms)
    exchange = _take_exchange(parts, MAX_EXCHANGE_RANKS)
    parts.finish()
    if len(exchange.grid) > MAX_DIMENSIONS:
        raise parts.error(f"more than {MAX_DIMENSIONS} dimensions")
    return exchange


def _take_exchange(parts: PatternText, max_ranks: int) -> GridExchange:
    name = parts.name
    if name == "ring":
        grid: tuple[int, ...] = (parts.take_ranks(max_ranks=max_ranks),)
    else:
        grid = parts.take_grid(
            dimensions={"stencil2d": 2, "stencil3d": 3}.get(name), max_ranks=max_ranks
        )
    exchange = GridExchange(name=name, grid=grid, bytes=parts.take_bytes("bytes", DEFAULT_BYTES))
    if name == "halo":
        layers = parts.take_integer("layers", DEFAULT_LAYERS, minimum=1, maximum=1024)
        return replace(exchange, wrap=True, layers=layers)
    if name not in ("stencil2d", "stencil3d"):
        return exchange
    return replace(
        exchange,
        wrap=parts.take_flag("wrap"),
        diagonals=parts.take_flag("diagonals"),
        weight=parts.take_factor("weight", 1),
    )


def _exchange(text: PatternText) -> MessageList:
    exchange = _take_exchange(text, MAX_RANKS)
    count = _take_count(text)
    text.finish()
    if exchange.is_collective:
        return _alltoall(text, exchange, count)
    messages = MessageList(exchange.ranks)
    ranks = np.arange(exchange.ranks).reshape(exchange.grid)
    if exchange.name == "ring":
        messages.add(TrafficKind.POINT_TO_POINT, ranks, np.roll(ranks, -1), exchange.bytes, count)
        return messages
    messages.grid = "x".join(map(str, exchange.grid))
    places = np.indices(exchange.grid)
    for steps in _steps(exchange):
        target = np.roll(ranks, [-step for step in steps], axis=tuple(range(ranks.ndim)))
        inside = np.full(ranks.shape, True)
        for place, step, extent in zip(places, steps, exchange.grid, strict=True):
            inside &= exchange.wrap | ((place + step >= 0) & (place + step < extent))
        size = exchange.bytes * exchange.layers
        if steps[0] and not any(steps[1:]):
            size = round(size * exchange.weight)
        messages.add(TrafficKind.POINT_TO_POINT, ranks[inside], target[inside], size, count)
    return messages


def _steps(exchange: GridExchange) -> Iterator[tuple[int, ...]]:
    """How far each neighbour is away in each dimension of a stencil or a halo.

    Where a dimension has two ranks, one step down and one up meet: that rank is a neighbour twice.
    """
    none = (0,) * len(exchange.grid)
    if exchange.diagonals:
        ways = product(*((-1, 0, 1) if extent > 1 else (0,) for extent in exchange.grid))
        yield from (steps for steps in ways if steps != none)
        return
    for dimension, extent in enumerate(exchange.grid):
        for step in (-1, 1) if extent > 1 else ():
            yield *none[:dimension], step, *none[dimension + 1 :]


def _alltoall(text: PatternText, exchange: GridExchange, count: int) -> MessageList:
    if exchange.ranks * (exchange.grid[0] - 1) > MAX_PAIRS:
        raise text.error(f"more than {MAX_PAIRS} pairs of ranks")
    messages = MessageList(exchange.ranks)
    for first, members in enumerate(exchange.groups):
        messages.communicators.append(
            Communicator(id=first, ranks=members, name=f"first dimension, member {first}")
        )
        ends = np.repeat(members, len(members)), np.tile(members, len(members))
        messages.add(TrafficKind.COLLECTIVE, *ends, exchange.bytes, count)
        messages.collectives += [
            CollectiveEvent(
                communicator=first,
                operation="alltoall",
                rank=rank,
                root=-1,
                space=MemorySpace.DEVICE,
                bytes=exchange.bytes,
                calls=count,
            )
            for rank in members
        ]
    return messages


def _random(text: PatternText) -> MessageList:
    ranks = text.take_ranks(max_ranks=MAX_RANKS)
    seed = text.take_integer("seed", 1, minimum=0, maximum=2**63 - 1)
    degree = text.take_integer("degree", min(4, ranks - 1), minimum=0, maximum=ranks - 1)
    size, count = text.take_bytes("bytes", DEFAULT_BYTES), _take_count(text)
    text.finish()
    if ranks * degree > MAX_PAIRS:
        raise text.error(f"more than {MAX_PAIRS} pairs of ranks")
    import random  # noqa: PLC0415 - 1 ms

    # Only random() keeps its sequence from one version of Python to the next.
    uniform = random.Random(seed).random
    rows = []
    for source in range(ranks):
        targets: set[int] = set()
        while len(targets) < degree:
            other = int(uniform() * (ranks - 1))
            target = other + (other >= source)
            if target not in targets:
                targets.add(target)
                rows.append((source, target, 1 + int(uniform() * size)))
    messages = MessageList(ranks)
    sources, ends, sizes = np.array(rows, np.int64).reshape(-1, 3).T
    messages.add(TrafficKind.POINT_TO_POINT, sources, ends, sizes, count)
    return messages


def _llm(text: PatternText) -> MessageList:
    from toposeat.profile.pattern.llm import llm_messages  # noqa: PLC0415 - 8 ms

    return llm_messages(text)


def _take_count(text: PatternText) -> int:
    return text.take_integer("messages", 1, minimum=1, maximum=10**9)


_LLM_FORM = (
    "llm:tp=2,pp=2,dp=2[,model=NAME][,cp=C][,ep=E,experts=N[,topk=K][,capacity=F][,dense=D]]"
    "[,order=tp-cp-ep-dp-pp][,sp][,virtual=V][,layers=L][,hidden=H][,ffn=F]"
    "[,heads=A,kv-heads=G,head-dim=D][,seq=S][,microbatch=B][,microbatches=M][,params=P]"
    "[,zero=0|1|2|3][,fsdp][,grad=bf16|fp32][,mode=train|prefill|decode]"
)
EXCHANGE_FORMS = (
    "stencil2d:4x4[,diagonals][,wrap][,weight=W][,bytes=N]",
    "stencil3d:2x2x4[,diagonals][,wrap][,weight=W][,bytes=N]",
    "halo:2x2x4[,layers=L][,bytes=N]",
    "ring:N[,bytes=N]",
    "alltoall:4x2x2[,bytes=N]",
    "allgather:4x2x2[,bytes=N]",
    "allreduce:4x2x2[,bytes=N]",
    "bcast:4x2x2[,bytes=N]",
)


class PatternKind(NamedTuple):
    """One entry of `PATTERNS`: a new pattern is one more, and its builder."""

    form: str  # the whole text, options in brackets
    meaning: str  # Markdown, a sentence for the pattern and one for what its options do
    build: Builder
    drawing: str  # of an example, numbers being ranks


def _form_of(name: str) -> str:
    own = (form for form in EXCHANGE_FORMS if form.startswith(f"{name}:"))
    return f"{next(own)}[,messages=M]"


# Small, of letters that every terminal has.
_DRAWINGS = {
    "stencil2d": r"""
2x4   0---1---2---3
      |   |   |   |
      4---5---6---7
""",
    "stencil3d": r"""
2x2x2     4---5
         /|  /|
        0---1 |
        | 6-|-7
        |/  |/
        2---3
""",
    "halo": r"""
2x4  -0---1---2---3-   each row and each
      |   |   |   |    column is closed
     -4---5---6---7-   to a ring
""",
    "ring": r"""
4     0-->1-->2-->3
      ^           |
      +-----------+
""",
    "alltoall": r"""
4     0---1
      | X |
      2---3
""",
    "random": r"""
6     0-->3   1-->5
      2-->4   5-->2   ...
""",
    "llm": r"""
tp=2,pp=2,dp=2   stage 0   (0=1)~~(2=3)
                             |      |
                 stage 1   (4=5)~~(6=7)
= tensor, ~ data, | pipeline groups
""",
}

PATTERNS: MappingProxyType[str, PatternKind] = MappingProxyType(
    {
        "stencil2d": PatternKind(
            _form_of("stencil2d"),
            "Every rank sends `bytes` to each neighbour in a grid. `weight=W` makes the messages"
            " along the first dimension W times larger; `diagonals` adds the neighbours across"
            " corners (9 points); `wrap` joins the two ends of every dimension: where one has 2"
            " ranks, both neighbours are the same rank, which gets both messages.",
            _exchange,
            _DRAWINGS["stencil2d"],
        ),
        "stencil3d": PatternKind(
            _form_of("stencil3d"),
            "The same in three dimensions; `diagonals` adds the neighbours across edges and corners"
            " (27 points).",
            _exchange,
            _DRAWINGS["stencil3d"],
        ),
        "halo": PatternKind(
            _form_of("halo"),
            "The halo exchange of a field that is periodic in all directions, on a grid of any"
            " number of dimensions. Each message holds `layers` layers (4) of `bytes`.",
            _exchange,
            _DRAWINGS["halo"],
        ),
        "ring": PatternKind(
            _form_of("ring"),
            "Rank r sends to rank r + 1, the last to the first.",
            _exchange,
            _DRAWINGS["ring"],
        ),
        "alltoall": PatternKind(
            _form_of("alltoall"),
            "The ranks that share all coordinates but the first form a communicator, in which every"
            " rank sends `bytes` to every other (linear algorithm).",
            _exchange,
            _DRAWINGS["alltoall"],
        ),
        "random": PatternKind(
            "random:N[,seed=S][,degree=D][,bytes=N][,messages=M]",
            "Every rank sends to `degree` others (4) chosen at random by `seed`, each time messages"
            " of a size drawn from 1 to `bytes`.",
            _random,
            _DRAWINGS["random"],
        ),
        "llm": PatternKind(
            _LLM_FORM,
            "One step of a transformer from its parallel layout. [What a language model sends]"
            "(../explanation/collectives.md#what-a-language-model-sends) explains every option.",
            _llm,
            _DRAWINGS["llm"],
        ),
    }
)
_COLLECTIVE_MODELS = {"alltoall": "alltoall: linear", "llm": "rings; alltoall: pairwise"}
