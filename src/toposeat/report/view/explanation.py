"""Why a placement was chosen: bottlenecks before and after, and what moved. All predicted."""

from __future__ import annotations

from collections import Counter

from toposeat.model.explanation import Bottleneck, Explanation
from toposeat.model.topology import Topology
from toposeat.report.parts import Part, Table, facts
from toposeat.report.units import clean, format_bytes, format_count, format_seconds, plural
from toposeat.report.view.machine import link_medium, link_words


def explanation_parts(explanation: Explanation, topology: Topology | None) -> list[Part]:
    """Bottlenecks and moves; without a topology links are named, and moves are between levels."""
    shown = len(explanation.moves)
    pairs = plural(explanation.moved_pairs, "pair")
    moved = f"{pairs} of ranks ({format_bytes(explanation.moved_bytes)})"
    if topology is not None:
        rest = "" if shown == explanation.moved_pairs else f", the heaviest {shown}:"
        moved += f" to other links{rest}"
        rows = [
            (
                f"{move.source} -> {move.target}",
                format_bytes(move.bytes),
                _route_words(move.links_before, topology),
                _route_words(move.links_after, topology),
            )
            for move in explanation.moves
        ]
        table = Table(("ranks", "bytes", "links before", "after"), rows, right=(1,), fold=(2, 3))
    else:
        is_all = shown == explanation.kinds_of_moves
        moved += f" to links of other levels{', most bytes first:' if is_all else ', the most:'}"
        rows = [
            (
                _level_words(move.links_before),
                _level_words(move.links_after),
                format_count(move.pairs),
                format_bytes(move.bytes),
            )
            for move in explanation.moves
        ]
        table = Table(("levels before", "after", "pairs", "bytes"), rows, right=(2, 3), fold=(0, 1))
    said = facts(
        Before=bottleneck_words(explanation.before, topology),
        After=bottleneck_words(explanation.after, topology),
        Moved=moved if rows else "no pair of ranks uses other links than before",
    )
    return [*said, *([table] if rows else []), ""]


def bottleneck_words(bottleneck: Bottleneck, topology: Topology | None) -> str:
    """The busiest link, who loads it, and what limits the transfer that ends last."""
    if bottleneck.link is None:
        return "no link carries anything"
    link = clean(bottleneck.link) if topology is None else link_words(topology, bottleneck.link)
    level = f" ({clean(bottleneck.level)})" if bottleneck.level else ""
    users = ", ".join(
        f"{load.source} -> {load.target} {format_bytes(load.bytes)}" for load in bottleneck.loads
    )
    more = bottleneck.pairs - len(bottleneck.loads)
    rest = f" and {format_count(more)} more" if more else ""
    words = (
        f"busiest is {link}{level}: {format_bytes(bottleneck.bytes)} in"
        f" {format_seconds(bottleneck.congestion_s)}, from {users}{rest}"
    )
    if bottleneck.last_source is None or topology is None:
        return words
    limit = "the limit of its own pair"
    if bottleneck.last_link is not None:
        limit = link_words(topology, bottleneck.last_link)
    return (
        f"{words}. The last transfer to end, {bottleneck.last_source} -> {bottleneck.last_target},"
        f" is held up by {limit}"
    )


def _level_words(levels: tuple[str, ...]) -> str:
    return ", ".join(map(clean, levels)) or "same device"


def _route_words(links: tuple[str, ...], topology: Topology) -> str:
    """The one link of a route, or what its links are made of in order; `same device` without."""
    if not links:
        return "same device"
    if len(links) == 1:
        return link_words(topology, links[0])
    media = [link_medium(topology.link_of_id[link]) for link in links]
    return ", ".join(f"{n} x {each}" if n > 1 else each for each, n in Counter(media).items())
