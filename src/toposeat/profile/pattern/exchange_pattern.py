"""Pattern strings that the microbenchmark program can run: grids, rings and collectives."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.model.exchange import COLLECTIVES, GridExchange
from toposeat.profile.pattern.pattern_text import PatternText
from toposeat.profile.pattern.patterns import DEFAULT_BYTES, DEFAULT_LAYERS

MAX_DIMENSIONS = 6  # of the program, microbench/microbench.h
MAX_RANKS = 4096
EXCHANGE_FORMS = (
    "stencil2d:4x4[,diagonals][,wrap][,weight=W][,bytes=N]",
    "stencil3d:2x2x4[,diagonals][,wrap][,weight=W][,bytes=N]",
    "halo:2x2x4[,layers=L][,bytes=N]",
    "alltoall:4x2x2[,bytes=N]",
    "allgather:4x2x2[,bytes=N]",
    "allreduce:4x2x2[,bytes=N]",
    "bcast:4x2x2[,bytes=N]",
    "ring:N[,bytes=N]",
)


def grid_exchange(text: str) -> GridExchange:
    """The exchange that a pattern string describes; see `patterns.pattern_traffic` for the forms.

    Raises:
        UsageError: another pattern, or one that makes no sense.
    """
    name = text.partition(":")[0]
    forms = tuple(form for form in EXCHANGE_FORMS if form.partition(":")[0] == name)
    if not forms:
        raise UsageError(
            f"no microbenchmark for pattern {text[:80]!r}",
            hint="accepted: " + "; ".join(EXCHANGE_FORMS),
        )
    parts = PatternText(text, forms)
    exchange = _take(parts, name)
    parts.finish()
    if len(exchange.grid) > MAX_DIMENSIONS:
        raise parts.error(f"more than {MAX_DIMENSIONS} dimensions")
    return exchange


def _take(parts: PatternText, name: str) -> GridExchange:
    if name == "ring":
        ranks = parts.take_ranks(max_ranks=MAX_RANKS)
        return GridExchange(name=name, grid=(ranks,), bytes=_size(parts))
    dimensions = {"stencil2d": 2, "stencil3d": 3}.get(name)
    grid = parts.take_grid(dimensions=dimensions, max_ranks=MAX_RANKS)
    if name in COLLECTIVES:
        return GridExchange(name=name, grid=grid, bytes=_size(parts))
    if name == "halo":
        layers = parts.take_integer("layers", DEFAULT_LAYERS, minimum=1, maximum=1024)
        return GridExchange(name=name, grid=grid, wrap=True, layers=layers, bytes=_size(parts))
    return GridExchange(
        name=name,
        grid=grid,
        wrap=parts.take_flag("wrap"),
        diagonals=parts.take_flag("diagonals"),
        weight=parts.take_factor("weight", 1),
        bytes=_size(parts),
    )


def _size(parts: PatternText) -> int:
    return parts.take_bytes("bytes", DEFAULT_BYTES)
