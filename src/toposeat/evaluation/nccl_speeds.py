"""NCCL's own numbers: link speeds, rates of rings and budgets of its search.

From NCCL 2.30: graph/topo.h (speeds by compute capability, PCIe generation and processor),
graph/search.cc (tables of rates, at most 16 channels, the share of a rate below which it stops).
NCCL works with these whatever the links really carry; what it logs is in these units.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from toposeat.model.topology import ComponentKind, LinkKind, Topology

MOST_RINGS = 16
STEPS = 1500
STOP_BELOW = 0.49
UNKNOWN_SOCKET = 22e9  # bytes/s of a link between Intel processors from Sapphire Rapids on
POWER_SOCKET = 32e9

_GB = 1e9
_PRODUCTS = (  # name, compute capability, bytes/s of an NVLink
    (r"P100", 60, 18 * _GB),
    (r"V100", 70, 20 * _GB),
    (r"RTX|A40\b|A10\b|A6000", 86, 12 * _GB),
    (r"H100|H200|H800|H20\b|GH200", 90, 20.6 * _GB),
    (r"B[23]00|GB[23]00", 100, 40.1 * _GB),
)
_OTHER = (80, 20 * _GB)
_LEVELS = {  # GB/s of one ring, from the compute capability on
    100: (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
    90: (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    0: (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
}
_PCIE = ((40 * _GB, 48 * _GB), (20 * _GB, 24 * _GB), (10 * _GB, 12 * _GB), (0.0, 6 * _GB))
_ON_DIE = 1e13


def _product(topology: Topology) -> tuple[int, float]:
    name = topology.devices[0].name if topology.devices else ""
    for pattern, capability, lane in _PRODUCTS:
        if re.search(pattern, name):
            return capability, lane
    return _OTHER


def generation(topology: Topology) -> int:
    """The compute capability of the first device, 90 for 9.0; 80 where the name is not known."""
    return _product(topology)[0]


def levels(capability: int) -> NDArray[np.float64]:
    """Rates of one ring, bytes per second, falling."""
    first = max(least for least in _LEVELS if least <= capability)
    return np.array(_LEVELS[first], np.float64) * _GB


def capacities(topology: Topology, socket_bytes_per_s: float) -> NDArray[np.float64]:
    """NCCL's capacity of each link: (links, 3), forward, backward, both (infinite: no limit).

    Links between a processor and a GPU that are NVLinks (POWER) carry both directions in one.
    """
    lane = _product(topology)[1]
    devices = {device.id for device in topology.devices}
    switches = {c.id for c in topology.components if c.kind is ComponentKind.NVSWITCH}
    rows = []
    for link in topology.links:
        rate, both = link.forward_bytes_per_s.value, np.inf
        if "on-die" in link.name:
            rate = _ON_DIE
        elif link.kind is LinkKind.NVLINK:
            rate = link.count * lane
            if not devices | switches >= set(link.ends):
                both = rate
        elif link.kind is LinkKind.PCIE:
            rate = next(speed for least, speed in _PCIE if rate >= least)
        elif link.kind is LinkKind.SMP:
            rate = socket_bytes_per_s
        rows.append((rate, rate, both))
    return np.array(rows, np.float64).reshape(-1, 3)
