"""NVIDIA Topograph: its `graph` engine's JSON, and the YAML of its model files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Required, TypedDict

from toposeat.model.network import Network
from toposeat.topology.networks.builder import HostPath, NetworkBuilder
from toposeat.topology.readers.file_text import FileText, json_of, yaml_of

_DOMAIN = re.compile(r"(.*/)?(domain|nvlink|accelerator)")
_HINT = 'ask Topograph for the graph engine: {"engine": {"name": "graph"}}'


class _Instance(TypedDict, total=False):
    """A host with its network layers, nearest first."""

    id: Required[str]
    network_layers: Required[list[str]]
    attributes: dict[str, object] | None
    labels: dict[str, object] | None


class _Graph(TypedDict):
    instances: list[_Instance]


class _Switch(TypedDict, total=False):
    """A switch of a model: what is below it."""

    switches: list[str] | None
    nodes: list[str] | None


class _Block(TypedDict, total=False):
    """Nodes on a switch, which has the block's name if none is named."""

    switch: str
    name: str
    nodes: list[str] | None
    annotations: dict[str, object] | None
    labels: dict[str, object] | None


class _Model(TypedDict, total=False):
    switches: dict[str, _Switch | None] | None
    blocks: list[_Block] | None


def parse_graph(file: FileText) -> Network:
    """The network of the graph engine's JSON."""
    file.hint = _HINT
    builder = NetworkBuilder(path=file.path)
    paths = []
    for instance in json_of(file, _Graph)["instances"]:
        name, layers = instance["id"], instance["network_layers"]
        paths.append(HostPath(name, tuple(layers) or ("(flat network)",)))
        for found in (instance.get("attributes"), instance.get("labels")):
            _note_domain(builder, [name], found)
    builder.hang(paths)
    return builder.build(name=file.name, origin="Topograph graph JSON")


def parse_model(file: FileText) -> Network:
    """The tree of switches; nodes are on the switches that blocks name."""
    builder = NetworkBuilder(path=file.path)
    model = yaml_of(file, _Model)
    children: dict[str, list[str]] = {}
    for name, switch in (model.get("switches") or {}).items():
        builder.switch(name)
        children[name] = (switch or {}).get("switches") or []
        _add_hosts(builder, (switch or {}).get("nodes"), name)
    for block in model.get("blocks") or ():
        name = block.get("switch") or block.get("name", "")
        children.setdefault(name, [])
        hosts = _add_hosts(builder, block.get("nodes"), name)
        _note_domain(builder, hosts, block.get("annotations") or block.get("labels"))
    for child in [child for below in children.values() for child in below]:
        children.setdefault(child, [])  # a switch need not be described to exist
        builder.switch(child)
    builder.link_tree({name: (None, below) for name, below in children.items()})
    return builder.build(name=file.name, origin="Topograph model YAML")


def _note_domain(
    builder: NetworkBuilder, hosts: Sequence[str], notes: Mapping[str, object] | None
) -> None:
    for key, value in (notes or {}).items():
        if _DOMAIN.fullmatch(key):
            builder.domains |= dict.fromkeys(hosts, str(value))


def _add_hosts(builder: NetworkBuilder, nodes: Sequence[str] | None, switch: str) -> list[str]:
    """Add the hosts that a switch or a block lists; their names."""
    position = builder.switch(switch)
    added = [host for text in nodes or () for host in builder.names(text, None)]
    for host in added:
        if host in builder.hosts:
            raise builder.error(f"host {host} appears twice", None)
        builder.port(host, position)
    return added
