"""Placement -> command line, environment and bindings of a running job, and the proof of it."""

from __future__ import annotations

from toposeat.launch.apply import VISIBILITIES, ExecOptions, PlacedCommand, placed_command
from toposeat.launch.child import StopSignals, run_child
from toposeat.launch.export import EXPORTERS, Export, ExportFile, export_placement
from toposeat.launch.gpu_aware import GpuAwareMpi, find_gpu_aware_mpi
from toposeat.launch.installations import (
    MpiInstallation,
    find_installations,
    require_installations,
)
from toposeat.launch.launch_line import LaunchLine, parse_launch_line, wrap_with_exec
from toposeat.launch.launchers import LauncherKind, identify_launcher
from toposeat.launch.rank_report import RankReports, ReportFolder, read_reports
from toposeat.launch.run import run_placed
from toposeat.launch.stack import (
    conflict,
    for_devices,
    named_stack,
    stack_of,
    with_crossing,
    with_rule,
)
from toposeat.launch.ucx_protocols import device_rule
from toposeat.launch.verify import verify
from toposeat.launch.visibility import visibility_of, visibility_words, with_visibility

__all__ = [
    "EXPORTERS",
    "VISIBILITIES",
    "ExecOptions",
    "Export",
    "ExportFile",
    "GpuAwareMpi",
    "LaunchLine",
    "LauncherKind",
    "MpiInstallation",
    "PlacedCommand",
    "RankReports",
    "StopSignals",
    "ReportFolder",
    "export_placement",
    "conflict",
    "device_rule",
    "find_gpu_aware_mpi",
    "find_installations",
    "for_devices",
    "identify_launcher",
    "named_stack",
    "parse_launch_line",
    "placed_command",
    "read_reports",
    "require_installations",
    "run_child",
    "run_placed",
    "stack_of",
    "verify",
    "visibility_of",
    "visibility_words",
    "with_crossing",
    "with_rule",
    "with_visibility",
    "wrap_with_exec",
]
