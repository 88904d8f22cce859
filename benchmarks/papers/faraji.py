"""Faraji, Mirsadeghi, Afsahi (2017): a node of 16 K80 GPUs. Figs 4-8, 10 and the mapping time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from benchmarks.machine import in_turns, thread_ms
from benchmarks.papers.row import Paper, Row, Status, percent, spread
from benchmarks.papers.simulated import simulated_program, simulated_seconds
from benchmarks.referee.simgrid import why_no_smpi

from toposeat import _core, pipeline
from toposeat.evaluation import Evaluator
from toposeat.launch.microbench import MicrobenchOptions
from toposeat.mapping import map_traffic
from toposeat.model.evaluation import Evaluation
from toposeat.model.map_options import MapOptions
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

TITLE = (
    "Faraji, Mirsadeghi, Afsahi: Exploiting heterogeneity of communication channels for efficient"
    " GPU selection on multi-GPU nodes, Parallel Computing 68 (2017)"
)
MACHINE = (
    "catalogue `k80-16` for times (shared links and caps per flow; three capacity shares fitted to"
    " the five texts marked calibrated-on), `k80-16-faraji` for congestion (the paper's own graph)"
)
SIZES = (1, 1024, 16384, 65536, 2**20, 2**22, 2**24)
SIMULATED_SIZES = (2**20, 2**22)
LARGE = 2**20
PATTERNS = {
    "2D": "stencil2d:4x4",
    "2D wrap": "stencil2d:4x4,wrap",
    "3D": "stencil3d:2x2x4",
    "3D wrap": "stencil3d:2x2x4,wrap",
    "2D weighted": "stencil2d:4x4,weight=3",
    "2D weighted wrap": "stencil2d:4x4,weight=3,wrap",
    "3D weighted": "stencil3d:2x2x4,weight=3",
    "3D weighted wrap": "stencil3d:2x2x4,weight=3,wrap",
    "COLL": "alltoall:4x2x2",
}
WEIGHTED = tuple(name for name in PATTERNS if "weighted" in name)
_GB = 10**9  # capacities of `k80-16-faraji` are in GB/s, volumes 0 to 100 become GB


def paper(*, simulate: bool, measure: bool) -> Paper:
    rows = [*_congestion_rows(), *_gain_rows(simulate), *_random_rows(), *_metric_rows()]
    rows += [*_small_message_rows(), *_application_rows(), _mapping_time_row(measure)]
    return Paper(title=TITLE, machine=MACHINE, rows=tuple(rows))


@dataclass(frozen=True)
class Predicted:
    """Shares of the default's time that are saved at a message size, by the flow model."""

    bytes: int
    placed: float
    randoms: tuple[float, ...]


@cache
def predicted(name: str) -> tuple[Predicted, ...]:
    """Of the placement that `compare` chooses, and of random orders."""
    plan = _plan(name, SIZES)
    default, placed, *randoms = map(plan.predicted, (plan.default, plan.placed, *plan.randoms))
    return tuple(
        Predicted(size, 1 - placed[at] / before, tuple(1 - each[at] / before for each in randoms))
        for at, (size, before) in enumerate(zip(SIZES, default, strict=True))
    )


@cache
def _plan(name: str, sizes: tuple[int, ...]) -> pipeline.PatternPlan:
    return pipeline.plan_pattern(
        PATTERNS[name],
        read_topology("k80-16"),
        MicrobenchOptions(sizes=sizes, iterations=1, warmup=0, batch_bytes=2**20),
        options=MapOptions(min_gain=0),
        randoms=4,
    )


def _gains(rows: Sequence[Predicted], least: int = 0, most: int = 2**31) -> list[float]:
    return [row.placed for row in rows if least <= row.bytes <= most]


def _simulated(name: str, simulate: bool) -> str:
    if not simulate or why_no_smpi() is not None:
        return ""
    plan = _plan(name, SIMULATED_SIZES)
    with simulated_program() as program:
        default, placed = simulated_seconds(plan, [plan.default, plan.placed], program)
    gains = [1 - after / before for before, after in zip(default, placed, strict=True)]
    return spread(gains, 100) + " % (1 and 4 MiB)"


# Fig. 7 ------------------------------------------------------------------------------------------


