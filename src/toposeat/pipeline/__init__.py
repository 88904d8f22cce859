"""The only place that chains topology, profile, mapping and launch: tune, demo and bench."""

from __future__ import annotations

from toposeat.pipeline.command_words import program_name, shell_line
from toposeat.pipeline.demonstration import DemoMachine, DemoOutcome, demo
from toposeat.pipeline.gain import possible_gains
from toposeat.pipeline.placing import MapOptions, assess, device_positions, placement_of
from toposeat.pipeline.tuned import (
    Tuned,
    cache_folder,
    tune,
    tuned_placement_path,
    tuned_topology,
)

__all__ = [
    "DemoMachine",
    "DemoOutcome",
    "MapOptions",
    "Tuned",
    "assess",
    "cache_folder",
    "demo",
    "device_positions",
    "placement_of",
    "possible_gains",
    "program_name",
    "shell_line",
    "tune",
    "tuned_placement_path",
    "tuned_topology",
]
