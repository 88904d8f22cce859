"""Turns the words that `nvidia-smi` prints of one GPU, in any of its forms, into facts.

`-q`, `-q -x` and `--query-gpu` print the same values under different names. Their readers find the
words, and this module interprets them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toposeat.model.topology import MAX_PCIE_NUMBER, Device, PcieState, Vendor, canonical_pci
from toposeat.topology.readers.file_text import FileText

_MAX_MEMORY_BYTES = 1 << 60
_Meaning = TypeVar("_Meaning", int, str)

_NOT_KNOWN = re.compile(r"|N/A|None|Unknown( Error)?|Not (Supported|Available)|.*deprecated", re.I)
_AMOUNT = re.compile(r"(\d{1,12})\s*(KiB|MiB|GiB|KB|MB|GB|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1 << 20, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_UNITS |= {"kb": 10**3, "mb": 1 << 20, "gb": 10**9}  # old drivers write MB and mean MiB
_COUNT = re.compile(r"(\d{1,3})x?", re.ASCII)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,80}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fields:
    """The words of one GPU; "" where the source has none.

    `line` is where the GPU starts. `fabric` is the state of the NVLink fabric of NVSwitch machines
    ("Completed", "In Progress", ...), `fabric_status` its result ("Success", ...).
    """

    line: int
    index: int | None = None
    pci_bus_id: str = ""
    name: str = ""
    uuid: str = ""
    memory: str = ""
    generation: str = ""
    max_generation: str = ""
    width: str = ""
    max_width: str = ""
    mig: str = ""
    fabric: str = ""
    fabric_status: str = ""
    clique: str = ""


def word(text: str | None) -> str:
    """A value without brackets and blanks; "" for N/A and its like."""
    text = (text or "").strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].strip()
    return "" if _NOT_KNOWN.fullmatch(text) else text


def device_facts(gpus: Sequence[Fields], file: FileText) -> list[Device]:
    """One fact for each GPU.

    Raises:
        InputError: a damaged value, or two GPUs with one name.
    """
    facts = [_fact(gpu, i, file) for i, gpu in enumerate(gpus)]
    for what in ("pci_bus_id", "uuid", "index", "id"):
        seen: dict[object, int] = {}
        for gpu, fact in zip(gpus, facts, strict=True):
            value = getattr(fact, what)
            if value is not None and value in seen:
                raise file.refusal(
                    f"{what.replace('_', ' ')} {value} is that of line {seen[value]} already",
                    gpu.line,
                    hint="one machine per file",
                )
            seen[value] = gpu.line
    return facts


def _fact(gpu: Fields, position: int, file: FileText) -> Device:
    def read(what: str, value: str, meaning: Callable[[str], _Meaning]) -> _Meaning | None:
        try:
            return meaning(word(value)) if word(value) else None
        except ValueError:
            raise file.refusal(f"damaged {what}: {value[:60]!r}", gpu.line) from None

    state = PcieState(
        generation=read("PCIe generation", gpu.generation, _count),
        max_generation=read("PCIe generation", gpu.max_generation, _count),
        width=read("PCIe width", gpu.width, _count),
        max_width=read("PCIe width", gpu.max_width, _count),
    )
    return Device(
        id=f"GPU{position if gpu.index is None else gpu.index}",
        index=gpu.index,
        vendor=Vendor.NVIDIA,
        name=word(gpu.name)[:120],
        pci_bus_id=read("PCI bus id", gpu.pci_bus_id, canonical_pci),
        uuid=read("UUID", gpu.uuid, _checked_uuid),
        memory_bytes=read("memory size", gpu.memory, _bytes),
        pcie=None if state == PcieState() else state,
    )


def _bytes(text: str) -> int:
    match = _AMOUNT.fullmatch(text)
    amount = int(match[1]) * _UNITS[(match[2] or "").lower()] if match else -1
    if not 0 <= amount <= _MAX_MEMORY_BYTES:
        raise ValueError(f"{text!r} is no size of memory")
    return amount


def _count(text: str) -> int:
    match = _COUNT.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= MAX_PCIE_NUMBER:
        raise ValueError(f"{text!r} is no number of lanes or generation")
    return int(match[1])


def _checked_uuid(text: str) -> str:
    if _UUID.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no UUID")
    return text


def describe_links(devices: Sequence[Device]) -> list[str]:
    """Sentences on PCIe links that run below their possible width or generation.

    A generation below the possible one is normal for an idle GPU; a width is not.
    """
    states = [(each.id, each.pcie) for each in devices if each.pcie is not None]
    narrow = [(id, p) for id, p in states if p.width and p.width < (p.max_width or 0)]
    slow = [(id, p) for id, p in states if p.generation and p.generation < (p.max_generation or 0)]
    sentences = [
        f"{id} has a PCIe link of x{p.width}, x{p.max_width} is possible" for id, p in narrow
    ]
    if slow:
        sentences.append(
            f"{len(slow)} GPUs run their PCIe link below its generation, as idle ones do:"
            f" {slow[0][0]} at gen {slow[0][1].generation} of {slow[0][1].max_generation}"
        )
    return sentences


def describe_fabric(gpus: Sequence[Fields]) -> list[str]:
    """What the state of the NVSwitch fabric and of MIG means, in sentences."""
    sentences = []
    down = [
        i
        for i, gpu in enumerate(gpus)
        if word(gpu.fabric)
        and (word(gpu.fabric) != "Completed" or word(gpu.fabric_status) not in ("", "Success"))
    ]
    if down:
        gpu = gpus[down[0]]
        sentences.append(
            f"the NVLink fabric of {len(down)} GPUs is not up ({gpu.fabric.strip()}"
            f" {word(gpu.fabric_status)}): NVLink may not work".replace(" )", ")")
        )
    cliques = Counter(word(g.clique) for g in gpus if word(g.fabric) == "Completed")
    if len(cliques) > 1:
        sentences.append(f"the GPUs are in {len(cliques)} NVLink cliques")
    partitioned = sum(word(gpu.mig) == "Enabled" for gpu in gpus)
    if partitioned:
        sentences.append(f"MIG is on for {partitioned} of {len(gpus)} GPUs: they have no peers")
    return sentences
