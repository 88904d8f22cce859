"""Kubernetes, as kubectl prints it: nodes and labels, Kueue's Topology.

Label names: constants of NVIDIA/topograph (three generations of them), EKS's and GKE's pages on
node labels, Oracle's oke-gpu guide, Azure's reserved labels, Kubernetes' well-known labels, GPU
feature discovery of NVIDIA/k8s-device-plugin. Object: kueue.x-k8s.io `Topology`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from toposeat.model.few import few
from toposeat.model.network import Network, NetworkLevel
from toposeat.topology.fabric_domain import domain_named
from toposeat.topology.networks.builder import HostPath, NetworkBuilder
from toposeat.topology.readers.file_text import FileText, json_of

_HINT = "save it again: kubectl get nodes -o json > nodes.json"
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
# Whose labels they are, how they begin and end: that of the nearest switch first.
_FAMILIES = (
    ("Topograph", "fabric.topograph.run/tier-", "0 1 2 3 4 5 6 7"),
    ("Topograph", "network.topology.nvidia.com/tier-", "0 1 2 3 4 5 6 7"),
    ("Topograph", "network.topology.nvidia.com/", "leaf block spine core datacenter"),
    ("EKS", "topology.k8s.aws/network-node-layer-", "4 3 2 1"),
    ("GKE", "cloud.google.com/gce-topology-", "host subblock block"),
    ("OKE", "oci.oraclecloud.com/rdma.", "local_block_id network_block_id hpc_island_id"),
    ("AKS", "kubernetes.azure.com/", "ppg"),
)
# What a host is called: a level of them joins nothing, unless several nodes share one.
_OF_HOSTS = {"kubernetes.io/hostname", "cloud.google.com/gce-topology-host"}
_CLIQUE = "nvidia.com/gpu.clique"  # CLUSTER-UUID.CLIQUE
_DOMAINS = (
    _CLIQUE,
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
)
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_MOST_NAME = 253  # characters of a name or a label's value in Kubernetes


class _Level(TypedDict, total=False):
    """A level of Kueue's Topology."""

    nodeLabel: str


class _Spec(TypedDict, total=False):
    """What is read of a Node or a Topology."""

    unschedulable: bool
    levels: list[_Level]


class _Meta(TypedDict, total=False):
    name: str
    labels: dict[str, str] | None


class _Status(TypedDict, total=False):
    capacity: dict[str, str | int] | None


class _Object(TypedDict, total=False):
    kind: str
    metadata: _Meta
    spec: _Spec | None
    status: _Status | None


class _Document(_Object, total=False):
    """One object, or a list of them."""

    items: list[_Object]


@dataclass(frozen=True)
class _Node:
    """A node: its labels, and how many GPUs it has."""

    name: str
    labels: Mapping[str, str]
    gpus: int
    cordoned: bool

    @property
    def kind(self) -> str:
        """How many of which GPU it has."""
        return f"{self.gpus} x {self.labels.get('nvidia.com/gpu.product', 'GPU')}"


def parse(file: FileText) -> Network:
    """The tree that a Topology or labels make of the nodes; their NVLink domains."""
    file.hint = _HINT
    builder = NetworkBuilder(path=file.path)
    document = json_of(file, _Document)
    items = document.get("items", [document])
    of_kind = {kind: [x for x in items if x.get("kind") == kind] for kind in ("Node", "Topology")}
    nodes = _with_gpus(builder, [_node(builder, each) for each in of_kind["Node"]])
    if not nodes:
        raise builder.error("no node", None, _HINT)
    if any(each.get("kind") == "HyperNode" for each in items):
        builder.report.append("HyperNodes are not read: labels of nodes say where they are")
    origin, labels = _labels_of(builder, of_kind["Topology"], nodes)
    builder.hang([HostPath(each.name, _above(each, labels)) for each in nodes])
    domains = _note_domains(builder, nodes)
    network = builder.build(name=file.name, origin=origin, description=_kinds_of(nodes))
    gpus = {each.gpus for each in nodes}
    return replace(
        network,
        levels=_named(network.levels, list(reversed(labels))),
        domain=network.domain and replace(network.domain, name=f"NVLink domain ({domains})"),
        devices_per_host=next(iter(gpus)) or None if len(gpus) == 1 else None,
    )


def _named(levels: Sequence[NetworkLevel], names: Sequence[str]) -> tuple[NetworkLevel, ...]:
    """The levels by their labels; above them may be the top that `build` assumes."""
    if not names:
        return tuple(levels)
    top = len(levels) - len(names)
    named = zip(levels[top:], names, strict=True)
    return (*levels[:top], *(replace(level, name=name) for level, name in named))