def normalised(name: str) -> Traffic:
    """Volumes of 0 to 100, truncated to whole numbers, as the figure has them."""
    volume = pattern_traffic(PATTERNS[name]).table().dense_bytes(16)
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
    table = PairTable.from_dense(volume * 100 // volume.max() * _GB)
    return Traffic(ranks=16, origin=name, tables={key: table})


def levels(evaluation: Evaluation) -> tuple[int, ...]:
    """The highest congestion of each level of links: device, board, switch, QPI."""
    count = (16, 8, 4, 1)  # links of each level, told apart by how many there are in the catalogue
    topology = read_topology("k80-16-faraji")
    bounds = [sum(count[:level]) for level in range(5)]
    of_link = {load.link: load.congestion_s for load in evaluation.links}
    seconds = [of_link[link.id] for link in topology.links]
    return tuple(round(max(seconds[low:high])) for low, high in pairwise(bounds))


def _congestion_rows() -> list[Row]:
    machine = read_topology("k80-16-faraji")
    rows = []
    for name, before, after, text in (
        ("2D", (179, 553, 1511, 800), (179, 553, 755, 800), "differs at level 2 only"),
        ("3D weighted", (89, 330, 1004, 1600), None, "level 3: 1600 -> 264"),
    ):
        traffic = normalised(name)
        result = map_traffic(machine, traffic, MapOptions(objective="cost", min_gain=0))
        default, placed = levels(result.default), levels(result.placed)
        shown = f"levels 0-3: {default} -> {placed}"
        if after is not None:
            changed = [level for level in range(4) if default[level] != placed[level]]
            holds = default == before and placed == after and changed == [2]
        else:
            holds = default == before and (default[3], placed[3]) == (1600, 264)
        rows.append(
            Row(
                figure="Fig. 7",
                quantity=f"congestion, {name}",
                published=text,
                predicted=shown,
                status=Status.EXACT,
                holds=holds,
                note="least sum of bytes x cost, as in the paper"
                + (f" ({result.certificate.word})"),
            )
        )
    return rows


# Figs 4-6 ----------------------------------------------------------------------------------------

_TEXTS: Sequence[tuple[str, str, str, Status, float, float, str]] = (
    # figure, pattern, published, status, least, most gain at large messages, note
    ("Fig. 4(a)", "2D", "about 20 %", Status.CALIBRATED, 0.15, 0.30, ""),
    ("Fig. 4(b)", "2D wrap", "none", Status.CALIBRATED, 0, 0, "the default is kept"),
    ("Fig. 4(c)", "3D", "some above 64 KB", Status.HELD_OUT, 0.01, 1, ""),
    ("Fig. 4(d)", "3D wrap", "more than 3D", Status.HELD_OUT, 0.01, 1, ""),
    ("Fig. 5(a)", "2D weighted", "up to 65 %", Status.CALIBRATED, 0.4, 0.70, ""),
    ("Fig. 5(b)", "2D weighted wrap", "up to 65 %", Status.HELD_OUT, 0.2, 0.65, ""),
    ("Fig. 5(c)", "3D weighted", "about 50 %", Status.CALIBRATED, 0.4, 0.6, ""),
    (
        "Fig. 5(d)",
        "3D weighted wrap",
        "up to 65 %",
        Status.CALIBRATED,
        0.4,
        0.72,
        "above the published maximum: placed by predicted time, not by the sum of bytes x cost",
    ),
    ("Fig. 6", "COLL", "up to 70 %", Status.CALIBRATED, 0.5, 0.70, "linear all-to-all"),
)


def _gain_rows(simulate: bool) -> list[Row]:
    rows = []
    for figure, name, published, status, least, most, note in _TEXTS:
        large = _gains(predicted(name), LARGE)
        holds = all(least - 1e-9 <= gain <= most + 1e-9 for gain in large)
        if name == "3D wrap":
            holds = holds and min(large) > max(_gains(predicted("3D"), LARGE))
        rows.append(
            Row(
                figure=figure,
                quantity=f"gain in time, {name}, 1 to 16 MiB",
                published=published,
                predicted=spread(large, 100) + " %",
                simulated=_simulated(name, simulate),
                status=status,
                holds=holds,
                note=note,
            )
        )
    everywhere = [gain for name in PATTERNS for gain in _gains(predicted(name))]
    rows.append(
        Row(
            figure="Figs 4-6",
            quantity="least gain of all patterns and sizes",
            published="below 0 for some small messages",
            predicted=percent(min(everywhere)),
            status=Status.HELD_OUT,
            holds=min(everywhere) >= -1e-9,
            note="ours is never predicted slower than the default",
        )
    )
    growing = [name for name in PATTERNS if _is_growing(_gains(predicted(name)))]
    rows.append(
        Row(
            figure="Figs 4-6",
            quantity="patterns whose gain never falls with the size",
            published="more useful above 16 KB",
            predicted=f"{len(growing)} of {len(PATTERNS)}",
            status=Status.HELD_OUT,
            holds=len(growing) == len(PATTERNS),
        )
    )
    return rows


def _is_growing(gains: list[float]) -> bool:
    return all(after >= before - 0.002 for before, after in pairwise(gains))


def _small_message_rows() -> list[Row]:
    names = [name for name in PATTERNS if min(_gains(predicted(name), 0, 1024)) > 0.01]
    return [
        Row(
            figure="Figs 4-6",
            quantity="microbenchmarks that gain at small messages",
            published="three",
            predicted=f"{len(names)}: {', '.join(names)}",
            status=Status.HELD_OUT,
            holds=len(names) == 3,
        )
    ]


# Fig. 8 ------------------------------------------------------------------------------------------


def _random_rows() -> list[Row]:
    rows = []
    for name in ("2D", "3D weighted"):
        means = [statistics.fmean(row.randoms) for row in predicted(name) if row.bytes >= 65536]
        placed = _gains(predicted(name), 65536)
        rows.append(
            Row(
                figure="Fig. 8",
                quantity=f"four random orders, {name}, from 64 KiB",
                published="below the default",
                predicted=f"{spread(means, 100)} % (placed {spread(placed, 100)} %)",
                status=Status.HELD_OUT,
                holds=max(means) < 0 and min(placed) > 0,
            )
        )
    return rows


# Section 5.1.1: the metrics ----------------------------------------------------------------------


def _metric_rows() -> list[Row]:
    """Placements by the least sum with each metric, as the paper made them, by predicted time."""
    machine = read_topology("k80-16")
    worst = 0.0
    for name in WEIGHTED:
        traffic = pattern_traffic(PATTERNS[name])
        time = {}
        for metric in ("bandwidth", "latency", "distance"):
            order = map_traffic(
                machine, traffic, MapOptions(objective="cost", metric=metric, min_gain=0)
            ).device_of_rank
            time[metric] = Evaluator(machine, traffic).evaluate(order).predicted_s
        worst = max(worst, time["bandwidth"] / min(time["latency"], time["distance"]) - 1)
    return [
        Row(
            figure="Fig. 5",
            quantity="bandwidth metric slower than another metric, weighted patterns, at most",
            published="never",
            predicted=percent(worst),
            status=Status.HELD_OUT,
            holds=worst <= 1e-9,
            note="1 MiB, least sum of bytes x cost by each metric",
        )
    ]


# Section 5.2 -------------------------------------------------------------------------------------


def _application_rows() -> list[Row]:
    name = "3D wrap"
    pairs = len(pattern_traffic(PATTERNS[name]).table().source) / 16**2
    gains = _gains(predicted(name), 16384)
    return [
        Row(
            figure="Fig. 10",
            quantity="HOOMD-Blue LJ-512K: share of matrix entries with heavy traffic",
            published="around 20 %",
            predicted=percent(pairs),
            status=Status.HELD_OUT,
            holds=0.15 <= pairs <= 0.30,
            note="the 2x2x4 stencil with wrap that the paper says it resembles",
        ),
        Row(
            figure="Fig. 13",
            quantity="HOOMD-Blue: gain in GPU communication time",
            published="about 20 %",
            predicted=f"{spread(gains, 100)} % (3D wrap, from 16 KiB)",
            status=Status.HELD_OUT,
            holds=False,
            note="the sign holds, the size does not: the application also waits in these calls, and"
            " its volumes are not published",
        ),
        Row(
            figure="Fig. 9, 11, 12",
            quantity="HOOMD-Blue: steps per second, message sizes, shares",
            published="up to +21.7 % (single), +17.8 % (double)",
            status=Status.NOT_REPRODUCIBLE,
            note="needs the application on the GPUs; shares of time are shown only in a picture",
        ),
        Row(
            figure="Figs 2, 3",
            quantity="latency and bandwidth of the four levels",
            published="ratios 1.01 1.17 1.57 and 2.47 4.22 4.47",
            status=Status.NOT_REPRODUCIBLE,
            note="inputs of the model; absolute values are not in the text",
        ),
    ]


def _mapping_time_row(measure: bool) -> Row:
    if not measure:
        return Row(
            figure="Sec. 5.2.2",
            quantity="mapping time of 16 ranks",
            published="about 0.5 ms (Scotch 5.8)",
            status=Status.NOT_REPRODUCIBLE,
            note="not measured in this run (--no-measure)",
        )
    machine = read_topology("k80-16")
    medians: dict[str, list[float]] = {"first": [], "again": []}
    for pattern in PATTERNS.values():
        evaluator = Evaluator(machine, pattern_traffic(pattern))
        request = _core.MapRequest(
            evaluator.machine.network, evaluator.flows, evaluator.costs.per_byte, objective="cost"
        )
        call = thread_ms(lambda request=request: _core.map_ranks(request))
        for key, taken in in_turns(dict.fromkeys(medians, call), 5).items():
            medians[key].append(statistics.median(taken))
    ours = statistics.median(medians["first"])
    return Row(
        figure="Sec. 5.2.2",
        quantity="mapping time of 16 ranks",
        published="about 0.5 ms (Scotch 5.8)",
        measured=f"{ours:.2f} ms (A/A {statistics.median(medians['again']):.2f} ms)",
        status=Status.HELD_OUT,
        holds=ours <= 5.0,
        note="thread CPU, median over nine patterns of five interleaved rounds, proof included;"
        " not the paper's machine, so only the magnitude compares",
    )
