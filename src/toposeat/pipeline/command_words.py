"""A command's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toposeat import launch


def program_name(command: Sequence[str]) -> str:
    """The application's own name in a launch line, for file names."""
    program = launch.unwrapped(launch.parse_launch_line(command).program).program
    names = [word for word in program if not word.startswith("-")]
    is_python = bool(names) and Path(names[0]).name.startswith("python") and len(names) > 1
    return Path(names[1] if is_python else names[0]).stem if names else "app"
