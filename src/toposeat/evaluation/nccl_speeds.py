"""NCCL's own numbers: link speeds, rates of rings and budgets of its search.

From NCCL 2.30: graph/topo.h (speeds by compute capability, PCIe generation and processor),
graph/search.cc (tables of rates, at most 16 channels, the share of a rate below which it stops).
NCCL works with these whatever the links really carry; what it logs is in these units.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from toposeat.model.processor import Processor, processor_of
from toposeat.model.topology import ComponentKind, LinkKind, Topology

MOST_RINGS = 16
STEPS = 1500
STOP_BELOW = 0.49

_GB = 1e9
_CAPABILITIES = (  # by what the name of a device holds
    (r"P100", 60),
    (r"V100", 70),
    (r"RTX 30|RTX A[456]|A40\b|A10\b|A6000", 86),
    (r"H[12]00|H800|H20\b", 90),
    (r"B[123]00", 100),
)
_USUAL = 80  # where the name tells none
_NVLINK = {  # bytes/s of a lane, from the compute capability on; older ones count as 80
    100: 40.1 * _GB,
    90: 20.6 * _GB,
    87: 20 * _GB,
    86: 12 * _GB,
    80: 20 * _GB,
    70: 20 * _GB,
    60: 18 * _GB,
}
_LEVELS = {  # GB/s of one ring, from the compute capability on
    100: (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
    90: (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    0: (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
}
_PCIE = ((40 * _GB, 48 * _GB), (20 * _GB, 24 * _GB), (10 * _GB, 12 * _GB), (0.0, 6 * _GB))
_SOCKET = {"ppc64": 32 * _GB, "arm64": 6 * _GB}
_SOCKET_AMD = 16 * _GB
_SOCKET_INTEL = ((0xCF, 40 * _GB), (0x8F, 22 * _GB), (0x55, 10 * _GB), (0, 6 * _GB))  # by model
_SAPPHIRE_RAPIDS = 0x8F
_ON_DIE = 1e13


def generation(topology: Topology) -> int:
    """The compute capability of the first device, 90 for 9.0; 80 where its name does not tell."""
    name = topology.devices[0].name if topology.devices else ""
    if told := re.fullmatch(r"sm_(\d+)", name):
        return int(told[1])
    return next((each for pattern, each in _CAPABILITIES if re.search(pattern, name)), _USUAL)


def levels(capability: int) -> NDArray[np.float64]:
    """Rates of one ring, bytes per second, falling."""
    first = max(least for least in _LEVELS if least <= capability)
    return np.array(_LEVELS[first], np.float64) * _GB


def socket_bytes_per_s(processor: Processor | None) -> float:
    """Rate of a link between processors; one that is not known counts as Sapphire Rapids."""
    told = processor.told if processor else ()
    if told and told[0] in _SOCKET:
        return _SOCKET[told[0]]
    if "AuthenticAMD" in told:
        return _SOCKET_AMD
    model = next((int(each) for each in told[3:] if each.isdecimal()), _SAPPHIRE_RAPIDS)
    return next(rate for least, rate in _SOCKET_INTEL if model >= least)


def capacities(topology: Topology) -> NDArray[np.float64]:
    """NCCL's capacity of each link: (links, 3), forward, backward, both (infinite: no limit).

    Links between a processor and a GPU that are NVLinks (POWER) carry both directions in one.
    """
    capability = generation(topology)
    lane = _NVLINK[max((c for c in _NVLINK if c <= capability), default=_USUAL)]
    socket = socket_bytes_per_s(processor_of(topology))
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
            rate = socket
        rows.append((rate, rate, both))
    return np.array(rows, np.float64).reshape(-1, 3)
