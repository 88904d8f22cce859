"""Placement -> command line, environment and bindings of a running job, and the proof of it."""

from __future__ import annotations

from toposeat.launch.installations import (
    MpiInstallation,
    find_installations,
    require_installations,
)
from toposeat.launch.launch_line import LaunchLine, parse_launch_line, wrap_with_exec
from toposeat.launch.launchers import LauncherKind, identify_launcher

__all__ = [
    "LaunchLine",
    "LauncherKind",
    "MpiInstallation",
    "find_installations",
    "identify_launcher",
    "parse_launch_line",
    "require_installations",
    "wrap_with_exec",
]