def _name_of(builder: NetworkBuilder, item: _Object) -> str:
    name = item.get("metadata", {}).get("name", "")
    if not 0 < len(name) <= _MOST_NAME:
        raise builder.error(f"a {item.get('kind')} named {name[:40]!r}", None, _HINT)
    return name


def _node(builder: NetworkBuilder, item: _Object) -> _Node:
    name = _name_of(builder, item)
    labels = item["metadata"].get("labels") or {}
    if any(len(value) > _MOST_NAME for value in labels.values()):
        raise builder.error(f"node {name[:60]} has a label of no possible length", None, _HINT)
    capacity = (item.get("status") or {}).get("capacity") or {}
    counts = [labels.get("nvidia.com/gpu.count"), *(capacity.get(each) for each in _GPUS)]
    gpus = [
        int(text)
        for each in counts
        if (text := str(each)).isascii() and text.isdigit() and len(text) < 5
    ]
    cordoned = (item.get("spec") or {}).get("unschedulable", False)
    return _Node(name, labels, next(filter(None, gpus), 0), cordoned)


def _with_gpus(builder: NetworkBuilder, nodes: Sequence[_Node]) -> Sequence[_Node]:
    """The nodes that have GPUs; all where none has, since nothing may have counted them."""
    having = [each for each in nodes if each.gpus]
    if having and len(having) < len(nodes):
        left = [each.name for each in nodes if not each.gpus]
        builder.report.append(f"left out, without GPUs: {few(left)}")
    found = having or nodes
    cordoned = [each.name for each in found if each.cordoned]
    if cordoned:
        builder.report.append(f"cordoned, no new job gets them: {few(cordoned)}")
    renamed = [x.name for x in found if x.labels.get("kubernetes.io/hostname", x.name) != x.name]
    if renamed:
        builder.report.append(
            f"the label kubernetes.io/hostname is not the name of {few(renamed)}: what `export`"
            " writes selects by that label"
        )
    return found


def _kinds_of(nodes: Sequence[_Node]) -> str:
    kinds = Counter(each.kind for each in nodes if each.gpus)
    if len(kinds) > 1:
        return ", ".join(f"{count} nodes with {kind}" for kind, count in kinds.most_common(8))
    return "".join(f"every node has {kind}" for kind in kinds)


def _labels_of(
    builder: NetworkBuilder, topologies: Sequence[_Object], nodes: Sequence[_Node]
) -> tuple[str, list[str]]:
    """Whose labels say where nodes are, and the labels that nodes have, the nearest first."""
    families = [
        (f"Topology {_name_of(builder, each)}", tuple(reversed(_levels(each))))
        for each in topologies
    ] or [
        (f"labels of {whose}", tuple(f"{begin}{end}" for end in ends.split()))
        for whose, begin, ends in _FAMILIES
    ]
    count = {
        labels: sum(any(x in each.labels for x in labels) for each in nodes)
        for _, labels in families
    }
    origin, labels = max(families, key=lambda family: count[family[1]])  # the first of equal ones
    if not count[labels]:
        origin, labels = "labels of zones", _ZONES
    used = []
    for label in labels:
        values = Counter(each.labels[label] for each in nodes if label in each.labels)
        if values and (label not in _OF_HOSTS or max(values.values()) > 1):
            used.append(label)
            missing = [each.name for each in nodes if label not in each.labels]
            if missing:
                builder.report.append(f"without the label {label}: {few(missing)}")
    if not used:
        builder.report.append("no label says where nodes are: one switch is assumed above all")
    return f"Kubernetes nodes, {origin}", used


def _levels(topology: _Object) -> list[str]:
    return [each.get("nodeLabel", "") for each in (topology.get("spec") or {}).get("levels", [])]


def _above(node: _Node, labels: Sequence[str]) -> tuple[str, ...]:
    """The switches above a node; one without a label is alone below what it does say."""
    names = []
    for at, label in enumerate(labels):
        known = (node.labels[each] for each in labels[at:] if node.labels.get(each))
        name = next(known, node.name)
        names.append(name if node.labels.get(label) else f"({name}: no {label})")
    return tuple(names) or ("(flat network)",)


def _note_domains(builder: NetworkBuilder, nodes: Sequence[_Node]) -> str:
    """Take the first label of domains that any node has; its name."""
    for label in _DOMAINS:
        found = {x.name: x.labels[label] for x in nodes if x.labels.get(label)}
        if label == _CLIQUE:
            cliques = {name: value.rpartition(".") for name, value in found.items()}
            found = {name: domain_named(each[0], each[2]) for name, each in cliques.items()}
        builder.domains = {name: value for name, value in found.items() if value}
        if builder.domains:
            return label
    return ""
