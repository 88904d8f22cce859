"""The page's pictures: the machine before and after, congestion bars, heat maps."""

from __future__ import annotations

from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, PairTable, Traffic
from toposeat.report.html import tables
from toposeat.report.svg.chart import paired_bars
from toposeat.report.svg.element import Child, Markup, element, joined
from toposeat.report.svg.heat_map import heat_legend, heat_map
from toposeat.report.svg.layout import Layout, lay_out_machine
from toposeat.report.svg.machine import CONGESTION_STEPS, Seating, kind_legend, machine_svg
from toposeat.report.units import format_seconds, plural
from toposeat.report.words import is_default_kept, link_words, moved_ranks

_MOST_BARS = 14
_NARROW = 570.0  # two drawings up to this width stand side by side
_LARGE = 1900.0  # from this width on a drawing shrunk to the page could not be read: it scrolls


def machine_views(result: MappingResult, topology: Topology, key: str) -> Markup:
    """The machine under the default and under the new placement, with a switch between them."""
    layout = lay_out_machine(topology)
    top = max(result.default.max_congestion_s, result.placed.max_congestion_s)
    moved = frozenset(result.device_of_rank[r] for r in moved_ranks(result))
    before = Seating(_ranks(result.default), frozenset(), result.default, top)
    after = Seating(_ranks(result.placed), moved, result.placed, top)
    if is_default_kept(result):
        only = _figure("Default placement, kept", topology, layout, before, "f-before")
        return joined([_load_legend(top, bool(moved)), element("div", {"class": "figures"}, only)])
    switch = joined(
        _radio(key, view, words, view == "both")
        for view, words in (("both", "both"), ("before", "default"), ("after", "placed"))
    )
    narrow = " narrow" if layout.width <= _NARROW else ""
    return element(
        "div",
        {"class": "views"},
        switch,
        _load_legend(top, moved=True),
        element(
            "div",
            {"class": "figures" + narrow},
            _figure("Default placement", topology, layout, before, "f-before"),
            _figure("Placed", topology, layout, after, "f-after"),
        ),
    )


def _ranks(evaluation: Evaluation) -> dict[int, int]:
    return {device: rank for rank, device in enumerate(evaluation.device_of_rank)}


def _radio(key: str, view: str, words: str, checked: bool) -> Markup:
    name = f"{key}-{view}"
    box = {"type": "radio", "class": f"view-{view}", "name": f"{key}-view", "id": name}
    return joined(
        [
            element("input", {**box, "checked": checked}),
            element("label", {"for": name, "class": "toggle"}, words),
        ]
    )


def _figure(words: str, topology: Topology, layout: Layout, seating: Seating, look: str) -> Markup:
    worst = format_seconds(seating.evaluation.max_congestion_s)
    time = format_seconds(seating.evaluation.predicted_s)
    caption = f"predicted: busiest link {worst}, link time {time}"
    return element(
        "figure",
        {"class": look},
        element(
            "figcaption",
            {},
            element("b", {}, words),
            element("span", {}, " " + caption),
        ),
        element(
            "div",
            {"class": _scroller(layout)},
            machine_svg(topology, label=f"{words}: {caption}", seating=seating, layout=layout),
        ),
    )


def _load_legend(top: float, moved: bool) -> Markup:
    """What line colours and widths mean, and what a blue seat is."""
    parts: list[Child] = [element("span", {}, "Congestion of a link: "), _sample(0, 1.6, "idle")]
    for step in range(1, CONGESTION_STEPS + 1):
        width = 1.6 + 8.4 * step / CONGESTION_STEPS
        words = format_seconds(top) if step == CONGESTION_STEPS else ""
        parts.append(_sample(step, width, words))
    if moved:
        parts.append(element("span", {"class": "seat-sample"}, "7"))
        parts.append(element("span", {}, "rank that moved"))
    parts.append(element("span", {"class": "hint"}, "Point at anything for its numbers."))
    return element("p", {"class": "legend"}, *parts)


def _sample(step: int, width: float, words: str) -> Markup:
    line = element("path", {"class": f"wire load-{step}", "d": "M0 7h24", "stroke-width": width})
    svg = element("svg", {"width": 24, "height": 14, "aria-hidden": "true"}, line)
    return joined([svg, element("span", {}, words) if words else None])


def machine_plain(topology: Topology) -> Markup:
    """The machine alone, links coloured by kind."""
    layout = lay_out_machine(topology)
    svg = machine_svg(topology, label=f"machine {topology.name}", layout=layout)
    return joined([kind_legend(topology), element("div", {"class": _scroller(layout)}, svg)])


