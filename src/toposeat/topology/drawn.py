"""The one place where a machine is drawn from its facts: routes, and what links and pairs carry."""

from __future__ import annotations

from dataclasses import replace

from toposeat.model.topology import Topology
from toposeat.topology.graph.routes import rerouted


def drawn(facts: Topology) -> Topology:
    """The whole machine: routes over its links, with the limits of its pairs and what was measured.

    Routes that a source brings stay where they still lead.

    Raises:
        ValueError: the facts contradict each other (`Topology.check`).
    """
    machine = rerouted(facts)
    if not (facts.numbers or facts.host_copies):
        return machine
    from toposeat.topology.merging.overlay import with_numbers  # noqa: PLC0415 - 70 ms, numpy

    # once more: what is not measured follows from links that are
    return rerouted(replace(with_numbers(machine), numbers=(), host_copies=()))
