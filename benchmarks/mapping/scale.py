"""Large jobs: our mapper beside Scotch and SharedMap, in the same run.

Run: python -m benchmarks.mapping.scale [regular] [irregular] [network] [growth] [--quick]
     [--ranks N,N] [--seeds N] [--slow-seeds N] [--slow-ranks N]

`regular` and `irregular` place graphs on 4:8:m hierarchies; the latter ends with our cost over each
peer's for every family, and the geometric mean of them.

Times are CPU time of the whole process (threaded peers pay for all their threads; Scotch is
a program, reading its files included). Costs are
medians over seeds, `repaired` to one rank per slot and `raw` as the peer answered. `cost ratio` is
ours / peer, against the repaired answer and, in brackets, the raw one. A/A is our own mapper run a
second time. Peers that are not installed are skipped with a reason. `--quick` takes 4096 ranks,
growth to 16384, and no SharedMap: two minutes. SharedMap, which needs minutes for irregular graphs
of 16384 ranks, is run on those of 4096 only, unless `--slow-ranks` says more.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from benchmarks.machine import describe
from benchmarks.mapping import gmap
from benchmarks.mapping.irregular_graphs import families, missing
from benchmarks.mapping.scale_graphs import Graph, random_graph, rgg, shuffled, stencil
from numpy.typing import NDArray

from toposeat import _core
from toposeat.mapping import read_shape

Slots = NDArray[np.uint32]
Call = Callable[[], tuple[Slots, float]]
SHARED_MAP_MODES = ("eco",)  # "fast" takes longer on random graphs, and is no better
BUDGET_S = 100.0  # never reached: figures are of the whole search
GRIDS = {
    1024: (16, 8, 8),
    4096: (16, 16, 16),
    16384: (32, 32, 16),
    32768: (32, 32, 32),
    100_000: (50, 50, 40),
}


@dataclass
class Row:
    """One mapper on one problem, over seeds."""

    name: str
    cost: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def timed(call: Callable[[], Slots]) -> Callable[[], tuple[Slots, float]]:
    def both() -> tuple[Slots, float]:
        begin = time.process_time()
        answer = call()
        return answer, time.process_time() - begin

    return both


def repair(raw: Slots, slots: int) -> Slots:
    """Surplus ranks, the later ones, to the nearest free slot below or above."""
    taken = np.zeros(slots, bool)
    first = np.unique(raw, return_index=True)[1]
    taken[raw[first]] = True
    result = raw.copy()
    for rank in np.setdiff1d(np.arange(raw.size), first):
        free = np.flatnonzero(~taken)
        result[rank] = free[np.abs(free - int(raw[rank])).argmin()]
        taken[result[rank]] = True
    return result


def peer_calls(graph: Graph, nodes: int, seed: int) -> dict[str, Call]:
    """Raw answers by name, and their CPU seconds."""
    calls: dict[str, Call] = {}
    if gmap.is_installed():
        calls["Scotch, gmap"] = lambda: gmap.places_on_tree(
            graph.ranks, (graph.source, graph.target, graph.weight), f"{nodes} 100 8 10 4 1"
        )
    if importlib.util.find_spec("chszlablib") is not None:
        from chszlablib import Decomposition  # noqa: PLC0415
        from chszlablib import Graph as PeerGraph  # noqa: PLC0415

        begin, target, weight = graph.rows()
        peer = PeerGraph.from_csr(begin, target, edge_weights=weight)
        for mode in SHARED_MAP_MODES:
            calls[f"SharedMap {mode}"] = timed(
                lambda mode=mode: np.asarray(
                    Decomposition.process_map(
                        peer, [4, 8, nodes], [1, 10, 100], mode=mode, imbalance=0.0, seed=seed
                    ).assignment,
                    np.uint32,
                )
            )
    return calls


def hierarchy(ranks: int) -> _core.LargeMachine:
    """4:8:m; every level carries what its slots can send, so that only the costs matter."""
    text = f"hierarchy:4:8:{ranks // 32},costs=1:10:100,bandwidth=25:100:800"
    return read_shape(text).machine


def regular(ranks_list: list[int], seeds: int, slow_seeds: int) -> None:
    for ranks in ranks_list:
        for kind in ("stencil", "shuffled stencil"):
            _compare(kind, ranks, _graph, seeds, slow_seeds)


def irregular(ranks_list: list[int], seeds: int, slow_seeds: int, slow_ranks: int) -> None:
    for reason in missing():
        print(reason)
    for ranks in ranks_list:
        slow = slow_seeds if ranks <= slow_ranks else 0
        found = {}
        for kind, make in families().items():
            found[kind] = _compare(
                kind, ranks, lambda _, n, seed, make=make: make(n, seed), seeds, slow
            )
        _print_summary(ranks, found)


def _compare(
    kind: str, ranks: int, make: Callable[[str, int, int], Graph], seeds: int, slow_seeds: int
) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for seed in range(1, seeds + 1):
        graph = make(kind, ranks, seed)
        _one_problem(hierarchy(ranks), graph, seed, rows, slow=seed <= slow_seeds)
    _print_rows(f"{kind} {ranks} on 4:8:{ranks // 32}", rows)
    return rows


def _graph(kind: str, ranks: int, seed: int) -> Graph:
    if kind == "stencil":
        return stencil(GRIDS[ranks])
    if kind == "shuffled stencil":
        return shuffled(stencil(GRIDS[ranks]), seed)
    return rgg(ranks, seed) if kind == "rgg" else random_graph(ranks, seed)


def _one_problem(
    machine: _core.LargeMachine, graph: Graph, seed: int, rows: dict[str, Row], *, slow: bool
) -> None:
    traffic = graph.traffic()

    def own() -> Slots:
        answer = _core.map_large(
            machine,
            traffic,
            objective="cost",
            solver="auto",
            budget_s=BUDGET_S,
            seed=seed,
        )
        return answer.slot_of_rank

    def take(name: str, call: Call) -> None:
        raw, cpu_s = call()
        row = rows.setdefault(name, Row(name))
        slots = raw if np.unique(raw).size == raw.size else repair(raw, machine.slots)
        row.cost.append(_core.large_cost(machine, traffic, slots))
        row.raw.append(_core.large_cost(machine, traffic, raw))
        row.moved.append(int((slots != raw).sum()))
        row.cpu_s.append(cpu_s)

    take("ours", timed(own))
    for name, call in peer_calls(graph, graph.ranks // 32, seed).items():
        if slow or not name.startswith("SharedMap"):
            take(name, call)
    take("ours, A/A", timed(own))
    take("default order", timed(lambda: np.arange(graph.ranks, dtype=np.uint32)))


def _print_rows(title: str, rows: dict[str, Row]) -> None:
    ours = rows["ours"]
    print(f"\n{title}: median [min-max] over {len(ours.cost)} seeds")
    print(f"  {'mapper':18} {'cost, repaired':>32} {'raw':>12} {'moved':>6} {'CPU ms':>8}"
          f" {'cost ratio':>16} {'CPU ratio':>9}")  # fmt: skip
    for row in rows.values():
        count = len(row.cost)
        cost, raw, cpu = (statistics.median(v) for v in (row.cost, row.raw, row.cpu_s))
        own, own_cpu = (statistics.median(v[:count]) for v in (ours.cost, ours.cpu_s))
        print(
            f"  {row.name:18} {cost / 1e6:10.3f}M [{min(row.cost) / 1e6:.3f}-"
            f"{max(row.cost) / 1e6:.3f}]".ljust(54)
            + f"{raw / 1e6:11.3f}M {max(row.moved):6} {1e3 * cpu:8.0f}"
            f"   {own / cost:.3f} ({own / raw:.3f})"
            + (f" {own_cpu / cpu:9.2f}" if cpu > 1e-3 else "")
            + (f"  ({count} seeds)" if count < len(ours.cost) else "")
        )


def _ratios(rows: dict[str, Row], peer: Row) -> tuple[float, ...]:
    """Ours over the peer's: repaired cost, raw cost, CPU time, geometric means over its seeds; and
    the largest ratio of repaired costs.
    """
    ours = rows["ours"]
    worst = max(a / b for a, b in zip(ours.cost, peer.cost, strict=False))
    means = tuple(
        statistics.geometric_mean(a / b for a, b in zip(own, other, strict=False))
        for own, other in (
            (ours.cost, peer.cost),
            (ours.cost, peer.raw),
            (ours.cpu_s, peer.cpu_s),
        )
    )
    return (*means, worst)


def _print_summary(ranks: int, found: dict[str, dict[str, Row]]) -> None:
    """Of the peers that have been run on every family."""
    peers = [
        name
        for name in next(iter(found.values()))
        if name != "default order" and all(name in rows for rows in found.values())
    ][1:]
    print(
        f"\nirregular {ranks}: ours / peer, cost repaired (raw) x CPU, geometric means;"
        " cost of the worst seed"
    )
    print(f"  {'family':22}" + "".join(f"{name:>32}" for name in peers))
    table = {kind: [_ratios(rows, rows[name]) for name in peers] for kind, rows in found.items()}
    table["geometric mean, worst"] = [
        (
            *(statistics.geometric_mean(values) for values in list(zip(*column, strict=True))[:3]),
            max(worst for *_, worst in column),
        )
        for column in zip(*table.values(), strict=True)
    ]
    for kind, ratios in table.items():
        print(
            f"  {kind:22}"
            + "".join(f"{c:12.3f} ({r:.3f}) x{t:5.2f} {w:.3f}" for c, r, t, w in ratios)
        )


NETWORKS = (
    ("Gemini-like torus, Y at half bandwidth, 2 nodes per router",
     "torus3d:8x8x8,nodes=2,bandwidth=9.4:4.7:9.4,node-bandwidth=10"),
    ("the same, 8 devices per node", "torus3d:4x4x4,nodes=2,devices=8,bandwidth=9.4:4.7:9.4"),
    ("dragonfly", "dragonfly:9:8:4:4,bandwidth=25:25:12.5:12.5"),
    ("fat tree, tapered 2:1 at the top", "fattree:4:8:8:4,bandwidth=25:50:200:800"),
)  # fmt: skip


def network() -> None:
    """Predicted time: never worse than the plain order (rank i on slot i) or the Cartesian one."""
    for words, text in NETWORKS:
        shape = read_shape(text)
        print(
            f"\n{words}: {text}, {shape.slots} slots; predicted seconds for 1 MiB per unit weight"
        )
        print(f"  {'traffic':24} {'plain':>10} {'Cartesian':>10} {'ours':>10} {'gain':>7}  by")
        for graph in _jobs(shape.slots):
            answer = _core.map_large(
                shape.machine,
                _in_mib(graph),
                objective="time",
                solver="auto",
                budget_s=20,
                seed=1,
            )
            cartesian = [
                c.predicted_s
                for c in answer.candidates
                if any(name.startswith("Cart") for name in (c.name, *c.also))
            ]
            plain, ours = answer.default.predicted_s, answer.placed.predicted_s
            best = min(cartesian) if cartesian else plain
            assert ours <= min(plain, best) * (1 + 1e-9)
            print(
                f"  {graph.name:24} {plain:10.4f} {best:10.4f} {ours:10.4f}"
                f" {100 * (1 - ours / plain):6.1f}%  {answer.placed.name}"
            )


def _jobs(slots: int) -> list[Graph]:
    cube = {1024: (16, 8, 8), 1152: (12, 12, 8)}[slots]
    flat = {1024: (32, 32, 1), 1152: (36, 32, 1)}[slots]
    jobs = [stencil(cube), stencil(flat), rgg(slots, 1), random_graph(slots, 1)]
    names = ["27-point stencil", "9-point stencil", "rgg", "random"]
    return [
        Graph(name, g.ranks, g.source, g.target, g.weight)
        for name, g in zip(names, jobs, strict=True)
    ]


def _in_mib(graph: Graph) -> _core.RankTraffic:
    return Graph(graph.name, graph.ranks, graph.source, graph.target, graph.weight << 20).traffic()


def growth(most_ranks: int, seeds: int) -> None:
    """Cost, CPU time and memory from 1k to 100k ranks on one core; medians over the seeds."""
    print("\ngrowth on hierarchy 4:8:m, costs 1:10:100; cost per rank shows how locality holds;"
          f" median of {seeds} seeds [CPU min-max]")  # fmt: skip
    print(f"  {'graph':8} {'ranks':>7} {'pairs':>8} {'default/rank':>12} {'placed/rank':>12}"
          f" {'CPU s':>7} {'':13} {'peak MiB':>9}")  # fmt: skip
    for ranks in filter(lambda ranks: ranks <= most_ranks, GRIDS):
        for kind in ("rgg", "stencil"):
            print(_grown(kind, ranks, seeds), flush=True)


def _grown(kind: str, ranks: int, seeds: int) -> str:
    machine = hierarchy(ranks)
    default, placed, cpu_s = [], [], []
    for seed in range(1, seeds + 1):
        graph = _graph(kind, ranks, seed)
        traffic = graph.traffic()
        begin = time.process_time()
        answer = _core.map_large(
            machine, traffic, objective="cost", solver="auto", budget_s=BUDGET_S, seed=seed
        )
        cpu_s.append(time.process_time() - begin)
        default.append(answer.default.cost / ranks)
        placed.append(answer.placed.cost / ranks)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = (
        f"  {kind:8} {ranks:7} {graph.source.size:8} {statistics.median(default):12.0f}"
        f" {statistics.median(placed):12.0f} {statistics.median(cpu_s):7.2f}"
        f" [{min(cpu_s):.2f}-{max(cpu_s):.2f}]"
    )
    return row.ljust(73) + f"{peak_mib:8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tables", nargs="*", help="regular, irregular, network, growth (default: all)"
    )
    parser.add_argument("--ranks", default="4096,16384")
    parser.add_argument("--quick", action="store_true", help="what takes about a minute")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--slow-seeds", type=int, default=1, help="seeds for SharedMap")
    parser.add_argument(
        "--slow-ranks", type=int, default=4096, help="largest irregular graph for SharedMap"
    )
    args = parser.parse_args()
    if args.quick:
        args.ranks, args.slow_seeds, most_ranks = "4096", 0, 16384
    else:
        most_ranks = max(GRIDS)
    tables = args.tables or ["regular", "irregular", "network", "growth"]
    print(describe())
    if not gmap.is_installed():
        print(gmap.MISSING)
    if importlib.util.find_spec("chszlablib") is None:
        print("SharedMap: skipped, Python package chszlablib is not installed")
    ranks_list = [int(n) for n in args.ranks.split(",")]
    if "regular" in tables:
        regular(ranks_list, args.seeds, args.slow_seeds)
    if "irregular" in tables:
        irregular(ranks_list, args.seeds, args.slow_seeds, args.slow_ranks)
    if "network" in tables:
        network()
    if "growth" in tables:
        growth(most_ranks, args.seeds)


if __name__ == "__main__":
    main()
