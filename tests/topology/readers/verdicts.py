"""Every recorded file and what becomes of it: read (as what, with which doubts) or refused (why).

    python -m tests.topology.readers.verdicts                 a table of all files, for people
    python -m tests.topology.readers.verdicts --write         renew recorded_verdicts.tsv

`recorded_verdicts.tsv` is the expectation of `test_verdicts.py`: any change in what a reader of
NVIDIA's tools makes of a recorded file shows as a changed line of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from toposeat.errors import ToposeatError
from toposeat.model.topology import Topology
from toposeat.topology.formats import TREES, format_of, parse_outputs
from toposeat.topology.networks.sources import read_network
from toposeat.topology.readers.file_text import read_file
from toposeat.topology.sources import read_topology
from toposeat.topology.told import is_whole

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "recorded_verdicts.tsv"
FOLDERS = (
    "lscpu-numa", "nvbandwidth", "nvidia-smi-L", "nvidia-smi-nvlink",
    "nvidia-smi-p2p", "nvidia-smi-q", "nvidia-smi-q-xml", "nvidia-smi-query-csv",
    "nvidia-smi-topo", "nvml-mock", "p2pBandwidthLatencyTest",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """One file.

    `verdict` is machine (readable alone), facts (beside a source of links), network, refused.
    `says` counts what the file tells; `worst` is the first doubt, or the cause of the refusal.
    """

    file: str
    verdict: str
    format: str
    gpus: int
    says: str
    doubts: int
    worst: str


def verdict_of(path: Path, root: Path) -> Verdict:
    """What becomes of one file."""
    name = str(path.relative_to(root))
    try:
        parts, kind = _read(path)
    except ToposeatError as error:
        try:
            network = read_network(path)
        except ToposeatError:
            pass
        else:
            hosts = f"{len(network.hosts)} hosts"
            return Verdict(name, "network", network.origin, 0, hosts, len(network.report), "")
        return Verdict(name, "refused", "", 0, "", 0, _without_path(error.message, path))
    try:
        topology = read_topology(path)
    except ToposeatError:
        report = [line for part in parts for line in part.report]
        gpus = max(len(part.devices) for part in parts)
        return Verdict(name, "facts", kind, gpus, _says(parts), len(report), "; ".join(report[:1]))
    return Verdict(
        file=name,
        verdict="machine",
        format=kind,
        gpus=len(topology.devices),
        says=", ".join(x for x in (_graph(topology), _says(parts)) if x),
        doubts=len(topology.report),
        worst="; ".join(topology.report[:1]),
    )


def _read(path: Path) -> tuple[list[Topology], str]:
    for tree in TREES:
        if tree.looks_like(path):
            return [tree.parse(path)], tree.name
    file = read_file(path)
    return parse_outputs(file), format_of(file).name


def _without_path(message: str, path: Path) -> str:
    return message.replace(str(path), "").lstrip(": ")[:160]


def _graph(topology: Topology) -> str:
    """Links by kind, and NICs."""
    kinds = Counter(link.kind.value for link in topology.links)
    counts = [f"{count} {kind}" for kind, count in sorted(kinds.items())]
    return " ".join([*counts, *([f"{len(topology.nics)} NICs"] if topology.nics else [])])


def _says(parts: list[Topology]) -> str:
    """What sources of facts tell."""
    said = []
    for part in parts:
        if not is_whole(part):
            slices = sum(device.parent is not None for device in part.devices)
            down = sum(lane.bytes_per_s is None for lane in part.lanes)
            states = [d.pcie for d in part.devices if d.pcie is not None]
            narrow = sum((p.width or 0) < (p.max_width or 0) for p in states)
            counts = {
                "parts of GPUs": slices,
                "peer answers": sum(p.peer_access is not None for p in part.pairs),
                "pair matrices": len(part.numbers),
                "host numbers": len(part.host_copies),
                "lanes": len(part.lanes),
                "inactive lanes": down,
                "narrow PCIe links": narrow,
                "bus ids": sum(device.pci_bus_id is not None for device in part.devices),
                "bonds": sum(p.bond is not None for p in part.pairs) // 2,
            }
            said += [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join(said)


def verdicts(root: Path, folders: tuple[str, ...] | None = None) -> Iterator[Verdict]:
    """All recorded files, or those of some folders."""
    for path in sorted(root.glob("*/*")):
        if path.is_file() and (folders is None or path.parent.name in folders):
            yield verdict_of(path, root)


def as_tsv(found: list[Verdict]) -> str:
    """One line a file."""
    head = "\t".join(field.name for field in fields(Verdict))
    return "\n".join([head, *("\t".join(map(str, astuple(v))) for v in found)]) + "\n"


def main(arguments: list[str]) -> None:
    """Print the table, or write the expectations."""
    root = HERE.parents[3] / "shared" / "machines"
    if "--write" in arguments:
        EXPECTED.write_text(as_tsv(list(verdicts(root, FOLDERS))))
        return
    found = list(verdicts(root))
    for v in found:
        told = f"{v.gpus:4d} GPUs  {v.format}" if v.gpus else ""
        print(f"{v.file:52} {v.verdict:8} {told}")
        for line in (v.says, f"{v.doubts} doubts: {v.worst}" if v.doubts else v.worst):
            if line:
                print(f"{'':61} {line}")
    counts = Counter(v.verdict for v in found)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
