"""The processor of a node, as far as a topology tells it, in the words of NCCL's files."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toposeat.model.topology import LinkKind, Topology

CPU_KEY = "cpu"  # of a topology's metadata: arch, vendor, family and model, as far as they are told
CPU_NAME = "cpu_name"  # the name of its product: "AMD EPYC 7302 16-Core Processor"

_ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64", "amd64": "x86_64"}  # NCCL's names
_STATED = ("vendor_id", "cpu family", "model")
_NAMELESS = ("", "-", "unknown", "Unspecified")

_INTEL = ("x86_64", "GenuineIntel", "6")
# By the name of the link between sockets. QPI: Broadwell. The AMD models are all alike to NCCL.
_BY_SOCKET_LINK = {
    "QPI": (*_INTEL, "79"),
    "socket xGMI": ("x86_64", "AuthenticAMD"),
    "X-bus": ("ppc64",),
    "Grace to Grace": ("arm64",),
}
# UPI by the PCIe generation of the same processor: Skylake, Ice Lake, Sapphire Rapids.
_UPI = {3: (*_INTEL, "85"), 4: (*_INTEL, "106"), 5: (*_INTEL, "143"), 6: (*_INTEL, "173")}


def processor_metadata(told: Mapping[str, str], architecture: str = "") -> dict[str, str]:
    """What `/proc/cpuinfo` tells by its keys, as metadata; what is not told is left out.

    `architecture` is the kernel's name. Vendor, family and model are of x86 only, as NCCL has them.
    """
    words = [_ARCHITECTURES.get(architecture, architecture)]
    if words[0] in ("", "x86_64"):
        for key in _STATED:
            if not told.get(key, "").isalnum():
                break
            words.append(told[key])
        words[0] = "x86_64" if len(words) > 1 else words[0]
    name = " ".join(told.get("model name", "").split())[:100]
    found = {CPU_KEY: " ".join(words), CPU_NAME: "" if name in _NAMELESS else name}
    return {key: text for key, text in found.items() if text}


class Processor(Struct, frozen=True):
    """`told` are arch, vendor, family and model; the last ones may be missing."""

    told: tuple[str, ...]
    is_inferred: bool = False

    @property
    def attributes(self) -> dict[str, str]:
        """Of a `<cpu>` element."""
        return dict(zip(("arch", "vendor", "familyid", "modelid"), self.told, strict=False))

    def __str__(self) -> str:
        return " ".join(self.told)


def processor_of(topology: Topology) -> Processor | None:
    """What the source told, else what the name of a link between sockets says; None else."""
    told = topology.metadata.get(CPU_KEY, "").split()
    if told:
        return Processor(tuple(told))
    generation = topology.metadata.get("pcie_generation", "")
    for link in topology.links:
        if link.kind is not LinkKind.SMP:
            continue
        if link.name in _BY_SOCKET_LINK:
            return Processor(_BY_SOCKET_LINK[link.name], is_inferred=True)
        if link.name == "UPI" and generation.isdigit() and int(generation) in _UPI:
            return Processor(_UPI[int(generation)], is_inferred=True)
    return None


def is_amd(topology: Topology) -> bool:
    """Whether its processors are told to be AMD's."""
    processor = processor_of(topology)
    name = topology.metadata.get(CPU_NAME, "").upper()
    return name.startswith("AMD ") or (processor is not None and "AuthenticAMD" in processor.told)
