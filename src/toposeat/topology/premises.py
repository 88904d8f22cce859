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

from toposeat.model.open_fact import PCIE_PREMISE
from toposeat.model.quantity import Premise, Quantity, Source, quantity_fields
from toposeat.model.topology import Topology
from toposeat.topology import constants as k

_GB = k.GB_PER_S

# Lanes in bytes/s of all products that have as many links as the one that is taken.
_LANES = {
    k.NVLINK1.name: (k.NVLINK1.data_sheet, k.NVLINK2.data_sheet),
    k.NVLINK3_BRIDGE.name: (k.NVLINK3_BRIDGE.data_sheet, k.NVLINK3.data_sheet),
    k.NVLINK3.name: (k.NVLINK3.data_sheet, k.NVLINK5.data_sheet),
    k.NVLINK4.name: (k.NVLINK4.data_sheet, k.NVLINK5.data_sheet),
    k.NVLINK_UNKNOWN.name: (k.NVLINK3_BRIDGE.data_sheet, k.NVLINK5.data_sheet),
}
LANE_PREMISE = "device links of an unknown product"
PCIE_RATE = Premise(
    what=PCIE_PREMISE,
    low=k.PCIE_X16[3] / _GB,
    nominal=k.PCIE_X16[k.DEFAULT_PCIE_GENERATION] / _GB,
    high=k.PCIE_X16[5] / _GB,
    unit="GB/s",
    source="x16 links of generation 3 carry 12, those of generation 5 carry 52.",
)


def lane_of_untold_product(lane: k.DeviceLink) -> Premise:
    """What a lane carries in one direction, where only the number of lanes suggests `lane`."""
    low, high = _LANES.get(lane.name, _LANES[k.NVLINK_UNKNOWN.name])
    return Premise(
        what=LANE_PREMISE,
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
