"""Programs that tests start and wait for."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LONGEST_S = 600.0  # a test that hangs ends some time


def ran(
    words: Sequence[str | Path],
    *,
    timeout: float = LONGEST_S,
    check: bool = False,
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    """A program that has ended: its exit code, and what it wrote, as text."""
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=check, **more
    )


def executable(path: Path, text: str) -> Path:
    """A script in a file that may be started."""
    path.write_text(text)
    path.chmod(0o755)
    return path
