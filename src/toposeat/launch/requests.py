"""What a scheduler is asked for so that blocks of nodes stay near each other, in its own words.

Slurm: sbatch(1), --segment and --switches. Kueue: annotations of kueue.x-k8s.io, as its page on
topology-aware scheduling says. KAI: its page on segments. DRA:
`ResourceClaimTemplate` of resource.k8s.io/v1 with the driver gpu.nvidia.com, `ComputeDomain` of
resource.nvidia.com.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toposeat.model.asked import Asked, Block, Request


def requests_for(asked: Asked, *, devices: Sequence[str] = ()) -> tuple[Request, ...]:
    """The words for each scheduler that the network's levels are those of.

    Levels of Kubernetes are labels; any other network is taken as Slurm's.
    `devices` are PCI bus ids of the linked devices to take, where the job needs a part of a node.
    """
    in_kubernetes = any("/" in name for name in asked.levels)
    words = _kubernetes(asked, devices) if in_kubernetes else _slurm(asked)
    return tuple(Request(scheduler=name, words=tuple(each)) for name, each in words)


def _slurm(asked: Asked) -> Iterator[tuple[str, list[str]]]:
    line, block = f"sbatch --nodes={asked.nodes} --gpus-per-node={asked.devices}", asked.chosen
    if block is None:
        yield "Slurm", [line]
    elif asked.kind == "block" or "domain" in block.level:
        yield "Slurm", [f"{line} --segment={block.nodes}"]
    else:
        yield "Slurm", [f"{line} --switches={_switches(asked, block)}"]


def _switches(asked: Asked, block: Block) -> int:
    """The fewest leaf switches that hold the job in whole blocks, of average size."""
    leaf = min((x for x in asked.tried if "domain" not in x.level), key=lambda x: x.height)
    per_leaf = max(1, round(leaf.nodes / leaf.share))  # nodes
    if block.height == leaf.height:
        per_leaf = max(1, per_leaf // block.nodes) * block.nodes
    return -(-asked.nodes // per_leaf)


def _kubernetes(asked: Asked, devices: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    block = asked.chosen
    if block is not None:
        label = block.level.rpartition("(")[2].rstrip(")")
        size = [] if block.nodes == asked.nodes else [str(block.nodes)]
        part, segment = ("slice-", "segment-") if size else ("", "")
        kueue, kai = "kueue.x-k8s.io/podset-", "kai.scheduler/"
        slices = [f'{kueue}slice-size: "{each}"' for each in size]
        yield "Kueue", [f"{kueue}{part}required-topology: {label}", *slices]
        segments = [f'{kai}segment-size: "{each}"' for each in size]
        required = f"{kai}{segment}topology-required-placement: {label}"
        yield "KAI", [f"{kai}topology: NAME", required, *segments]
    if asked.vendor != "nvidia":  # drivers of others name their devices otherwise
        return
    claim = [f"deviceClassName: gpu.nvidia.com, count: {asked.devices}"]
    if devices:
        ids = ", ".join(f'"{each}"' for each in devices)
        claim.append(f'cel: device.attributes["resource.kubernetes.io"].pciBusID in [{ids}]')
    if block is not None and "domain" in block.level:
        claim.append("and a ComputeDomain, whose channel every pod claims")
    yield "DRA", claim
