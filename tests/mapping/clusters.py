"""Nodes of eight GPUs joined by a network, as one topology with hosts."""

from toposeat.model.topology import ComponentKind, Device, LinkKind, PathClass
from toposeat.topology.graph.graph_builder import GraphBuilder

GPUS = 8


def cluster(nodes, *, interleaved=False):
    """Nodes of two PCIe switches with four GPUs each; one adapter per node on one network switch.

    All nodes have the same bus ids, as real ones do. With `interleaved` the devices are listed GPU
    by GPU, not node by node.
    """
    builder = GraphBuilder()
    network = builder.component(ComponentKind.NETWORK, "network")
    for node in range(nodes):
        builder.host = f"n{node}"
        root = builder.component(ComponentKind.HOST_BRIDGE, f"n{node}/root")
        for half in range(2):
            switch = builder.component(ComponentKind.SWITCH, f"n{node}/switch{half}")
            builder.pcie(switch, root, bytes_per_s=12e9)
            for gpu in range(4 * half, 4 * half + 4):
                builder.devices.append(
                    Device(
                        id=f"n{node}/gpu{gpu}",
                        index=gpu,
                        host=builder.host,
                        pci_bus_id=f"0000:{gpu + 1:02x}:00.0",
                    )
                )
                builder.pcie(f"n{node}/gpu{gpu}", switch, bytes_per_s=12e9)
        builder.link(LinkKind.NETWORK, root, network, bytes_per_s=6e9, latency_s=1e-6)
    if interleaved:
        builder.devices.sort(key=lambda device: (device.index, device.host))
    ends = {device.id: device.host for device in builder.devices}
    between = {(a, b): PathClass.NET for a in ends for b in ends if ends[a] != ends[b]}
    return builder.build(name=f"{nodes} nodes", origin="test", classes=between)
