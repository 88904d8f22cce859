"""Groups and NVLink domains: hosts of a domain after each other, and what must cross anyway.

A ring over two domains can be predicted as fast as inside one, since it uses the NICs of all hosts.
What makes the inside faster is not modelled (reductions in the switch, latency), so of placements
that take about as long the one that sends less between domains is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_evaluation import SlotEvaluator
from toposeat.mapping.slot_groups import Slots
from toposeat.model.evaluation import Evaluation
from toposeat.model.traffic import Traffic

_ABOUT = 1.1  # times the prediction of another placement: about as long


def keep_inside(
    shape: Shape,
    traffic: Traffic,
    evaluator: SlotEvaluator,
    placed: Evaluation,
) -> tuple[Evaluation, str]:
    """The placement, or the default order with the hosts of each domain after each other.

    Returns:
        The one to take, and what was changed and why; "" if nothing.
    """
    per_host = shape.slots_per_host
    domain = np.array(shape.domain_of_host)
    _, first = np.unique(domain, return_index=True)
    met = {int(domain[at]): int(at) for at in first}
    hosts = np.argsort([met[each] for each in domain.tolist()], kind="stable")
    slots = np.array(placed.device_of_rank, np.uint32)
    ranks = np.arange(len(slots))
    other = (hosts[ranks // per_host] * per_host + ranks % per_host).astype(np.uint32)
    before, after = (crossing_bytes(shape, traffic, each) for each in (slots, other))
    found = evaluator.evaluate(other)
    if after >= before or found.predicted_s > _ABOUT * placed.predicted_s:
        return placed, ""
    why = (
        f"hosts of a domain follow each other: {before / 1e9:.3g} GB between domains become"
        f" {after / 1e9:.3g} GB"
    )
    slower = found.predicted_s / placed.predicted_s - 1 if placed.predicted_s > 0 else 0.0
    if slower > 1e-9:
        why += (
            f"; that is predicted {slower:.1%} slower, without what NVLink gains by reductions in"
            " its switches and by latency"
        )
    return found, why


def crossing_bytes(shape: Shape, traffic: Traffic, slots: Slots) -> float:
    """Bytes between different domains: of rings one crossing per domain, of pairs all."""
    domain = np.array(shape.domain_of_host)[slots // shape.slots_per_host]
    ranks_of = {each.id: list(each.ranks) for each in traffic.communicators}
    table = traffic.edge_table()
    total = float(table.bytes[domain[table.source] != domain[table.target]].sum())
    for load in traffic.groups:
        _, members = np.unique(domain[ranks_of[load.communicator]], return_counts=True)
        if len(members) > 1:
            pairs = int(members.sum()) ** 2 - int((members**2).sum())
            total += load.bytes * (len(members) if load.exchange.is_ring else pairs)
    return total


def what_must_cross(
    shape: Shape, traffic: Traffic, evaluator: SlotEvaluator, placed: Evaluation
) -> Iterator[str]:
    """A sentence for each kind of group with more ranks than a domain has devices."""
    _, hosts = np.unique(shape.domain_of_host, return_counts=True)
    largest = int(hosts.max()) * shape.slots_per_host
    names = {
        (each.name.rstrip("0123456789 ") or "a group", len(each.ranks))
        for each in traffic.communicators
        if len(each.ranks) > largest
    }
    if not names:
        return
    low, high = evaluator.sum_range(np.array(placed.device_of_rank, np.uint32))
    for name, size in sorted(names):
        yield (
            f"{name} has {size} ranks and an NVLink domain {largest} devices: it crosses domains;"
            f" all phases take {low * 1e3:.4g} ms if it uses the NICs of all hosts,"
            f" {high * 1e3:.4g} ms if it uses those of one host per domain"
        )
