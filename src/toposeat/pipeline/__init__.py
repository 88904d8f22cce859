"""The only place that chains topology, profile, mapping and launch: tune, demo and bench."""

from __future__ import annotations

from toposeat.pipeline.advice import (
    EMULATED,
    AdviceCase,
    predict_advice,
    rule_words,
    verify_advice,
)
from toposeat.pipeline.bench import BenchPlan, once_each, plan_bench, predict_bench
from toposeat.pipeline.bench_job import BenchJob, bench_lines, run_bench
from toposeat.pipeline.bench_smpi import simulate_bench
from toposeat.pipeline.clocked import Candidate, ClockPlan, clock_placements, clocked_line
from toposeat.pipeline.command_words import program_name, shell_line
from toposeat.pipeline.demonstration import DemoMachine, DemoOutcome, demo
from toposeat.pipeline.emulated_demo import emulated_gain, emulated_mpi
from toposeat.pipeline.gain import possible_gains
from toposeat.pipeline.joint import PER_PAIR, map_with_protocols
from toposeat.pipeline.placing import MapOptions, assess, device_positions, placement_of
from toposeat.pipeline.placing_at_scale import assess_slots, slots_of_placement
from toposeat.pipeline.tuned import (
    Tuned,
    cache_folder,
    tune,
    tuned_placement_path,
)

__all__ = [
    "EMULATED",
    "PER_PAIR",
    "AdviceCase",
    "BenchJob",
    "BenchPlan",
    "Candidate",
    "ClockPlan",
    "DemoMachine",
    "DemoOutcome",
    "MapOptions",
    "Tuned",
    "assess",
    "assess_slots",
    "bench_lines",
    "cache_folder",
    "clock_placements",
    "clocked_line",
    "demo",
    "emulated_gain",
    "emulated_mpi",
    "device_positions",
    "map_with_protocols",
    "once_each",
    "placement_of",
    "possible_gains",
    "plan_bench",
    "predict_advice",
    "predict_bench",
    "program_name",
    "rule_words",
    "run_bench",
    "shell_line",
    "simulate_bench",
    "slots_of_placement",
    "tune",
    "tuned_placement_path",
    "verify_advice",
]
