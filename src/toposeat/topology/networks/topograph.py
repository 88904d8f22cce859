"""NVIDIA Topograph: its `graph` engine's JSON, and the YAML of its model files."""

from __future__ import annotations

import re
from typing import Any

from toposeat.model.files import parse_json
from toposeat.model.network import Network
from toposeat.topology.networks.builder import HostPath, NetworkBuilder
from toposeat.topology.networks.yaml_tree import YamlNode, parse_yaml
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.json_text import line_of

_DOMAIN = re.compile(r"(.*/)?(domain|nvlink|accelerator)")
_HINT = 'ask Topograph for the graph engine: {"engine": {"name": "graph"}}'


def parse_graph(file: FileText) -> Network:
    """Instances with their network layers, nearest first.

    Raises:
        InputError: damaged JSON, with its line; a damaged instance, with its number.
    """
    builder = NetworkBuilder(path=file.path)
    paths = []
    for number, instance in enumerate(_instances(file, builder)):
        layers = instance.get("network_layers") if isinstance(instance, dict) else None
        name = instance.get("id") if isinstance(instance, dict) else None
        if not _is_text(name) or not isinstance(layers, list) or not all(map(_is_text, layers)):
            line = line_of(file, "instances", number)
            raise builder.error(f"instance {number} lacks an id or network_layers", line, _HINT)
        paths.append(HostPath(str(name), tuple(map(str, layers)) or ("(flat network)",)))
        for key in ("attributes", "labels"):
            found = instance.get(key)
            pairs = found.items() if isinstance(found, dict) else ()
            builder.domains |= {str(name): str(v) for k, v in pairs if _DOMAIN.fullmatch(str(k))}
    builder.hang(paths)
    return builder.build(name=file.name, origin="Topograph graph JSON")


def _instances(file: FileText, builder: NetworkBuilder) -> list[Any]:
    document = parse_json("\n".join(file.lines), file.path, hint=_HINT)
    found = document.get("instances") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise builder.error("expected a list of instances", None, _HINT)
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) < 256 and value.isprintable()


def parse_model(file: FileText) -> Network:
    """The tree of switches; nodes are on the switches that blocks name.

    Raises:
        InputError: with file and line.
    """
    builder = NetworkBuilder(path=file.path)
    root = parse_yaml(file)
    children: dict[str, tuple[int, list[str]]] = {}
    described = root.get("switches")
    for name, switch in described.mapping().items() if described else ():
        builder.switch(name, switch.line)
        below = switch.get("switches")
        listed = [each.string() for each in below.sequence()] if below else []
        children[name] = (switch.line, listed)
        _add_hosts(builder, switch, name)
    blocks = root.get("blocks")
    for block in blocks.sequence() if blocks else ():
        name = (block.get("switch") or block.need("name")).string()
        children.setdefault(name, (block.line, []))
        hosts = _add_hosts(builder, block, name)
        notes = block.get("annotations") or block.get("labels")
        pairs = notes.mapping().items() if notes else ()
        for key, value in pairs:
            if _DOMAIN.fullmatch(key):
                builder.domains |= dict.fromkeys(hosts, value.string())
    for line, below_names in list(children.values()):
        for child in below_names:  # a switch need not be described to exist
            children.setdefault(child, (line, []))
            builder.switch(child, line)
    builder.link_tree(children)
    return builder.build(name=file.name, origin="Topograph model YAML")


def _add_hosts(builder: NetworkBuilder, node: YamlNode, switch: str) -> list[str]:
    """Add the hosts that a switch or a block lists; their names."""
    position = builder.switch(switch, node.line)
    nodes = node.get("nodes")
    added = []
    for item in nodes.sequence() if nodes else ():
        for host in builder.names(item.string(), item.line):
            if host in builder.hosts:
                raise item.error(f"host {host} appears twice")
            builder.port(host, position, item.line)
            added.append(host)
    return added
