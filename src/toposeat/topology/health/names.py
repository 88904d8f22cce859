"""How findings call devices: `D3`, or `node07:D3` among several hosts; lists are kept short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toposeat.model.topology import Device, Topology

_MOST = 6


def device_name(topology: Topology, device: Device) -> str:
    """The device's short name."""
    return f"{device.host}:D{device.index}" if len(topology.hosts) > 1 else f"D{device.index}"


def few(names: Iterable[str]) -> str:
    """`D0, D1, D2`; of many the first, and how many more."""
    all_names: Sequence[str] = list(names)
    if len(all_names) <= _MOST:
        return ", ".join(all_names)
    return ", ".join(all_names[: _MOST - 1]) + f" and {len(all_names) - _MOST + 1} more"