def _scroller(layout: Layout) -> str:
    """The class of the box around a drawing of the machine."""
    return "wide large" if layout.width > _LARGE else "wide"


def congestion_bars(result: MappingResult, topology: Topology) -> Markup:
    """The busiest links before and after as paired bars; all of them in a table below."""
    before = {load.link: load.congestion_s for load in result.default.links}
    after = {load.link: load.congestion_s for load in result.placed.links}
    index = {link.id: number for number, link in enumerate(topology.links)}
    rows = sorted(
        (
            (index.get(name, -1), link_words(topology, name), b, after.get(name, 0.0))
            for name, b in {**dict.fromkeys(after, 0.0), **before}.items()
        ),
        key=lambda row: (-max(row[2], row[3]), row[0]),
    )
    rows = [row for row in rows if max(row[2], row[3]) > 0]
    if not rows:
        return element("p", {}, "No link carries anything.")
    both = not is_default_kept(result)
    left = len(rows) - _MOST_BARS
    more = f"and {plural(left, 'less busy link')}: see the table" if left > 0 else ""
    return joined(
        [
            _bar_legend() if both else None,
            element("div", {"class": "wide"}, paired_bars(rows[:_MOST_BARS], both=both)),
            element("p", {"class": "hint"}, more) if more else None,
            element(
                "details",
                {},
                element("summary", {}, "all links as a table"),
                tables.links(result, topology),
            ),
        ]
    )


def _bar_legend() -> Markup:
    return element(
        "p",
        {"class": "legend"},
        element("i", {"class": "dot before"}),
        element("span", {}, "default"),
        element("i", {"class": "dot after"}),
        element("span", {}, "placed"),
    )


def heat_maps(
    section_mapping: MappingResult | None, topology: Topology | None, traffic: Traffic
) -> Markup:
    """Who talks to whom: by device before and after if mapped, else by rank and memory space."""
    if section_mapping is not None and topology is not None and len(traffic.mapped_table()):
        return _mapped_heat(section_mapping, topology, traffic)
    figures = []
    for space in MemorySpace:
        pairs = traffic.table(space=space)
        if len(pairs):
            figures.append(_heat_figure(f"{space.value} memory, by rank", pairs, traffic.ranks))
    if not figures:
        return element("p", {}, "Nothing was sent.")
    return element("div", {"class": "heats"}, *figures)


def _heat_figure(
    words: str,
    pairs: PairTable,
    ranks: int,
    order: list[int] | None = None,
    splits: tuple[int, ...] = (),
) -> Markup:
    return element(
        "figure",
        {},
        element("figcaption", {}, element("b", {}, words)),
        heat_map(pairs, ranks, label=f"bytes sent: {words}", order=order, splits=splits),
    )


def _mapped_heat(result: MappingResult, topology: Topology, traffic: Traffic) -> Markup:
    pairs = traffic.mapped_table()
    space = traffic.mapped_space
    what = f"{space.value} memory" if space is not None else "all memory"
    layout = lay_out_machine(topology)
    shown = [("default order", result.default)]
    if not is_default_kept(result):
        shown.append(("placed order", result.placed))
    figures = []
    for words, evaluation in shown:
        order, splits = _device_order(evaluation, topology, layout)
        figures.append(_heat_figure(f"{what}, {words}", pairs, traffic.ranks, order, splits))
    if traffic.mapped_space is MemorySpace.DEVICE:
        host = traffic.table(space=MemorySpace.HOST)
        if len(host):
            figures.append(_heat_figure("host memory, by rank", host, traffic.ranks))
    note = (
        "Ranks in the order of the devices they sit on, left to right in the drawing; lines"
        " separate packages. Near the diagonal is near in the machine."
    )
    return joined(
        [
            element("p", {"class": "hint"}, note),
            element("p", {"class": "legend"}, heat_legend(pairs, traffic.ranks)),
            element("div", {"class": "heats"}, *figures),
        ]
    )


def _device_order(
    evaluation: Evaluation, topology: Topology, layout: Layout
) -> tuple[list[int], tuple[int, ...]]:
    """Ranks in the order of their devices in the drawing, and where a new group begins."""
    position = {device.id: number for number, device in enumerate(topology.devices)}
    ranks = _ranks(evaluation)
    order: list[int] = []
    splits = []
    for place, vertex in enumerate(layout.device_order):
        if place in layout.group_starts:
            splits.append(len(order))
        if position[vertex] in ranks:
            order.append(ranks[position[vertex]])
    return order, tuple(s for s in splits if 0 < s < len(order))
