"""Sets of devices in few words: `D0..D3, D8`."""

from __future__ import annotations

from collections.abc import Collection

from toposeat.model.topology import Topology
from toposeat.report.words import device_code


def device_ranges(topology: Topology, ids: Collection[str]) -> str:
    """Devices by id, runs of the topology's order as `first..last`."""
    positions = [at for at, device in enumerate(topology.devices) if device.id in ids]
    runs: list[list[int]] = []
    for at in positions:
        if runs and at == runs[-1][-1] + 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    words = []
    for run in runs:
        names = [device_code(topology, at) for at in run]
        words.append(f"{names[0]}..{names[-1]}" if len(names) > 2 else ", ".join(names))
    return ", ".join(words)
