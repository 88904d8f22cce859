"""The line every benchmark begins with: what it ran on, and how busy that was."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def describe() -> str:
    """Processor, CPUs, load, system, date."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    today = datetime.now(UTC).date().isoformat()
    return (
        f"machine: {model}, {os.cpu_count()} CPUs, load {load}, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()}, {today}"
    )
