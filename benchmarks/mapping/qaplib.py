"""QAPLIB: gap to the best known cost, and the time that took; peers and a control in the same run.

Run: python -m benchmarks.mapping.qaplib [NAME...] [--quick] [--seconds S] [--seeds N]
     [--largest N] [--no-peers] [--data DIR]

One row per instance. Every run has its own seed and ends at the best known cost or after S seconds;
all times are CPU seconds of the one thread that searches, deadline included, so that other load
does not count. `gap` is over the best known cost, mean and worst of the seeds; `best at` is the
median and worst time at which a run had its answer. The control is one robust tabu search without
restarts (Taillard) on the same tables, with the same seconds and seed 1. Peers have no budget, they
end when they end; of Scotch, a program, reading its files counts. Costs are recomputed from the
placement: no stated cost is believed.

`--quick` takes few and easy instances and one second: half a minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.machine import describe
from benchmarks.mapping import gmap
from numpy.typing import NDArray

from toposeat import _core

Square = NDArray[np.float64]
DATA = Path(__file__).parents[3] / "shared" / "qaplib"
QUICK = ("bur26a", "chr25a", "els19", "esc32a", "kra30a", "lipa40a", "nug30", "scr20", "sko42")
LARGEST_TWO_OPT = 40  # ranks; scipy's 2-opt takes seconds from there
LARGEST_FAQ = 100


@dataclass(frozen=True)
class Instance:
    """Minimise the sum of flow[i, j] * distance[p[i], p[j]]."""

    name: str
    flow: Square
    distance: Square
    best_known: int
    note: str  # "", "corrected" (the published file is wrong) or "unverified"

    @property
    def size(self) -> int:
        return len(self.flow)

    def cost(self, placement: Sequence[int] | NDArray[np.int64]) -> int:
        where = np.asarray(placement)
        assert sorted(where.tolist()) == list(range(self.size)), "not a permutation"
        return round(float((self.flow * self.distance[np.ix_(where, where)]).sum()))

    def gap(self, cost: int) -> float:
        """In percent; an optimum of 0 makes every other cost infinitely far away."""
        if cost == self.best_known:
            return 0.0
        return 100 * (cost / self.best_known - 1) if self.best_known else float("inf")


def read_instances(folder: Path, largest: int) -> Iterator[Instance]:
    """In order of size, then name."""
    lines = (folder / "best-known.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = sorted((line.split("\t") for line in lines), key=lambda row: (int(row[1]), row[0]))
    for name, size, best_known, note in rows:
        if int(size) > largest:
            continue
        words = (folder / f"{name}.dat").read_text(encoding="ascii").split()
        numbers = np.array(words, np.float64)
        count = int(numbers[0])
        flow, distance = numbers[1 : 1 + 2 * count * count].reshape(2, count, count)
        yield Instance(name, flow, distance, int(best_known), note)


@dataclass(frozen=True)
class Run:
    gap: float
    seconds_to_best: float


def search(instance: Instance, strategy: str, seconds: float, seed: int) -> Run:
    record = _core.search_pairwise(
        instance.flow,
        instance.distance,
        strategy=strategy,
        seed=seed,
        budget_s=seconds,
        target=instance.best_known,
        thread_time=True,
    )
    return Run(instance.gap(instance.cost(record.placement)), record.seconds_to_best)


def timed(instance: Instance, call: Callable[[], Sequence[int]]) -> Run:
    begin = time.thread_time()
    placement = call()
    return Run(instance.gap(instance.cost(placement)), time.thread_time() - begin)


def scotch_form(instance: Instance) -> tuple[Square, Square, bool] | None:
    """Flow, distance and whether they are exchanged, for what Scotch can express.

    That is: both symmetric, no diagonal, and all distances positive.
    """
    both = instance.flow, instance.distance
    if any((each != each.T).any() or each.diagonal().any() for each in both):
        return None
    between = ~np.eye(instance.size, dtype=bool)
    for exchanged, (flow, distance) in enumerate((both, both[::-1])):
        if distance[between].min() > 0:
            return flow, distance, bool(exchanged)
    return None


def scotch(instance: Instance) -> Run | None:
    """Repaired to one to one."""
    form = scotch_form(instance)
    if form is None or not gmap.is_installed():
        return None
    flow, distance, exchanged = form
    answer, cpu_s = gmap.places_on_pairs(flow, distance)
    placement = gmap.repaired(answer, flow, distance)
    placement = np.argsort(placement) if exchanged else placement
    return Run(instance.gap(instance.cost(placement)), cpu_s)


def scipy_method(instance: Instance, method: str, largest: int) -> Run | None:
    if importlib.util.find_spec("scipy") is None or instance.size > largest:
        return None
    from scipy.optimize import quadratic_assignment  # noqa: PLC0415 (optional)

    options = {"rng": np.random.default_rng(1)}
    return timed(
        instance,
        lambda: (
            quadratic_assignment(
                instance.flow, instance.distance, method=method, options=options
            ).col_ind
        ),
    )


PEERS: dict[str, Callable[[Instance], Run | None]] = {
    "faq": lambda each: scipy_method(each, "faq", LARGEST_FAQ),
    "2opt": lambda each: scipy_method(each, "2opt", LARGEST_TWO_OPT),
    "Scotch": scotch,
}


def cell(run: Run | None) -> str:
    return f"{run.gap:9.3f}{run.seconds_to_best:8.3f}" if run else f"{'-':>9}{'-':>8}"


class Summary:
    """Means over the instances of one range of sizes."""

    def __init__(self) -> None:
        self.own: list[list[Run]] = []
        self.others: dict[str, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self.own)

    def add(self, own: list[Run], others: dict[str, Run | None]) -> None:
        self.own.append(own)
        for name, run in others.items():
            if run is not None and np.isfinite(run.gap):
                self.others.setdefault(name, []).append(run.gap)

    def lines(self, label: str) -> Iterator[str]:
        runs = [run for each in self.own for run in each]
        by_seed = zip(*self.own, strict=True)
        means = [statistics.fmean(run.gap for run in seed) for seed in by_seed]
        hits = sorted(run.seconds_to_best for run in runs if run.gap <= 0)
        yield (
            f"{label}: {len(self.own)} instances, {len(runs)} runs, {len(hits)} at the best known"
            f" cost; mean gap {statistics.fmean(means):.4f} % (per seed"
            f" {', '.join(f'{mean:.4f}' for mean in means)}), worst"
            f" {max(run.gap for run in runs):.3f} %"
        )
        if hits:
            median, worst = statistics.median(hits), hits[-1]
            yield f"  CPU seconds of these: median {median:.4f}, worst {worst:.3f}"
        for name, gaps in self.others.items():
            yield (
                f"  {name}: mean gap {statistics.fmean(gaps):.3f} %, median"
                f" {statistics.median(gaps):.3f} %, {len(gaps)} instances"
            )


def row(instance: Instance, own: list[Run], others: dict[str, Run | None]) -> str:
    gaps = [run.gap for run in own]
    times = [run.seconds_to_best for run in own]
    cells = "".join(cell(run) for run in others.values())
    return (
        f"{instance.name:9}{instance.size:4}{instance.best_known:12}{statistics.fmean(gaps):9.4f}"
        f"{max(gaps):9.4f}{statistics.median(times):9.4f}{max(times):9.4f}{cells} {instance.note}"
    ).rstrip()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="instances; default: all")
    parser.add_argument("--quick", action="store_true", help="few instances, one second")
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU seconds of a run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=100, help="ranks")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--no-peers", action="store_true", help="neither peers nor control")
    parser.add_argument("--data", type=Path, default=DATA)
    return parser.parse_args()


def print_head(options: argparse.Namespace, others: Sequence[str]) -> None:
    print(describe())
    print(
        f"QAPLIB: strategy {options.strategy}, {options.seconds:g} CPU s a run, {options.seeds}"
        " seeds; gaps in %, times in CPU s"
    )
    print("unverified: no proof and no published permutation; corrected: the file states another")
    if importlib.util.find_spec("scipy") is None:
        print("faq, 2opt: skipped, Python package scipy is not installed")
    if not gmap.is_installed():
        print(gmap.MISSING)
    head = (
        f"{'instance':9}{'n':>4}{'best known':>12}{'gap':>9}{'worst':>9}{'best at':>9}{'worst':>9}"
    )
    print(head + "".join(f"{name:>9}{'s':>8}" for name in others))


def main() -> None:
    options = arguments()
    if not (options.data / "best-known.tsv").exists():
        print(f"QAPLIB: skipped, there is no {options.data / 'best-known.tsv'}")
        return
    if options.quick:
        options.names, options.seconds = [*QUICK], 1.0
    peers = {} if options.no_peers else PEERS
    print_head(options, [] if options.no_peers else ["control", *peers])
    small, large, all_sizes = Summary(), Summary(), Summary()
    for each in read_instances(options.data, options.largest):
        if options.names and each.name not in options.names:
            continue
        seeds = range(1, options.seeds + 1)
        own = [search(each, options.strategy, options.seconds, seed) for seed in seeds]
        others: dict[str, Run | None] = {}
        if not options.no_peers:
            others["control"] = search(each, "tabu", options.seconds, 1)
            others |= {name: peer(each) for name, peer in peers.items()}
        for summary in (all_sizes, small if each.size <= 30 else large):
            summary.add(own, others)
        print(row(each, own, others), flush=True)
    for label, summary in (("n <= 30", small), ("n > 30", large), ("all", all_sizes)):
        if summary:
            print("\n".join(summary.lines(label)))


if __name__ == "__main__":
    main()
