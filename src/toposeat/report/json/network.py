"""JSON form of a network of hosts."""

from __future__ import annotations

from typing import Any

from toposeat.installed import VERSION
from toposeat.model.network import Network
from toposeat.model.quantity import Quantity

NETWORK_SCHEMA = "toposeat/network/1"


def network_json(network: Network) -> dict[str, Any]:
    """`discover -t NETWORK --json`. Switches are numbered; rates are bytes/s per direction."""
    return {
        "schema": NETWORK_SCHEMA,
        "version": VERSION,
        "name": network.name,
        "origin": network.origin,
        "kind": network.kind.value,
        "description": network.description,
        "devices_per_host": network.devices_per_host,
        "switches": list(network.switches),
        "hosts": [
            {
                "name": host.name,
                "ports": [
                    {
                        "switch": port.switch,
                        "name": port.name,
                        "bytes_per_s": _value(port.bytes_per_s),
                    }
                    for port in host.ports
                ],
            }
            for host in network.hosts
        ],
        "links": [
            {
                "ends": list(link.ends),
                "level": link.level,
                "count": link.count,
                "bytes_per_s": _value(link.bytes_per_s),
                "latency_s": _value(link.latency_s),
            }
            for link in network.links
        ],
        "levels": [
            {"name": level.name, "group_of_host": list(level.group_of_host)}
            for level in network.levels
        ],
        "sources": list(network.sources),
        "report": list(network.report),
    }


def _value(quantity: Quantity | None) -> float | None:
    return None if quantity is None else quantity.value
