"""The transport of a group: what it is here, what settles it, what it may give, what to check."""

from __future__ import annotations

from toposeat.model.transport import Staging, Transport
from toposeat.report.parts import Fact, Part

_AS_FAST = 1.05  # printed as 1.0
_WHAT = {
    Staging.TOLD: "staged in host memory, since the driver gives these GPUs no peer access",
    Staging.PRODUCT: "staged in host memory: NVIDIA's driver gives these cards no peer access over"
    " PCIe",
    Staging.NCCL: "NCCL stages groups of these GPUs in host memory: paths cross a host bridge",
    Staging.SET: "staged in host memory, as the environment says",
}
_SETTLES = {
    Staging.TOLD: "A driver, BIOS (IOMMU, ACS, NPS) or virtual machine that allows it",
    Staging.PRODUCT: "A driver that allows it, or `nvidia-smi topo -p2p r` if yours does,",
    Staging.NCCL: "NCCL_P2P_LEVEL=SYS",
    Staging.SET: "The job without that variable",
}


def transport_words(transport: Transport) -> str:
    """`staged in host memory, ...: direct copies may be 1.2 to 7.1 times as fast (...)`."""
    what = _WHAT[transport.staging]
    if transport.setting:
        what = f"{transport.setting} is set here: groups are staged in host memory"
    gain = f"{transport.low:.1f} to {transport.high:.0f} times as fast (predicted"
    check = ""
    if transport.low < _AS_FAST:
        return f"{what}. Direct copies may be {gain}), so staging may be as fast"
    if transport.staging is Staging.NCCL:
        access = "" if transport.is_told else "nvidia-smi topo -p2p r says OK, "
        check = f"; first see that {access}IOMMU and ACS are off"
    return f"{what}. {_SETTLES[transport.staging]} may make them {gain}{check})"


def transport_first(transport: Transport | None, share: float) -> list[Part]:
    """The line that comes first, where it is worth more than any order, which saves `share`."""
    if transport is None or not transport.outweighs(share):
        return []
    return [Fact("Transport", transport_words(transport))]
