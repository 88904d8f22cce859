"""What `profile` and `run` put on PYTHONPATH of a program: loaded by it, not by toposeat."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from toposeat.installed import native_path

_PATH = "PYTHONPATH"


def own_folders() -> list[Path]:
    """What of toposeat a program loads or starts: to be shown to containers."""
    return [native_path("bin/toposeat-exec").parents[1], Path(__file__).parent]


def hooked_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The PYTHONPATH that has the folder of this file in front of what is there."""
    folder = str(Path(__file__).parent)
    return {_PATH: os.pathsep.join(filter(None, (folder, environment.get(_PATH))))}
