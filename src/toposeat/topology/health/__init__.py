"""Verdicts on a topology: how it is wired, and what looks wrong with it. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from toposeat.model.health import Finding, Severity
from toposeat.model.topology import Topology
from toposeat.topology.health.checks import (
    affinity,
    directions,
    hidden_devices,
    inactive_lanes,
    information,
    link_generation,
    link_width,
    missing_routes,
    nics,
    partitions,
    peer_access,
    slow_pairs,
    unequal_lanes,
    uneven_nodes,
    untold_affinity,
    untold_links,
)
from toposeat.topology.health.wiring import Pairs, wiring_of

__all__ = ["findings_of", "wiring_of"]

_CHECKS = (
    hidden_devices,
    untold_links,
    untold_affinity,
    link_width,
    inactive_lanes,
    unequal_lanes,
    peer_access,
    slow_pairs,
    directions,
    missing_routes,
    information,
    affinity,
    nics,
    link_generation,
    uneven_nodes,
    partitions,
)


def findings_of(topology: Topology) -> tuple[Finding, ...]:
    """All findings on one machine, the worst first, then in the order of the checks."""
    pairs = Pairs(topology)
    found = [finding for check in _CHECKS for finding in check(topology, pairs)]
    found += _reader_doubts(topology)
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))


def _reader_doubts(topology: Topology) -> Iterator[Finding]:
    for sentence in topology.report:
        if topology.hidden and "are hidden from this process" in sentence:
            continue  # a finding of its own
        yield Finding(severity=Severity.INFO, code="reader", subject="", detail=sentence)
