"""What is assumed where no source states a number, and the interval that it lies in.

The nominal values are those of `constants`; here is how far from them a real machine may be. Every
interval is one variable of the machine (`model.quantity`). Sources: NVIDIA/nccl `src/graph/topo.h`
(what its search takes a socket link for) and issues 814, 1264 and 1614; ROCm issue 2499 and ROCm
Validation Suite issue 427; Intel's forum thread 1082670 (remote reads over two QPI links); Tartan;
runs of NVIDIA's p2pBandwidthLatencyTest sample; data sheets of QPI, UPI and EPYC's socket links.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toposeat.model.quantity import Premise, Quantity, Source, quantity_fields
from toposeat.model.topology import PathClass, Topology
from toposeat.topology import constants as k

_GB = k.GB_PER_S

# Between two sockets, one direction, GB/s: least and most, by the PCIe generation of their CPUs.
_SOCKETS = {
    1: (3.1, 12.8, "PCIe over QPI of Westmere reaches 3.1 to 3.8; one QPI link carries 12.8"),
    2: (3.1, 12.8, "PCIe over QPI of Westmere reaches 3.1 to 3.8; one QPI link carries 12.8"),
    3: (2.5, 62.4, "copies between P100s over QPI reach 2.5 to 3.8; three UPI links carry 62"),
    4: (11.0, 144.0, "copies between EPYC sockets reach 11 to 27; four xGMI links carry 144"),
    5: (22.0, 256.0, "NCCL takes 22 for Sapphire Rapids; four xGMI-3 links of EPYC carry 256"),
    6: (22.0, 256.0, "as of PCIe generation 5: nothing is published"),
}
# Lanes in bytes/s of all products that have as many links as the one that is taken.
_LANES = {
    k.NVLINK1.name: (k.NVLINK1.data_sheet, k.NVLINK2.data_sheet),
    k.NVLINK3_BRIDGE.name: (k.NVLINK3_BRIDGE.data_sheet, k.NVLINK3.data_sheet),
    k.NVLINK3.name: (k.NVLINK3.data_sheet, k.NVLINK5.data_sheet),
    k.NVLINK4.name: (k.NVLINK4.data_sheet, k.NVLINK5.data_sheet),
    k.NVLINK_UNKNOWN.name: (k.NVLINK3_BRIDGE.data_sheet, k.NVLINK5.data_sheet),
}
SOCKET_DUPLEX = Premise(
    what="both directions between sockets",
    low=1.04,
    nominal=k.SMP_COMBINED,
    high=2.0,
    unit="x one direction",
    source="measured are 1.04 (EPYC with MI100), 1.18 (POWER9) and 1.7 to 1.8 (EPYC, Haswell);"
    " QPI, UPI and xGMI are full duplex.",
)
PCIE_DUPLEX = Premise(
    what="both directions of PCIe",
    low=1.45,
    nominal=k.PCIE_COMBINED,
    high=2.0,
    unit="x one direction",
    source="measured are 1.45 (A100, host copies), 1.66 (P100) and 2.0 (RTX 4090, H100).",
)
PCIE_RATE = Premise(
    what="PCIe of an unknown generation",
    low=k.PCIE_X16[3] / _GB,
    nominal=k.PCIE_X16[k.DEFAULT_PCIE_GENERATION] / _GB,
    high=k.PCIE_X16[5] / _GB,
    unit="GB/s",
    source="x16 links of generation 3 carry 12, those of generation 5 carry 48.",
)
STAGED_RATE = Premise(
    what="staged copies",
    low=0.47,
    nominal=k.PAIR_FRACTION[PathClass.PHB],
    high=0.95,
    unit="of the narrowest link",
    source="measured are 0.47 (RTX 2080 Ti below one switch), 0.77 (H100) and 0.92 (A100).",
)


def between_sockets(generation: int, *, certain: bool = True) -> Premise:
    """What a link between sockets carries in one direction, by the PCIe generation of their CPUs.

    Where no source tells the generation (`certain`), it may be one less or one more.
    """
    premise = _between_sockets(generation)
    if certain:
        return premise
    least, most = _between_sockets(max(1, generation - 1)), _between_sockets(min(6, generation + 1))
    return replace(
        premise,
        low=min(least.low, premise.low),
        high=max(most.high, premise.high),
        source=f"{least.source} {most.source}",
    )


def _between_sockets(generation: int) -> Premise:
    low, high, source = _SOCKETS[generation]
    return Premise(
        what="capacity between sockets",
        low=low,
        nominal=k.SMP_OF_PCIE[generation] / _GB,
        high=high,
        unit="GB/s",
        source=f"{source}.",
    )


def lane_of_untold_product(lane: k.DeviceLink) -> Premise:
    """What a lane carries in one direction, where only the number of lanes suggests `lane`."""
    low, high = _LANES.get(lane.name, _LANES[k.NVLINK_UNKNOWN.name])
    return Premise(
        what="device links of an unknown product",
        low=low / _GB,
        nominal=lane.data_sheet / _GB,
        high=high / _GB,
        unit="GB/s a lane",
        source=f"lanes of products with as many links carry {low / _GB:g} to {high / _GB:g}.",
    )


def scaled(quantity: Quantity, factor: float) -> Quantity:
    """What is made from a number that is nominal or assumed: it rests on the same premises."""
    source = Source.ASSUMED if quantity.premises else Source.NOMINAL
    return Quantity(quantity.value * factor, source, premises=quantity.premises)


def without_premises(topology: Topology) -> Topology:
    """The topology with its assumed numbers taken for nominal ones: nothing is in doubt."""
    if not topology.premises:
        return topology

    def certain(record: Any) -> Any:
        doubtful = {
            name: Quantity(quantity.value)
            for name in quantity_fields(type(record))
            if (quantity := getattr(record, name)) is not None and quantity.premises
        }
        return replace(record, **doubtful) if doubtful else record

    return replace(
        topology,
        links=tuple(map(certain, topology.links)),
        pairs=tuple(map(certain, topology.pairs)),
        routes=tuple(map(certain, topology.routes)),
        premises=(),
    )
