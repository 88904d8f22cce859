"""Slurm's `topology.yaml`: several named topologies, of which trees and blocks are read."""

from __future__ import annotations

from dataclasses import replace

from toposeat.model.network import MAX_HOSTS, Network
from toposeat.topology.networks.builder import NetworkBuilder
from toposeat.topology.networks.slurm_conf import Block, network_of_blocks
from toposeat.topology.networks.yaml_tree import YamlNode, parse_yaml
from toposeat.topology.readers.file_text import FileText

ORIGIN = "Slurm topology.yaml"
_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_HINT = "each topology has a name and one of: " + ", ".join(_KINDS)


def parse(file: FileText, wanted: str | None = None) -> Network:
    """One of the topologies of the file.

    Args:
        file: the file.
        wanted: its name; None: the one with `cluster_default: true`, or the first that names hosts.

    Raises:
        InputError: with file and line; also if no topology has that name, or only flat ones, which
            name no host.
    """
    root = parse_yaml(file)
    topologies = {entry.need("topology").string(): entry for entry in root.sequence()}
    if not topologies:
        raise root.error("no topology in the file", _HINT)
    name, entry = _chosen(root, topologies, wanted)
    network = _network(name, entry)
    if len(topologies) == 1 or wanted is not None:
        return network
    others = ", ".join(other for other in topologies if other != name)
    note = f"topology {name!r} is used; the file also has: {others[:200]}"
    return replace(network, report=(note, *network.report))


def _chosen(
    root: YamlNode, topologies: dict[str, YamlNode], wanted: str | None
) -> tuple[str, YamlNode]:
    if wanted is not None:
        if wanted not in topologies:
            raise root.error(
                f"no topology {wanted[:40]!r} in the file", f"it has: {', '.join(topologies)[:200]}"
            )
        return wanted, topologies[wanted]
    marks = {n: e.get("cluster_default") for n, e in topologies.items()}
    default = [n for n, mark in marks.items() if mark and mark.is_true]
    named = [n for n, e in topologies.items() if e.get("flat") is None]
    name = (default or named or list(topologies))[0]
    return name, topologies[name]


def _network(name: str, entry: YamlNode) -> Network:
    kinds = [kind for kind in _KINDS if entry.get(kind) is not None]
    if len(kinds) != 1:
        raise entry.error(f"topology {name[:40]!r} has {len(kinds)} kinds, expected one", _HINT)
    body = entry.need(kinds[0])
    builder = NetworkBuilder(path=entry.file.path)
    if kinds[0] == "flat":
        raise body.error(
            f"topology {name[:40]!r} is flat and names no host",
            "write its switches into a topology.conf: SwitchName=leaf1 Nodes=n[1-16]",
        )
    if kinds[0] in ("ring", "torus3d"):
        raise body.error(
            f"topology {name[:40]!r} is a {kinds[0]}: not read",
            "name its shape for hosts in its order: -t torus3d:4x4x2 --node SRC",
        )
    return (_tree if kinds[0] == "tree" else _blocks)(builder, body, name)


def _hosts(builder: NetworkBuilder, node: YamlNode | None) -> tuple[str, ...]:
    return () if node is None else builder.names(node.string(), node.line)


def _tree(builder: NetworkBuilder, body: YamlNode, name: str) -> Network:
    children: dict[str, tuple[int, list[str]]] = {}
    for entry in body.need("switches").sequence():
        switch = entry.need("switch").string()
        if switch in children:
            raise entry.error(f"switch {switch[:40]!r} is defined twice")
        position = builder.switch(switch, entry.line)
        children[switch] = (entry.line, list(_hosts(builder, entry.get("children"))))
        for host in _hosts(builder, entry.get("nodes")):
            builder.port(host, position, entry.line)
    builder.link_tree(children)
    return builder.build(name=name, origin=ORIGIN)


def _blocks(builder: NetworkBuilder, body: YamlNode, name: str) -> Network:
    listed = body.get("block_sizes")
    sizes = [node.whole(1, MAX_HOSTS) for node in listed.sequence()] if listed else []
    blocks = [
        Block(entry.need("block").string(), _hosts(builder, entry.get("nodes")), entry.line)
        for entry in body.need("blocks").sequence()
    ]
    return network_of_blocks(
        builder, [block for block in blocks if block.hosts], sizes, name=name, origin=ORIGIN
    )
