"""What the order of ranks could gain on a machine at most: the default against the best, predicted.

No profile is needed: a family of common patterns stands for the applications. The answer holds for
these patterns; others may gain more or less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from toposeat import evaluation, mapping, profile
from toposeat.model.health import PossibleGain
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import Topology
from toposeat.pipeline.placing import untold_of

MAX_DEVICES = 128  # beyond, a verdict would take minutes
_BUDGET_S = 0.2


def possible_gains(machine: Topology, *, budget_s: float = _BUDGET_S) -> tuple[PossibleGain, ...]:
    """Place one rank per device for every pattern of the family.

    Args:
        machine: 2 to `MAX_DEVICES` devices; others have no gains.
        budget_s: of search per pattern.

    Returns:
        One entry per pattern, the largest gain first.
    """
    count = len(machine.devices)
    if not 2 <= count <= MAX_DEVICES or not machine.routes:
        return ()
    untold, compiled = untold_of(machine), evaluation.CompiledMachine(machine)
    gains = [
        _gain(compiled, untold, pattern, words, budget_s) for pattern, words in patterns_for(count)
    ]
    return tuple(sorted(gains, key=lambda gain: -gain.share))


def patterns_for(ranks: int) -> Iterator[tuple[str, str]]:
    """Patterns for a number of ranks, and what they are in words."""
    yield f"ring:{ranks}", "ring"
    rows, columns = _grid(ranks, 2)
    if rows > 1:
        yield f"stencil2d:{rows}x{columns}", "2-D stencil"
        yield f"stencil2d:{rows}x{columns},weight=3", "2-D stencil, first dimension 3 times heavier"
    a, b, c = _grid(ranks, 3)
    if a > 1:
        yield f"stencil3d:{a}x{b}x{c}", "3-D stencil"
        yield (
            f"stencil3d:{a}x{b}x{c},weight=3",
            "3-D stencil, first dimension 3 times heavier",
        )
    if ranks % 2 == 0 and ranks > 2:
        yield f"alltoall:2x{ranks // 2}", f"pairs of ranks {ranks // 2} apart"
        yield f"llm:tp=2,pp=1,dp={ranks // 2}", "language model, tensor-parallel pairs"
    if ranks % 4 == 0 and ranks > 4:
        yield f"alltoall:4x{ranks // 4}", f"all-to-all in groups of 4, {ranks // 4} apart"
        yield f"llm:tp=4,pp=1,dp={ranks // 4}", "language model, tensor-parallel groups of 4"


def _gain(
    machine: evaluation.CompiledMachine,
    untold: mapping.Untold,
    pattern: str,
    words: str,
    budget_s: float,
) -> PossibleGain:
    options = MapOptions(budget_s=budget_s)
    traffic = profile.pattern_traffic(pattern)
    result = mapping.map_traffic(machine.topology, traffic, options, untold=untold, machine=machine)
    certificate = result.certificate
    return PossibleGain(
        pattern=pattern,
        words=words,
        default_s=result.default.predicted_s,
        placed_s=result.placed.predicted_s,
        bound_s=certificate.lower_bound,
        proved=certificate.word == "proved" or result.uniform,
        premises=result.premises,
        device_of_rank=result.device_of_rank,
    )


def _grid(ranks: int, dimensions: int) -> tuple[int, ...]:
    """The most even grid of `ranks`, smallest extent first; 1 where it has no such divisor."""
    if dimensions == 1:
        return (ranks,)
    least = max(
        d for d in range(1, int(math.exp(math.log(ranks) / dimensions) + 1e-9) + 1) if not ranks % d
    )
    return tuple(sorted((least, *_grid(ranks // least, dimensions - 1))))
