"""A choice of devices: what to take, the line to copy, what is left."""

from __future__ import annotations

import math

from toposeat.model.device_set import DeviceSet, Left, products_in
from toposeat.model.few import few
from toposeat.model.plural import plural
from toposeat.model.topology import Topology
from toposeat.model.visible_list import visible_line
from toposeat.report.parts import Fact, Part, facts, to_copy
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_range, format_rate, format_rates, format_seconds
from toposeat.report.view.machine import device_code
from toposeat.report.view.mapping import against_words, settling_words
from toposeat.report.view.transport import transport_first

_MOST_GROUPS = 4  # of one size that are named


def render_device_set_text(chosen: DeviceSet, topology: Topology, style: TextStyle = PLAIN) -> str:
    """The devices, the line to copy, what they are worth and what stays free."""
    tried = f"{chosen.sets_tried} of {chosen.sets} sets"
    if chosen.is_exact:
        tried = f"all {plural(chosen.sets, 'set')}"
    share = 1 - chosen.lowest_bytes_per_s / chosen.bytes_per_s if chosen.bytes_per_s else 0.0
    parts: list[Part] = [
        *transport_first(chosen.transport, share),
        Fact("Take", _take(chosen, topology)),
        to_copy(visible_line(topology, chosen.devices)),
        *_mixed(chosen, topology),
        *(Fact("Left", _left(left, topology)) for left in chosen.left),
        *facts(Against=against_words(chosen.premises), Settles=settling_words(chosen.premises)),
        Fact("Tried", f"{tried} of free devices"),
    ]
    return lay_out(parts, style)


def _mixed(chosen: DeviceSet, topology: Topology) -> list[Part]:
    """Which products a set mixes."""
    products = products_in(topology, chosen.devices)
    if len(products) < 2:
        return []
    names = (f"{clean(name)} ({_names(own, topology)})" for name, own in products.items())
    return [Fact("Mixed", f"{len(products)} products: {', '.join(names)}")]


def _take(chosen: DeviceSet, topology: Topology) -> str:
    names = _names(chosen.devices, topology)
    if chosen.placement is not None:
        placed, default = chosen.placement.placed, chosen.placement.default
        return (
            f"{names} for ranks 0, 1, ...: {format_seconds(placed.predicted_s)} of messages"
            f" predicted (lowest free numbers: {format_seconds(default.predicted_s)})"
        )
    if math.isinf(chosen.bytes_per_s):
        return names
    lowest = "the lowest free numbers"
    if set(chosen.lowest) != set(chosen.devices):
        rate = format_rate(chosen.lowest_bytes_per_s)
        if chosen.is_between:
            lowest, rate = "the lowest free", format_range(chosen.lowest_range)
        lowest += f", {_names(chosen.lowest, topology)}: {rate}"
    rates = format_rates(chosen.bytes_per_s, chosen.low, chosen.high)
    if chosen.is_between:  # a range alone, which is the processor's
        rates = format_range((chosen.low, chosen.high))
    return f"{names}: {rates} in a ring, predicted ({lowest})"


def _left(left: Left, topology: Topology) -> str:
    shown = few((_names(group, topology) for group in left.groups), _MOST_GROUPS, "; ")
    groups = plural(len(left.groups), "pair") if left.size == 2 else f"{len(left.groups)} of four"
    rate = format_rate(left.bytes_per_s / len(left.groups))
    return f"{groups}: {shown}" if left.is_between else f"{groups} at {rate} on average: {shown}"


def _names(devices: tuple[int, ...], topology: Topology) -> str:
    return ", ".join(device_code(topology, device) for device in devices)
