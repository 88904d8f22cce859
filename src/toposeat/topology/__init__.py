"""Topology sources: one reader per source, live discovery, the catalogue of known machines."""

from __future__ import annotations

from toposeat.topology.catalogue import catalogue_names
from toposeat.topology.health import findings_of, wiring_of
from toposeat.topology.live.discover import discover_this
from toposeat.topology.networks.allocation import allocated
from toposeat.topology.networks.sources import hosts_of, is_network, read_network
from toposeat.topology.sources import parse_topology_text, read_topologies, read_topology

__all__ = [
    "allocated",
    "catalogue_names",
    "discover_this",
    "findings_of",
    "hosts_of",
    "is_network",
    "parse_topology_text",
    "read_network",
    "read_topologies",
    "read_topology",
    "wiring_of",
]
