"""What to know of a measurement: ways that were not possible, GPUs that were not there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposeat.model.topology import Topology
from toposeat.topology.measure.learned import facts_of_measurement
from toposeat.topology.measure.results import PROTOCOLS, PairResults
from toposeat.topology.merge import merge_topologies


def check_machine(base: Topology, pci: Sequence[str], ordinals: Sequence[int]) -> None:
    """Refuse GPUs that are not those of the known machine: before anything is measured.

    Raises:
        InputError: there is no telling which is which.
    """
    merge_topologies(
        [base, facts_of_measurement(pci, PairResults(len(pci)), PROTOCOLS[0], (), ordinals)],
        base.name,
    )


def unseen_devices(base: Topology, pci: Sequence[str]) -> list[str]:
    """One sentence if the known machine has GPUs that no process could take."""
    unseen = [
        f"{device.id} ({device.pci_bus_id})"
        for device in base.devices
        if device.pci_bus_id is not None and device.pci_bus_id not in pci
    ]
    if not unseen:
        return []
    names = ", ".join(unseen[:4]) + (f" and {len(unseen) - 4} more" if len(unseen) > 4 else "")
    return [
        f"{base.name} has {len(base.devices)} GPUs, {len(pci)} were measured; not visible here:"
        f" {names}. A container, cgroup or CUDA_VISIBLE_DEVICES may hide them; their pairs keep the"
        " numbers that they had"
    ]


def fallen_back(results: PairResults, protocols: Sequence[str]) -> list[str]:
    """One sentence for each protocol that some pairs could not use."""
    said = []
    staged = ~np.isnan(results.bandwidth("staged"))
    for name in protocols:
        missing = np.isnan(results.bandwidth(name)) & staged
        pairs = [pair for pair in results.pairs() if missing[pair]]
        if name != "staged" and pairs:
            a, b = pairs[0]
            said.append(
                f"{name} is not possible for {len(pairs)} pairs, GPU {a} to {b} first: the driver"
                " allows no direct access between them. They went through host memory, and their"
                " numbers are of that (staged)"
            )
    return said
