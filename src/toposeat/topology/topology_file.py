"""Topology files: JSON, schema `toposeat/topology/2`: links, and the routes that they do not give.

A route that is the shortest, with what is told of its pair, is not in the file: it is derived when
the file is read. The others are, and pairs that have no route although links join them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from toposeat.model.files import (
    builtins_of,
    decode_json,
    encode_json,
    write_atomically,
)
from toposeat.model.topology import Topology, with_named_premises
from toposeat.topology.graph.routes import with_routes

TOPOLOGY_SCHEMA = "toposeat/topology/2"


class _Document(Topology, frozen=True, kw_only=True):
    """A topology with the routes that differ from derived ones; `unrouted` lists pairs without."""

    unrouted: tuple[tuple[str, str], ...] = ()


def parse_topology(text: str, path: str | Path) -> Topology:
    """A topology from the text of its file; `path` is for messages only.

    Raises:
        InputError: with file and line, if it is damaged or of another schema.
    """
    return _whole(
        decode_json(
            text.removeprefix("\ufeff"),
            _Document,
            schema=TOPOLOGY_SCHEMA,
            path=path,
            check=Topology.check,
        )
    )


def _whole(document: _Document) -> Topology:
    members = {name: getattr(document, name) for name in Topology.__dataclass_fields__}
    derived = with_routes(Topology(**members))
    stated = document.route_of_pair
    gone = frozenset(document.unrouted)
    routes = [
        stated.get(ends, route) for ends, route in derived.route_of_pair.items() if ends not in gone
    ]
    routes += [route for ends, route in stated.items() if ends not in derived.route_of_pair]
    # A derived route that the file replaces may have named a premise that nothing else does.
    return with_named_premises(replace(derived, routes=tuple(routes), report=document.report))


def save_topology(topology: Topology, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a topology file, whole or not at all."""
    write_atomically(path, topology_text(topology), overwrite=overwrite)


def topology_text(topology: Topology) -> str:
    """The content of a topology's file."""
    return encode_json(_document(topology), schema=TOPOLOGY_SCHEMA)


def topology_document(topology: Topology) -> dict[str, Any]:
    """What the file holds, as plain dicts and lists."""
    return {"schema": TOPOLOGY_SCHEMA, **builtins_of(_document(topology))}


def _document(topology: Topology) -> _Document:
    derived = with_routes(topology).route_of_pair
    stated = topology.route_of_pair
    members = {name: getattr(topology, name) for name in Topology.__dataclass_fields__}
    members["routes"] = tuple(r for ends, r in stated.items() if derived.get(ends) != r)
    return _Document(**members, unrouted=tuple(ends for ends in derived if ends not in stated))
