"""Regret by the clock: what trusting a false premise costs, on the stand-in GPU node.

Run: python -m benchmarks.regret [--repeats N] [--only WORDS] [--record F] [--page F]

In every world eight real MPI ranks with device buffers run on a stand-in whose copies take the time
of one machine, while all that toposeat reads describes another one (`worlds.py`). Placements are
chosen by what is told, by what is told and then measured there (`toposeat measure`), and by the
truth; three random orders and the default take turns with them, every other repeat backwards, the
default twice (A/A). Regret is the median time of a placement over the least median of default,
choice by the truth and random orders, less one. EMULATED: no time here is that of a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.machine import describe
from benchmarks.regret.worlds import GPUS, Premise, World, worlds

from toposeat import emulation, launch, mapping, pipeline, profile
from toposeat.launch import GpuAwareMpi
from toposeat.launch.microbench import (
    MicrobenchOptions,
    compiled_microbench,
    microbench_arguments,
)
from toposeat.model.placement_file import save_placement
from toposeat.model.topology import Topology
from toposeat.topology import read_topology
from toposeat.topology.topology_file import save_topology

PATTERNS = ("stencil2d:4x2,weight=3", "stencil3d:2x2x2,weight=3")
SCALE = 0.005  # an x16 link of PCIe 4 moves 120 MB/s
BYTES = 1 << 20
RANDOMS = 3
PROGRAM = MicrobenchOptions(sizes=(BYTES,), iterations=1, batch=1, warmup=1, buffers="device")
SECONDS = r'"seconds": ?\[([0-9.e+-]+)\]'
DEFAULT = tuple(range(GPUS))

Order = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One pattern in one world: seconds of every run by order, and which order is whose."""

    world: str
    premise: str
    pattern: str
    chosen: dict[str, Order]  # by "told", "measured", "truth"
    randoms: list[Order]
    seconds: dict[str, list[float]]  # by the order's numbers; the default's second runs by "again"
    promised: float  # gain that is predicted of what was chosen by what is told

    def median(self, order: Order) -> float:
        """Of all runs of an order."""
        return statistics.median(self.seconds[_key(order)])

    def best(self) -> float:
        """The least median of default, choice by the truth and random orders."""
        others = [DEFAULT, self.chosen["truth"], *self.randoms]
        return min(map(self.median, others))

    def regret(self, by: str) -> float:
        """Share of the best time that the choice takes more."""
        return self.median(self.chosen[by]) / self.best() - 1

    def gain(self, by: str) -> float:
        """Share of the default's time that the choice saves."""
        return 1 - self.median(self.chosen[by]) / self.median(DEFAULT)

    def noise(self) -> float:
        """How far the default's two runs of a repeat are apart, in the median."""
        pairs = zip(self.seconds[_key(DEFAULT)], self.seconds["again"], strict=True)
        return statistics.median(abs(a / b - 1) for a, b in pairs)


