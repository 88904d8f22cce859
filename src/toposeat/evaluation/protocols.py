"""What messages through host memory take: the typical message, staging, slower links."""

from __future__ import annotations

from dataclasses import replace

from toposeat.evaluation.network import message_sizes
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def typical_bytes(traffic: Traffic) -> float:
    """Mean message size in bytes, each byte counted once; 0 without messages."""
    table = traffic.mapped_table()
    messages = float(table.messages.sum())
    if not messages:
        return 0.0
    mean = float(table.bytes.sum()) / messages
    spread = message_sizes(traffic)
    weight = sum(share * factor for factor, share in spread)
    if not weight:
        return mean
    return mean * sum(share * factor * factor for factor, share in spread) / weight


def staging_times(
    message_bytes: float, piece_bytes: int, partners: int
) -> tuple[float, float, float]:
    """How much longer staging takes than if its two halves overlapped all the time.

    A piece is passed on when all of it has arrived, so the second half begins a piece later. A
    rank copies its messages to several partners one after the other, in the program's order. Where
    all partners of a rank send to it last, its second half waits for their other messages too.

    Args:
        message_bytes: typical of the traffic, above 0.
        piece_bytes: of the stack; 0 if not known, which adds no wait.
        partners: the most that a rank sends to in one phase.

    Returns:
        Factors on the time: with the best order of messages, halfway, with the worst.
    """
    if piece_bytes <= 0:
        return 1.0, 1.0, 1.0
    count = max(1, partners)
    least = 1 + min(1.0, piece_bytes / message_bytes) / count
    order = (count - 1) / count
    return least, least + order / 2, least + order


def slowed(topology: Topology, factor: float) -> Topology:
    """The machine with the capacity of each direction of its links divided by `factor`.

    A limit on both directions together stays: both halves of staged messages share it all the time.
    """

    def slower(quantity: Quantity) -> Quantity:
        return replace(quantity, value=quantity.value / factor)

    links = tuple(
        replace(
            link,
            forward_bytes_per_s=slower(link.forward_bytes_per_s),
            backward_bytes_per_s=slower(link.backward_bytes_per_s),
        )
        for link in topology.links
    )
    return replace(topology, links=links)
