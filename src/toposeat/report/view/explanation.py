"""Why a placement was chosen: bottlenecks before and after, and what moved. All predicted."""

from __future__ import annotations

from collections import Counter

from toposeat.model.explanation import Bottleneck, Explanation
from toposeat.model.scale_result import ScaleBottleneck, ScaleExplanation
from toposeat.model.topology import Topology
from toposeat.report.parts import Fact, Part, Table, facts
from toposeat.report.units import clean, format_bytes, format_count, format_seconds, plural
from toposeat.report.view.machine import link_medium, link_words


def explanation_parts(explanation: Explanation, topology: Topology) -> list[Part]:
    """Bottlenecks and moves."""
    rows = [
        (
            f"{move.source} -> {move.target}",
            format_bytes(move.bytes),
            _route_words(move.links_before, topology),
            _route_words(move.links_after, topology),
        )
        for move in explanation.moves
    ]
    shown = len(explanation.moves)
    of_all = "" if shown == explanation.moved_pairs else f", the heaviest {shown}:"
    pairs = plural(explanation.moved_pairs, "pair")
    moved = f"{pairs} of ranks ({format_bytes(explanation.moved_bytes)}) to other links{of_all}"
    table = Table(("ranks", "bytes", "links before", "after"), rows, right=(1,), fold=(2, 3))
    said = facts(
        Before=bottleneck_words(explanation.before, topology),
        After=bottleneck_words(explanation.after, topology),
        Moved=moved if rows else "no pair of ranks uses other links than before",
    )
    return [*said, *([table] if rows else []), ""]


def scale_explanation_parts(explanation: ScaleExplanation) -> list[Part]:
    """Bottlenecks, traffic that moved between levels, and what was proved."""
    rows = [
        (
            _level_words(move.levels_before),
            _level_words(move.levels_after),
            format_count(move.pairs),
            format_bytes(move.bytes),
        )
        for move in explanation.moves
    ]
    shown = len(explanation.moves)
    of_all = ", most bytes first:" if shown == explanation.kinds_of_moves else ", the most:"
    pairs = f"{format_count(explanation.moved_pairs)} pairs of ranks"
    moved = f"{pairs} ({format_bytes(explanation.moved_bytes)}) to links of other levels{of_all}"
    table = Table(("levels before", "after", "pairs", "bytes"), rows, right=(2, 3), fold=(0, 1))
    said = facts(
        Before=_scale_bottleneck_words(explanation.before),
        After=_scale_bottleneck_words(explanation.after),
        Moved=moved if rows else "no pair of ranks uses links of other levels than before",
    )
    bound = "no bound is known for large machines: the best found, not proved"
    return [*said, *([table] if rows else []), Fact("Bound", bound)]


def bottleneck_words(bottleneck: Bottleneck, topology: Topology) -> str:
    """The busiest link, who loads it, and what limits the transfer that ends last."""
    if bottleneck.link is None:
        return "no link carries anything"
    words = _load_words(link_words(topology, bottleneck.link), bottleneck)
    if bottleneck.last_source is None:
        return words
    limit = "the limit of its own pair"
    if bottleneck.last_link is not None:
        limit = link_words(topology, bottleneck.last_link)
    return (
        f"{words}. The last transfer to end, {bottleneck.last_source} -> {bottleneck.last_target},"
        f" is held up by {limit}"
    )


def _scale_bottleneck_words(bottleneck: ScaleBottleneck) -> str:
    if bottleneck.link is None:
        return "no link carries anything"
    return _load_words(f"{clean(bottleneck.link)} ({bottleneck.level})", bottleneck)


def _load_words(link: str, bottleneck: Bottleneck | ScaleBottleneck) -> str:
    """What is on the busiest link, and the pairs that it is from."""
    users = ", ".join(
        f"{load.source} -> {load.target} {format_bytes(load.bytes)}" for load in bottleneck.loads
    )
    more = bottleneck.pairs - len(bottleneck.loads)
    rest = f" and {format_count(more)} more" if more else ""
    return (
        f"busiest is {link}: {format_bytes(bottleneck.bytes)} in"
        f" {format_seconds(bottleneck.congestion_s)}, from {users}{rest}"
    )


def _level_words(levels: tuple[str, ...]) -> str:
    return ", ".join(levels) or "same device"


def _route_words(links: tuple[str, ...], topology: Topology) -> str:
    """The one link of a route, or what its links are made of in order; `same device` without."""
    if not links:
        return "same device"
    if len(links) == 1:
        return link_words(topology, links[0])
    media = [link_medium(topology.link_of_id[link]) for link in links]
    return ", ".join(f"{n} x {each}" if n > 1 else each for each, n in Counter(media).items())
