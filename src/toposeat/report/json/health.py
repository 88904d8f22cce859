"""A verdict on a machine as JSON, for fleets: codes and severities do not change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toposeat.model.health import Health
from toposeat.model.topology import Topology

HEALTH_SCHEMA = "toposeat/doctor/2"


def health_json(topology: Topology | None, health: Health) -> dict[str, Any]:
    """The verdict; `machine` and `wiring` are null where there is no GPU. Gains are predicted."""
    wiring = health.wiring
    return {
        "schema": HEALTH_SCHEMA,
        "healthy": health.healthy,
        "machine": None
        if topology is None
        else {
            "name": topology.name,
            "origin": topology.origin,
            "hosts": list(topology.hosts),
            "devices": len(topology.devices),
        },
        "wiring": None
        if wiring is None
        else {"shape": wiring.shape.value, "reason": wiring.reason},
        "gains": [
            {
                "pattern": gain.pattern,
                "default_s": gain.default_s,
                "placed_s": gain.placed_s,
                "gain_share": gain.share,
                "gain_share_bound": gain.share_bound,
                "proved": gain.proved,
            }
            for gain in health.gains
        ],
        "findings": [
            {**asdict(finding), "severity": finding.severity.value}
            for finding in (*health.findings, *health.node)
        ],
    }
