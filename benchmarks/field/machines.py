"""The machines of our own comparisons, as nvidia-smi would print what their sources say."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """Sockets of equal GPUs.

    `sockets` has a number of GPUs each, `near` is the relation within one, `bonds` are NVLinks of
    pairs. `access` is what `topo -p2p r` prints, "" where the source does not tell it; names of the
    GPUs and the processor are "" where they are not published.
    """

    gpu: str
    processor: str
    sockets: tuple[int, ...]
    near: str
    access: str = ""
    bonds: tuple[tuple[int, int, str], ...] = ()


MACHINES = {
    "nodes-of-four": Machine("", "", (4, 4), "NODE", "NS"),
    "a40-8-bridged": Machine(
        "NVIDIA A40", "AMD EPYC 7302 16-Core Processor", (4, 4), "NODE", "OK",
        tuple((at, at + 1, "NV4") for at in (0, 2, 4, 6))),
    "a40-8-staged": Machine(
        "NVIDIA A40", "AMD EPYC 7302 16-Core Processor", (4, 4), "NODE", "NS"),
    "turin-pro6000-8": Machine(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", "AMD EPYC 9575F 64-Core Processor", (4, 4),
        "NODE", "OK"),
    "a6000-6": Machine("NVIDIA RTX A6000", "", (3, 3), "NODE", "OK"),
    "5090-8": Machine("NVIDIA GeForce RTX 5090", "Intel(R) Xeon(R) Platinum 8480+", (4, 4), "NODE"),
    "5090-9": Machine("NVIDIA GeForce RTX 5090", "", (9,), "NODE", "OK"),
    "4090-2-xeon": Machine(
        "NVIDIA GeForce RTX 4090", "Intel(R) Xeon(R) Gold 6430", (2,), "NODE", "OK"),
    "4090-2-epyc": Machine(
        "NVIDIA GeForce RTX 4090", "AMD EPYC 9554 64-Core Processor", (2,), "NODE", "OK"),
    "3090-3": Machine(
        "NVIDIA GeForce RTX 3090", "AMD Ryzen Threadripper PRO 3995WX 64-Cores", (3,), "NODE",
        "OK"),
    "4090-6-staged": Machine(
        "NVIDIA GeForce RTX 4090", "AMD Ryzen Threadripper PRO 3995WX 64-Cores", (6,), "PHB", "NS"),
}  # fmt: skip


def text_of(machine: Machine) -> str:
    """What the tools would print, with invented UUIDs and CPU numbers."""
    socket_of = [at for at, count in enumerate(machine.sockets) for _ in range(count)]
    count = len(socket_of)
    lines = []
    if machine.processor:
        lines += ['$ lscpu | grep "Model name"', f"Model name:  {machine.processor}", ""]
    if machine.gpu:
        lines.append("$ nvidia-smi -L")
        lines += [
            f"GPU {at}: {machine.gpu} (UUID: GPU-{at:08x}-0000-0000-0000-{at:012x})"
            for at in range(count)
        ]
        lines.append("")
    bonds = {frozenset((a, b)): lanes for a, b, lanes in machine.bonds}

    def relation(a: int, b: int) -> str:
        if a == b:
            return " X "
        far = machine.near if socket_of[a] == socket_of[b] else "SYS"
        return bonds.get(frozenset((a, b)), far)

    head = "".join(f"\tGPU{at}" for at in range(count))
    lines += ["$ nvidia-smi topo -m", f"{head}\tCPU Affinity\tNUMA Affinity"]
    for a in range(count):
        cells = "".join(f"\t{relation(a, b)}" for b in range(count))
        socket = socket_of[a]
        lines.append(f"GPU{a}{cells}\t{32 * socket}-{32 * socket + 31}\t{socket}")
    if machine.access:
        lines += ["", "$ nvidia-smi topo -p2p r", head]
        lines += [
            f"GPU{a}" + "".join("\tX" if a == b else f"\t{machine.access}" for b in range(count))
            for a in range(count)
        ]
    return "\n".join(lines) + "\n"