def _key(order: Sequence[int]) -> str:
    return ",".join(map(str, order))


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all runs in one world are started with."""

    mpi: GpuAwareMpi
    environment: Mapping[str, str]
    folder: Path
    repeats: int


def choose(machine: Topology, pattern: str) -> tuple[Order, float]:
    """The placement by this machine, and the gain that is predicted."""
    result = pipeline.map_traffic(machine, profile.pattern_traffic(_sized(pattern)))
    gain = 1 - result.placed.predicted_s / result.default.predicted_s
    return tuple(result.device_of_rank), gain


def _sized(pattern: str) -> str:
    return profile.grid_exchange(pattern).text(BYTES)


def measured(world: World, bench: Bench) -> Topology:
    """What `toposeat measure` makes of what is told, on the stand-in."""
    told, found = bench.folder / "told.json", bench.folder / "measured.json"
    save_topology(emulation.scaled_topology(world.told, SCALE), told, overwrite=True)
    words = ["measure", "-t", str(told), "-o", str(found), "-f", "--budget", "0"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("toposeat")), *words],
        env=dict(bench.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"measure failed in {world.name!r}: {done.stderr}")
    return read_topology(str(found))


def trial(world: World, pattern: str, bench: Bench) -> Trial:
    """One pattern in one world, on a stand-in of its own."""
    text = emulation.machine_text(
        world.told, truth=world.truth, scale=SCALE, engines=world.engines, reads=world.reads
    )
    with emulation.emulated_node(text) as node:
        environment = {**node.environment(bench.environment), "TOPOSEAT_EMULATOR_QUIET": "1"}
        bench = replace(bench, environment=environment)
        told, promised = choose(world.told, pattern)
        truth = emulation.scaled_topology(world.truth, SCALE)
        chosen = {
            "told": told,
            "measured": choose(measured(world, bench), pattern)[0],
            "truth": choose(truth, pattern)[0],
        }
        generator = np.random.default_rng(0)
        randoms = [tuple(map(int, generator.permutation(GPUS))) for _ in range(RANDOMS)]
        orders = [o for o in dict.fromkeys([*chosen.values(), *randoms]) if o != DEFAULT]
        return Trial(
            world=world.name,
            premise=world.premise.value,
            pattern=pattern,
            chosen=chosen,
            randoms=randoms,
            seconds=_clock(world, pattern, orders, bench),
            promised=promised,
        )


def _clock(
    world: World, pattern: str, orders: Sequence[Order], bench: Bench
) -> dict[str, list[float]]:
    """Seconds of the default, every order, and the default again, in turns."""
    words = bench.mpi.launch_words(GPUS)
    line = launch.parse_launch_line([*words, "program"])
    program = compiled_microbench(line, bench.mpi.environment())
    arguments = microbench_arguments(profile.grid_exchange(pattern), PROGRAM)
    candidates = []
    for order in orders:
        placement = mapping.seat_ranks(world.told, GPUS, order, metadata={"made_by": "regret"})
        path = bench.folder / f"{_key(order)}.place"
        save_placement(placement, path, overwrite=True)
        candidates.append(
            pipeline.Candidate(name=_key(order), placement=placement, path=path, predicted=0.0)
        )
    result = pipeline.clock_placements(
        pipeline.ClockPlan(
            command=(*words, str(program), *arguments), repeats=bench.repeats, pattern=SECONDS
        ),
        candidates,
        progress=lambda _done, _of: None,
        environment=bench.environment,
    )
    return {
        _key(DEFAULT): list(result.default_s),
        "again": list(result.again_s),
        **{each.name: list(each.seconds) for each in result.orders},
    }


def table(trials: Sequence[Trial]) -> str:
    """Rows of one trial each, and the medians that the issue asks for."""
    lines = [
        "| world | premise | pattern | promised | gain, told | regret, told | gain, measured |"
        " regret, measured | A/A |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {t.world} | {t.premise} | `{t.pattern}` | {t.promised:+.0%} | {t.gain('told'):+.1%}"
        f" | {t.regret('told'):.1%} | {t.gain('measured'):+.1%} | {t.regret('measured'):.1%}"
        f" | {t.noise():.1%} |"
        for t in trials
    ]
    within = [t for t in trials if t.premise in (Premise.TRUE, Premise.INSIDE)]
    for name, some, by in (
        ("told, premises true or inside their ranges", within, "told"),
        ("told, all worlds", trials, "told"),
        ("measured, all worlds", trials, "measured"),
    ):
        if some:
            regrets = [t.regret(by) for t in some]
            slower = [t for t in some if t.gain(by) < -2 * max(t.noise(), 0.01)]
            lines.append(
                f"\nChosen by what is {name}: median regret {statistics.median(regrets):.1%}, worst"
                f" {max(regrets):.1%}; slower than the default beyond noise in {len(slower)} of"
                f" {len(some)}."
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Clock every world that is asked for; print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9, help="of every order (default: 9)")
    parser.add_argument("--only", default="", help="worlds whose name has these words in it")
    parser.add_argument("--record", type=Path, help="keep trials in this file, go on from it")
    parser.add_argument("--page", type=Path, metavar="FILE", help="rewrite this page")
    args = parser.parse_args(arguments)
    mpi = pipeline.emulated_mpi()
    if isinstance(mpi, str):
        raise SystemExit(f"cannot run here: {mpi}")
    trials: list[Trial] = []
    if args.record and args.record.exists():
        for each in json.loads(args.record.read_text()):
            each["chosen"] = {by: tuple(order) for by, order in each["chosen"].items()}
            each["randoms"] = [tuple(order) for order in each["randoms"]]
            trials.append(Trial(**each))
    head = (
        f"EMULATED, links x {SCALE}, {GPUS} ranks, {BYTES} bytes a message, {args.repeats} repeats"
        f" of every order in turns; {mpi.installation.description}; {describe()}"
    )
    known = {(each.world, each.pattern) for each in trials}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            mpi=mpi, environment=mpi.environment(), folder=Path(folder), repeats=args.repeats
        )
        for pattern, world in itertools.product(PATTERNS, worlds()):
            if args.only not in world.name or (world.name, pattern) in known:
                continue
            print(f"{pattern}, {world.name} ...", file=sys.stderr, flush=True)
            trials.append(trial(world, pattern, bench))
            if args.record:
                args.record.write_text(json.dumps([asdict(each) for each in trials]))
    text = f"{head}\n\n{table(trials)}\n"
    if args.page:
        before = args.page.read_text(encoding="utf-8").partition("<!-- table -->")[0]
        args.page.write_text(f"{before}<!-- table -->\n{text}", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    os.environ.setdefault("TOPOSEAT_EMULATOR_QUIET", "1")
    main()
