"""NCCL's own numbers: link speeds, rates of rings and budgets of its search.

From NCCL 2.30: graph/topo.h (speeds by compute capability, PCIe generation and processor),
graph/search.cc (tables of rates, at most 16 channels, the share of a rate below which it stops).
NCCL works with these whatever the links really carry; what it logs is in these units. Its kernels
move bytes by loads and stores, and reach less than copy engines on some links: `Kernels`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation.network import NetworkArrays
from toposeat.evaluation.route_numbers import device_routes
from toposeat.model.capability import compute_capability
from toposeat.model.processor import Processor, processor_of
from toposeat.model.quantity import is_of_this_machine
from toposeat.model.topology import ComponentKind, LinkKind, Topology, Vendor

MOST_RINGS = 16
STEPS = 1500
STOP_BELOW = 0.49

Floats = NDArray[np.float64]
_GB = 1e9
_NVSWITCH = ComponentKind.NVSWITCH
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
# What rings reach of the rate of one copy: low, nominal, high. Of NVLink the nominal one is NCCL's
# lane (above) over that of a copy (18, 24.2, 22.9, 12, 20.9 and 40.1 GB/s), by compute capability.
_OF_NVLINK = {
    60: (0.87, 1.0, 1.0),  # as wide as H100, of which most is published
    70: (0.73, 20 / 24.2, 1.0),  # as wide as A100
    80: (0.73, 20 / 22.9, 1.0),  # about 200 of 275 GB/s among eight (nccl-tests issue 149)
    86: (0.87, 1.0, 1.0),
    90: (0.87, 20.6 / 20.9, 1.0),  # 330 to 370 of 376 GB/s (NCCL issues 1221 and 1455)
    100: (0.87, 1.0, 1.0),
}
# PCIe 5: 39.8 and 42.6 of 52 GB/s among four RTX PRO 6000 on Turin (a0007's notes on NCCL), 38
# among eight of another machine (voipmonitor/rtx6kpro), and 32 to 36 of the 38 to 44 GB/s of copies
# between sockets of Turin (NCCL pull request 2036); NCCL's search takes 48.
_OF_PCIE_5 = (0.73, 0.79, 0.92)
# NCCL's search takes 24 of 25 and 12 of 12 GB/s. Three A100 reach 20 (nccl-tests issue 178), two
# L40S in a VM 21 (R. Myhre's case study).
_OF_PCIE = (0.8, 1.0, 1.0)
KERNELS = "what NCCL's kernels reach"  # as `GroupRates.range_of` calls these intervals
_SOCKET = {"ppc64": 32 * _GB, "arm64": 6 * _GB}
_SOCKET_AMD = 16 * _GB
_SOCKET_INTEL = ((0xCF, 40 * _GB), (0x8F, 22 * _GB), (0x55, 10 * _GB), (0, 6 * _GB))  # by model
_SAPPHIRE_RAPIDS = 0x8F
_ON_DIE = 1e13


def generation(topology: Topology) -> int:
    """The compute capability of the first device, 90 for 9.0; 80 where its name does not tell."""
    name = topology.devices[0].name if topology.devices else ""
    return compute_capability(name) or _USUAL


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
    switches = {c.id for c in topology.components if c.kind is _NVSWITCH}
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


class Kernels:
    """What rings reach of nominal links, and of copies over nominal PCIe, as shares of their rates.

    A share is 1 where nothing is known, where a ring's step is staged, and for what somebody
    measured or told of this machine.
    """

    def __init__(self, topology: Topology) -> None:
        """Those of one node."""
        devices = {device.id: device for device in topology.devices}
        joined = {*devices, *(c.id for c in topology.components if c.kind is _NVSWITCH)}
        number = {link.id: at for at, link in enumerate(topology.links)}
        self._of_links = np.ones((3, len(number)))
        self._copied = np.zeros(len(number))  # the fastest copy over a link that was measured
        self._pcie: list[int] = []
        for at, link in enumerate(topology.links):
            ends = [devices[end] for end in link.ends if end in devices]
            rate, flow = link.forward_bytes_per_s, link.flow_bytes_per_s or link.forward_bytes_per_s
            told = is_of_this_machine(rate) or is_of_this_machine(flow)
            if told or not ends or any(each.vendor is not Vendor.NVIDIA for each in ends):
                continue
            if link.kind is LinkKind.PCIE and len(ends) == 1:
                self._pcie.append(at)
            elif link.kind is LinkKind.NVLINK and joined.issuperset(link.ends) and rate.value:
                known = [c for c in _OF_NVLINK if c <= (compute_capability(ends[0].name) or 0)]
                if known:
                    share = np.array(_OF_NVLINK[known[-1]])
                    self._of_links[:, at] = share * (flow.value / rate.value)
        pairs: list[tuple[int, int, int, bool]] = []  # with the first and the last link
        for pair, route in enumerate(device_routes(topology)):
            if route is None:
                continue
            cap, ring, links = route.cap_bytes_per_s, route.ring_bytes_per_s, route.links
            if cap and is_of_this_machine(cap):
                over = [number[link] for link in links]
                self._copied[over] = np.maximum(self._copied[over], cap.value)
            elif not route.staged and (ring is None or (cap and ring.value == cap.value)):
                pairs.append((pair, number[links[0]], number[links[-1]], ring is not None))
        own = set(self._pcie)
        self._pairs = np.array([each for each in pairs if own.issuperset(each[1:3])], np.intp)
        self.are_open = bool((self._of_links[0] < self._of_links[2]).any() or own)

    def reach(self, arrays: NetworkArrays, end: int = 1) -> tuple[Floats, Floats]:
        """The shares of each link and of each ordered pair's copies on a machine of such wiring.

        `end` is 0 for the least, 1 for the nominal ones, 2 for the most.
        """
        rate, links = arrays.capacity[:, 0], self._of_links[end].copy()
        is_fast = rate[self._pcie] >= _PCIE[0][0]
        links[self._pcie] = np.where(is_fast, _OF_PCIE_5[end], _OF_PCIE[end])
        links = np.minimum(1.0, np.maximum(links, self._copied / rate))
        copies = np.ones(arrays.devices**2)
        pair, first, last, may_be_staged = self._pairs.reshape(-1, 4).T
        copies[pair] = np.minimum(links[first], links[last])
        if end == 0:  # where staging is the least
            copies[pair[may_be_staged > 0]] = 1.0
        return links, copies
